"""Clients of a simulation: they find who owns a segment, publish, begin and end transactions, and note all of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar

from metastore.clock import Clock
from metastore.coordination import Pace
from txn.hosting import Host
from txn.hosting.errors import NoSuchSegment, OwnedElsewhere
from txn.hosting.segment import Segment
from txn.model.errors import CoordinatorUnavailable, SegmentUnavailable, TxnNotFound, TxnRetriable
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.segment.entry import Entry
from txn.segment.errors import SegmentSealed
from txn_histories import calls
from txn_histories.notes import Fate
from txn_histories.recorder import Recorder
from txn_histories.stage import ConnectionLost, heard

LOOKS_MAX = 400
"""How often somebody looks for the owner of a segment, before a simulation fails."""
PAUSE_S_MAX = 2.0
ATTEMPTS_MAX = 200

T = TypeVar("T")
P = ParamSpec("P")


class Broker(Protocol):
    """A broker, as clients know it: simulated, or one in this process."""

    name: str
    host: Host | None
    """None until it has started."""

    async def call(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> T:
        """A client's call."""


class Surroundings(Protocol):
    """Where clients are."""

    seed: int
    pace: Pace
    """That of the clients."""
    timeout_ms_max: int
    """Of transactions."""

    @property
    def clock(self) -> Clock:
        """The same for all."""

    @property
    def serving(self) -> Sequence[Broker]:
        """The brokers there are."""


@dataclass(frozen=True, slots=True)
class Reached:
    """A segment, and the broker that has it."""

    broker: Broker
    segment: Segment

    async def through(self, answer: asyncio.Future[T]) -> T:
        """What comes of a call that was made, as long as the broker lives."""
        answer.add_done_callback(heard)
        return await self.broker.call(_awaited, answer)


async def _awaited(answer: asyncio.Future[T]) -> T:
    return await answer


@dataclass
class Transaction:
    """A transaction of a client."""

    txn_id: TxnId
    has_failed: bool = False
    """One of its operations was refused, or may have been lost: it must not commit."""
    state: TxnState | None = None
    """How it ended, as far as its client was told."""


class Client:
    """What all clients can do."""

    def __init__(self, stage: Surroundings, recorder: Recorder, name: str) -> None:
        self.name = name
        self.stage = stage
        self.recorder = recorder
        self.random = random.Random(f"{stage.seed} {name}")
        self._known: dict[str, Reached] = {}
        """Where segments were found: it may be wrong by now."""

    async def pause(self, seconds_max: float = PAUSE_S_MAX) -> None:
        await self.stage.pace.sleep(self.random.random() * seconds_max)

    def any_broker(self) -> Broker | None:
        brokers = self.stage.serving
        return self.random.choice(brokers) if brokers else None

    # -- segments

    async def reach(self, segment: str) -> Reached:
        """The owner of a segment; the one that was found before, until that fails."""
        known = self._known.get(segment)
        if known is not None:
            return known
        wanted: str | None = None
        for _ in range(LOOKS_MAX):
            named = [broker for broker in self.stage.serving if broker.name == wanted]
            broker = named[0] if named else self.any_broker()
            wanted = None
            if broker is not None and broker.host is not None:
                try:
                    found = Reached(broker, await broker.call(broker.host.get, segment))
                except OwnedElsewhere as error:
                    wanted = error.broker
                except SegmentUnavailable:
                    pass  # nobody has it at the moment
                else:
                    self._known[segment] = found
                    return found
            await self.pause()
        raise AssertionError(f"nobody serves {segment!r} in {LOOKS_MAX} attempts")

    def forget(self, segment: str) -> None:
        """It was not to be had there."""
        self._known.pop(segment, None)

    # -- transactions

    async def begin(self, timeout_ms: int | None = None) -> Transaction:
        """Begins one, wherever that is possible."""
        timeout_ms = timeout_ms or self.random.randint(1, self.stage.timeout_ms_max)
        for _ in range(ATTEMPTS_MAX):
            broker = self.any_broker()
            if broker is not None and broker.host is not None:
                try:
                    txn_id = await broker.call(broker.host.coordinator.begin, timeout_ms)
                    header = await broker.call(broker.host.coordinator.describe, txn_id)
                except (TxnRetriable, TxnNotFound):
                    pass
                else:
                    self.recorder.note("begun", txn=str(txn_id), deadline_ms=header.timeout_ms)
                    return Transaction(txn_id)
            await self.pause()
        raise AssertionError(f"no transaction can be begun in {ATTEMPTS_MAX} attempts")

    async def end(self, transaction: Transaction, wanted: TxnState, attempts_max: int = ATTEMPTS_MAX) -> None:
        """Ends one; asks again, maybe elsewhere, until the outcome is told."""
        assert wanted is TxnState.ABORTED or not transaction.has_failed, "who has lost something does not commit"
        for _ in range(attempts_max):
            broker = self.any_broker()
            if broker is not None and broker.host is not None:
                coordinator, now_ms = broker.host.coordinator, self.stage.clock.wall_ms
                try:
                    transaction.state = await broker.call(
                        calls.end, self.recorder, coordinator, transaction.txn_id, wanted, now_ms
                    )
                except TxnNotFound:
                    return  # it was collected: nobody can say any more
                except ConnectionLost:
                    transaction.state = None
                if transaction.state is not None:
                    return
            await self.pause()

    async def look(self, transaction: Transaction) -> None:
        """Asks somewhere how it is."""
        broker = self.any_broker()
        if broker is not None and broker.host is not None:
            try:
                await broker.call(calls.look, self.recorder, broker.host.coordinator, transaction.txn_id)
            except (SegmentUnavailable, CoordinatorUnavailable):
                return  # nobody was told anything


@dataclass
class Publisher:
    """A producer: it numbers its messages for each segment, and sends again what it has no answer to."""

    client: Client
    name: str
    numbers: dict[str, int] = field(default_factory=dict)

    async def publish(self, segment: str, transaction: Transaction | None, count: int = 1, size: int = 1) -> None:
        """Sends messages one behind the other, without waiting for the answers; raises why there can be none."""
        entries = [self._entry(segment, transaction, size) for _ in range(count)]
        for _ in range(ATTEMPTS_MAX):
            told = await self._send(segment, entries)
            refused = [each.error for each in told if each.fate is Fate.REFUSED]
            if transaction is not None and refused:
                transaction.has_failed = True
            entries = [entry for entry, each in zip(entries, told, strict=True) if each.fate is Fate.UNKNOWN]
            sealed = [error for error in refused if isinstance(error, SegmentSealed | NoSuchSegment)]
            if sealed:
                raise sealed[0]
            if not entries:
                return
            self.client.forget(segment)
            await self.client.pause()
        raise AssertionError(f"{self.name} is not answered in {ATTEMPTS_MAX} attempts")

    def _entry(self, segment: str, transaction: Transaction | None, size: int) -> Entry:
        number = self.numbers.get(segment, 0)
        self.numbers[segment] = number + size
        payload = self.client.recorder.new_name("m").encode()
        txn_id = None if transaction is None else transaction.txn_id
        now_ms = self.client.stage.clock.wall_ms()
        return Entry(payload, self.name, number, txn_id, now_ms, message_count=size)

    async def _send(self, segment: str, entries: Sequence[Entry]) -> list[calls.Told]:
        reached = await self.client.reach(segment)
        sends = [
            asyncio.ensure_future(self._send_one(reached, entry)) for entry in entries
        ]  # tasks begin in the order in which they were made
        return list(await asyncio.gather(*sends))

    async def _send_one(self, reached: Reached, entry: Entry) -> calls.Told:
        return await calls.publish(self.client.recorder, reached.segment, entry, reached.through)
