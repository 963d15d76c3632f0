"""What goes wrong in a simulation, at random: brokers, connections, the store's answers, the time, the segments."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

from metastore.interface import OutcomeUnknown, Unavailable
from metastore.providers.memory import Gate, LostWrites, Part
from txn.model.errors import TxnError
from txn.model.position import Position
from txn_histories.clients import Client
from txn_histories.stage import SimulatedBroker, Stage

BROKERS_MIN, BROKERS_MAX = 2, 4
CHANCE = 0.12
"""Of something going wrong in a step."""
SEGMENTS_MIN, SEGMENTS_MAX = 2, 8
JUMP_MS_MAX = 40_000
FAULTY = ("put", "transact", "delete", "get", "scan", "list", "watch")
WRITTEN = ("put", "transact", "delete")
PREFIXES: tuple[str, ...] = ("", "", "/txn/", "/txn-op/", "/segments/", "/txn-applied/")

Event = Callable[[], Coroutine[Any, Any, None]]


class Chaos:
    """One step at a time; `heal` ends everything that goes on going wrong."""

    prefixes = PREFIXES
    """Of the keys of which calls fail."""

    def __init__(self, stage: Stage, client: Client, segments: list[str]) -> None:
        self._stage = stage
        self._random = client.random
        self._client = client
        self._segments = segments
        self._numbers = itertools.count()
        self._gates: list[Gate] = []
        self._lost: list[LostWrites] = []
        self.events: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def step(self) -> None:
        """Maybe something."""
        if self._random.random() >= CHANCE:
            return
        event = self._random.choice([*self._everywhere(), *self._particular()])
        self.events.append(event.__name__)
        await event()

    def _everywhere(self) -> list[Event]:
        """What happens to brokers and to the store, whatever they are used for."""
        return [
            self._kill,
            self._stop,
            self._start,
            self._freeze,
            self._thaw,
            self._cut,
            self._mend,
            self._fail,
            self._fail,
            self._lose,
            self._arrive,
            self._hold,
            self._release,
            self._forget_changes,
            self._expire_session,
            self._jump,
        ]

    def _particular(self) -> list[Event]:
        """What happens to what they are used for."""
        return [self._seal, self._trim, self._create, self._delete]

    # -- brokers

    def _any(self) -> SimulatedBroker:
        return self._random.choice(self._stage.brokers)

    async def _kill(self) -> None:
        if len(self._stage.brokers) > BROKERS_MIN:
            self._stage.end_broker(self._any(), kill=True)

    async def _stop(self) -> None:
        if len(self._stage.brokers) > BROKERS_MIN:
            broker = self._any()
            self._heal_broker(broker)
            self._stage.end_broker(broker, kill=False)

    async def _start(self) -> None:
        if len(self._stage.brokers) < BROKERS_MAX:
            self._stage.start_broker()

    async def _freeze(self) -> None:
        if sum(not broker.is_frozen for broker in self._stage.serving) > 1:
            self._any().freeze()

    async def _thaw(self) -> None:
        for broker in self._stage.brokers:
            if broker.is_frozen:
                broker.thaw()

    async def _cut(self) -> None:
        parts = self._random.sample(list(Part), self._random.randint(1, len(Part)))
        self._any().process.store.line.cut(*parts)

    async def _mend(self) -> None:
        for broker in self._stage.brokers:
            if not broker.is_frozen:
                broker.process.store.line.mend()

    # -- the store

    async def _fail(self) -> None:
        method = self._random.choice(FAULTY)
        is_after = method in WRITTEN and self._random.random() < 0.5
        error = OutcomeUnknown("cut off") if is_after else Unavailable("no leader")
        self._any().process.script.fail(
            method,
            error,
            prefix=self._random.choice(self.prefixes),
            after=is_after,
            skip=self._random.randint(0, 3),
            times=self._random.randint(1, 4),
        )

    async def _lose(self) -> None:
        method, prefix = self._random.choice(WRITTEN), self._random.choice(self.prefixes)
        self._lost.append(self._any().process.script.lose(method, prefix=prefix, times=self._random.randint(1, 2)))

    async def _arrive(self) -> None:
        if self._lost:
            self._lost.pop(self._random.randrange(len(self._lost))).arrive()

    async def _hold(self) -> None:
        method, prefix = self._random.choice(FAULTY), self._random.choice(self.prefixes)
        is_after = self._random.random() < 0.5
        self._gates.append(self._any().process.script.hold(method, prefix=prefix, after=is_after))

    async def _release(self) -> None:
        if self._gates:
            self._gates.pop(self._random.randrange(len(self._gates))).release()

    async def _forget_changes(self) -> None:
        self._stage.world.data.trim(self._random.randint(0, 5))

    async def _expire_session(self) -> None:
        sessions = sorted(self._stage.world.data.sessions)
        if sessions:
            self._stage.world.data.expire(self._random.choice(sessions))

    async def _jump(self) -> None:
        await self._stage.step(self._random.randint(1, JUMP_MS_MAX))

    # -- segments

    async def _seal(self) -> None:
        if len(self._segments) > SEGMENTS_MIN:
            segment = self._random.choice(self._segments)

            async def seal() -> None:
                reached = await self._client.reach(segment)
                await reached.broker.call(reached.segment.seal)

            self._beside(seal())

    async def _trim(self) -> None:
        segment = self._random.choice(self._segments)

        async def trim() -> None:
            reached = await self._client.reach(segment)
            end = reached.segment.stats.end
            before = Position(end.ledger, self._random.randint(0, end.entry))
            self._client.recorder.note("trim", segment=segment, before=str(before))
            await reached.broker.call(reached.segment.trim, before)

        self._beside(trim())

    async def _create(self) -> None:
        if len(self._segments) < SEGMENTS_MAX:
            self.create()

    def create(self) -> None:
        """One more segment; their names begin with each other."""
        segment = f"segment://public/default/topic/{'x' * next(self._numbers)}"

        async def made() -> None:
            broker = self._client.any_broker()
            if broker is not None and broker.host is not None:
                await broker.call(broker.host.create, segment)
                self._segments.append(segment)

        self._beside(made())

    async def _delete(self) -> None:
        if len(self._segments) > SEGMENTS_MIN and self._random.random() < 0.5:
            segment = self._random.choice(self._segments)
            self._segments.remove(segment)

            async def delete() -> None:
                broker = self._client.any_broker()
                if broker is not None and broker.host is not None:
                    await broker.call(broker.host.delete, segment)

            self._beside(delete())

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Goes on while other things happen; who is refused does not insist."""

        async def tried() -> None:
            try:
                await work
            except TxnError as error:
                self.events.append(f"refused: {type(error).__name__}")

        self.tasks.append(asyncio.ensure_future(tried()))

    # -- the end

    def _heal_broker(self, broker: SimulatedBroker) -> None:
        broker.process.script.clear()
        broker.process.store.line.mend()
        broker.thaw()

    def heal(self) -> None:
        """Nothing goes wrong any more; what was lost on its way arrives now."""
        for gate in self._gates:
            gate.release()
        for lost in self._lost:
            lost.arrive()
        for broker in self._stage.brokers:
            self._heal_broker(broker)
