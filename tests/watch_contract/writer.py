"""A writer that does everything a store lets one do, by a seed, and notes what came of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, takewhile

from metastore.interface import (
    ABSENT,
    Abortable,
    Index,
    MetadataStore,
    OutcomeUnknown,
    Range,
    Retriable,
    Session,
    SessionLost,
)
from metastore.interface import Delete as DeleteOperation
from metastore.interface import Put as PutOperation
from watch_contract.notes import Notes
from watch_contract.writes import Answer, EndSession, Fate, Operation, Put, Remove, RemoveRange

INDEX = "color"
OTHER_INDEX = "size"
COLORS = 6
OWN_KEYS = 16
SHARED_KEYS = 6
TRANSACT_MAX = 6
MANY_KEYS = 120
"""Of a write that is told in several messages, and that a watch may be cut off in the middle of."""
LARGE_BYTES = 6_000
BURST_MAX = 8
SESSION_TIMEOUT_MS = 60_000
FURTHER_ROUNDS_MAX = 20
"""How many times longer than planned a writer may go on, for want of what the run is to show."""
SHARED_PARTITION = "shared-partition"


class Writer:
    """One store object's writes. Keys under its own name are its own; those under /shared are everybody's."""

    def __init__(
        self, name: str, store: MetadataStore, notes: Notes, seed: int, indexes_ephemerals: bool = True
    ) -> None:
        self.name = name
        self._store = store
        self._notes = notes
        self._random = random.Random(seed)
        self._indexes_ephemerals = indexes_ephemerals
        self._versions: dict[str, int] = {}
        """As last heard, of all keys; those not in it are thought to be absent."""
        self._session: Session | None = None
        self._session_name = ""
        self._session_opened = 0

    async def run(self, rounds: int) -> None:
        """So many calls, one after the other, but for bursts; and more until the watchers have met with enough.

        How fast those get along is not ours to say: a floor on what happens to them holds because it is waited for.
        """
        choices: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (36, self._put_own),
            (14, self._put_shared),
            (8, self._remove_own),
            (8, self._remove_shared),
            (6, self._burst),
            (4, self._remove_range),
            (4, self._put_ephemeral),
            (2, self._end_session),
        ]
        if self._store.capabilities.transact:
            choices += [(14, self._transact), (2, self._write_many)]
        weights, actions = zip(*choices, strict=True)
        planned = self._random.choices(actions, weights, k=rounds)
        further = (self._random.choices(actions, weights)[0] for _ in range(rounds * FURTHER_ROUNDS_MAX))
        for action in chain(planned, takewhile(lambda _: not self._notes.is_enough, further)):
            async with self._notes.turn():
                await action()

    async def mark(self, key: str) -> None:
        """A last write that everybody can wait for."""
        await self._put(key, b"the end")

    # -- single records

    async def _put_own(self) -> None:
        await self._put(self._own_key())

    async def _put_shared(self) -> None:
        await self._put(self._shared_key())

    async def _put(self, key: str, text: bytes = b"", session: Session | None = None) -> None:
        expected = self._expected(key)
        indexes = self._indexes() if session is None or self._indexes_ephemerals else ()
        name = None if session is None else self._session_name
        put = Put(key, self._value(text), expected, indexes, name)

        async def call() -> tuple[Answer, ...]:
            result = await self._store.put(key, put.value, expected=expected, session=session, indexes=indexes)
            return (result.version,)

        await self._do(self._notes.shard_of(key), (put,), call)

    async def _remove_own(self) -> None:
        await self._remove(self._own_key(), self._random.random() < 0.3)

    async def _remove_shared(self) -> None:
        await self._remove(self._shared_key(), True)

    async def _remove(self, key: str, is_conditional: bool) -> None:
        expected = self._versions.get(key) if is_conditional else None

        async def call() -> tuple[Answer, ...]:
            return (await self._store.delete(key, expected=expected),)

        await self._do(self._notes.shard_of(key), (Remove(key, expected),), call)

    async def _burst(self) -> None:
        """Calls on several keys at once: a client may put them together in one request."""
        keys = self._random.sample([self._own_key(number) for number in range(OWN_KEYS)], BURST_MAX)
        await asyncio.gather(
            *(self._put(key) if self._random.random() < 0.7 else self._remove(key, False) for key in keys)
        )

    # -- several records

    async def _remove_range(self) -> None:
        first, second = sorted(self._random.sample(range(OWN_KEYS + 1), 2))
        removed = Range(self._own_key(first), self._own_key(second))
        await self._on_all_shards(RemoveRange(removed.start, removed.end), lambda: self._store.delete_range(removed))

    async def _transact(self) -> None:
        is_shared = self._random.random() < 0.3
        partition, prefix = (SHARED_PARTITION, "/shared/p") if is_shared else (self.name, f"/{self.name}/p")
        numbers = self._random.sample(range(TRANSACT_MAX * 2), self._random.randint(1, TRANSACT_MAX))
        operations: list[Put | Remove] = [self._new_put(f"{prefix}/{numbers[0]}")]
        for number in numbers[1:]:
            key = f"{prefix}/{number}"
            known = self._versions.get(key)
            if known is not None and self._random.random() < 0.4:
                operations.append(Remove(key, known if is_shared else None))
            else:
                operations.append(self._new_put(key))
        await self._transact_all(partition, operations)

    async def _write_many(self) -> None:
        """Many records at once, some of them large."""
        partition, prefix = f"{self.name}-many", f"/{self.name}/many"
        size = LARGE_BYTES if self._random.random() < 0.5 else 0
        operations: list[Put | Remove] = [self._new_put(f"{prefix}/{number}", size) for number in range(MANY_KEYS)]
        if self._random.random() < 0.3:
            operations[1:] = [Remove(put.key) for put in operations[1:]]
        await self._transact_all(partition, operations)

    async def _transact_all(self, partition: str, operations: Sequence[Put | Remove]) -> None:
        asked = [
            PutOperation(each.key, each.value, each.expected, each.indexes)
            if isinstance(each, Put)
            else DeleteOperation(each.key, each.expected)
            for each in operations
        ]

        async def call() -> tuple[Answer, ...]:
            results = await self._store.transact(partition, asked)
            return tuple(None if result is None else result.version for result in results)

        await self._do(self._notes.shard_of(partition), tuple(operations), call)

    # -- sessions

    async def _put_ephemeral(self) -> None:
        if self._session is None or self._session.is_lost:
            await self._forget_session()
            try:
                self._session_opened = self._notes.tick()
                self._session = await self._store.open_session(SESSION_TIMEOUT_MS)
                self._session_name = f"{self.name}-session-{self._notes.number()}"
            except Retriable:
                return
        await self._put(self._own_key(), session=self._session)

    async def _end_session(self) -> None:
        await self.note_loss()  # closing what is lost does nothing: it ends when its time is over
        if self._session is not None:
            session, self._session = self._session, None
            await self._on_all_shards(EndSession(self._session_name), session.close)

    async def note_loss(self) -> None:
        """Notes it if the session has been lost meanwhile; at the end at the latest."""
        if self._session is not None and self._session.is_lost:
            await self._forget_session()

    async def _forget_session(self) -> None:
        """A lost session ended, or ends, at a time that nobody knows."""
        if self._session is not None:
            self._session = None
            for shard in range(self._notes.shards):
                end = EndSession(self._session_name)
                self._notes.note(self.name, shard, (end,), self._session_opened, Fate.UNKNOWN)

    # -- noting

    async def _do(
        self, shard: int, operations: tuple[Operation, ...], call: Callable[[], Awaitable[tuple[Answer, ...]]]
    ) -> None:
        """Does a call on one shard, and notes what came of it."""
        invoked = self._notes.tick()
        answers: tuple[Answer, ...] = ()
        try:
            answers = await call()
            fate = Fate.DONE
        except OutcomeUnknown:
            fate = Fate.UNKNOWN
        except SessionLost:
            fate = Fate.REFUSED
            await self._forget_session()
        except (Abortable, Retriable):
            fate = Fate.REFUSED
        self._notes.note(self.name, shard, operations, invoked, fate, answers)
        for place, operation in enumerate(operations):
            if isinstance(operation, Put | Remove):
                self._learn(operation, fate, answers[place] if answers else None)

    def _learn(self, operation: Put | Remove, fate: Fate, answer: Answer) -> None:
        self._versions.pop(operation.key, None)
        if fate is Fate.DONE and isinstance(operation, Put):
            assert answer is not None
            assert not isinstance(answer, bool)
            self._versions[operation.key] = answer.version_id

    async def _on_all_shards(self, operation: Operation, call: Callable[[], Awaitable[None]]) -> None:
        """A call that is one write on each shard; if it fails, some may have happened."""
        invoked = self._notes.tick()
        try:
            await call()
            fate = Fate.DONE
        except (Abortable, Retriable):
            fate = Fate.UNKNOWN
        for shard in range(self._notes.shards):
            self._notes.note(self.name, shard, (operation,), invoked, fate, (None,))

    # -- choosing

    def _own_key(self, number: int | None = None) -> str:
        return f"/{self.name}/k{self._random.randrange(OWN_KEYS) if number is None else number:02d}"

    def _shared_key(self) -> str:
        return f"/shared/k{self._random.randrange(SHARED_KEYS):02d}"

    def _value(self, text: bytes = b"") -> bytes:
        return b"%d by %s %s" % (self._notes.number(), self.name.encode(), text)

    def _new_put(self, key: str, size: int = 0) -> Put:
        return Put(key, self._value(b"x" * size), self._expected(key), self._indexes())

    def _expected(self, key: str) -> int | None:
        """Mostly none; else what was last heard, which others may have overtaken."""
        return self._versions.get(key, ABSENT) if self._random.random() < 0.25 else None

    def _indexes(self) -> tuple[Index, ...]:
        count = self._random.choices((0, 1, 2), (3, 5, 2))[0]
        colors = [(INDEX, f"{color}") for color in self._random.sample(range(COLORS), count)]
        return (*colors, (OTHER_INDEX, "large")) if self._random.random() < 0.2 else tuple(colors)
