"""What the stores of one URL share, and the whole of what a server would do: shards, sessions, and the passing of time.

All of it is synchronous, and under one lock: stores of several event loops may share it.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from sortedcontainers import SortedList

from metastore.clock import Clock, SystemClock
from metastore.engine.keys import key_order
from metastore.engine.routing import place_of
from metastore.interface import (
    Condition,
    ConditionFailed,
    Delete,
    FailedCondition,
    Index,
    Operation,
    Put,
    PutResult,
    Range,
)
from metastore.interface.checks import check_one_for_each_key, shown
from metastore.providers.memory.bells import Bells
from metastore.providers.memory.line import Lease, Line, session_lost
from metastore.providers.memory.shard import Author, Shard, Stored

SHARDS_MAX = 1024
RETENTION_WRITES = 100_000
"""So many writes of each shard are kept for watches, unless it is said otherwise; it bounds what a watch may lag."""
FAILED_SHOWN_MAX = 3

T = TypeVar("T")

_serial_numbers = itertools.count(1)


class MemoryData:
    """Records, sessions and changes, without a client."""

    def __init__(
        self,
        *,
        shards: int = 1,
        key_sorting: str = "hierarchical",
        retention_writes: int = RETENTION_WRITES,
        clock: Clock | None = None,
    ) -> None:
        assert 1 <= shards <= SHARDS_MAX
        assert retention_writes >= 1
        self.clock = clock or SystemClock()
        self.order = key_order(key_sorting)
        self.retention_writes = retention_writes
        self.shards = tuple(Shard(number, self.order, retention_writes) for number in range(shards))
        self.identity = f"{next(_serial_numbers)}@{self.clock.wall_ms()}"
        """Which data a token is of."""
        self.news = Bells()
        self.sessions: dict[int, Lease] = {}
        self.lines: list[Line] = []
        self._lock = threading.RLock()
        self._session_ids = itertools.count(1)

    def locked(self, action: Callable[[], T]) -> T:
        """Does it as one step."""
        with self._lock:
            return action()

    def shard_of(self, routing_key: str) -> Shard:
        """Where a key lives, or a partition: on the same shard as with a server that has as many."""
        return self.shards[place_of(routing_key.encode(), len(self.shards))]

    # -- writes

    def put(
        self, shard: Shard, key: str, value: bytes, expected: int | None, indexes: Sequence[Index], lease: Lease | None
    ) -> PutResult:
        shard.check_expected(key, expected)
        author = self._author(lease)
        return self._commit_put(shard, key, value, indexes, author)

    def put_next(
        self,
        shard: Shard,
        prefix: str,
        value: bytes,
        deltas: Sequence[int],
        indexes: Sequence[Index],
        lease: Lease | None,
    ) -> PutResult:
        """A put to a sequence."""
        author = self._author(lease)
        key = shard.next_of_sequence(prefix, deltas, SortedList())
        shard.note_generated(prefix, key)
        return self._commit_put(shard, key, value, indexes, author)

    def _commit_put(
        self, shard: Shard, key: str, value: bytes, indexes: Sequence[Index], author: Author | None
    ) -> PutResult:
        time_ms = self.clock.wall_ms()
        stored = shard.next_stored(key, value, indexes, author, time_ms)
        self._commit(shard, [(key, stored)], time_ms)
        return PutResult(key, stored.version)

    def delete(self, shard: Shard, key: str, expected: int | None) -> bool:
        shard.check_expected(key, expected)
        was_there = shard.find(key) is not None
        self._commit(shard, [(key, None)], self.clock.wall_ms())
        return was_there

    def delete_range(self, shard: Shard, range: Range) -> None:
        self._commit(shard, [(stored.key, None) for stored in shard.within(range)], self.clock.wall_ms())

    def transact(
        self, shard: Shard, operations: Sequence[Operation], conditions: Sequence[Condition], lease: Lease | None
    ) -> tuple[PutResult | None, ...]:
        _check_demands(shard, operations, conditions)
        author = self._author(lease)
        keys = _final_keys(shard, operations)
        time_ms = self.clock.wall_ms()
        changes: list[tuple[str, Stored | None]] = []
        for key, operation in zip(keys, operations, strict=True):
            if isinstance(operation, Delete):
                changes.append((key, None))
                continue
            if operation.sequence_deltas:
                shard.note_generated(operation.key, key)
            owner = author if operation.is_ephemeral else None
            changes.append((key, shard.next_stored(key, operation.value, operation.indexes, owner, time_ms)))
        self._commit(shard, changes, time_ms)
        return tuple(None if stored is None else PutResult(key, stored.version) for key, stored in changes)

    def _commit(self, shard: Shard, changes: Sequence[tuple[str, Stored | None]], time_ms: int) -> None:
        shard.commit(changes, time_ms)
        self.news.ring()

    # -- sessions and time

    def open_session(self, line: Line, clock: Clock, timeout_ms: int, identity: str) -> Lease:
        lease = Lease(next(self._session_ids), timeout_ms, identity, clock, self.clock)
        self.sessions[lease.session_id] = lease
        line.leases.append(lease)
        return lease

    def end_session(self, session_id: int) -> None:
        """Removes a session and its records. Its owner learns it by the next heartbeat, or by using it."""
        lease = self.sessions.pop(session_id, None)
        if lease is None:
            return
        lease.is_ended = True
        for shard in self.shards:
            keys = shard.keys_of_session(session_id)
            self._commit(shard, [(key, None) for key in keys], self.clock.wall_ms())

    def _author(self, lease: Lease | None) -> Author | None:
        if lease is None:
            return None
        if lease.is_ended:
            raise session_lost(lease)
        return Author(lease.session_id, lease.identity)

    def tick(self) -> None:
        """Lets the time that has passed take effect: heartbeats arrive, and sessions without them end.

        Where the clock is the system's, open stores do this all the time; where a test moves it, the test does.
        """
        self.locked(self._tick)

    def _tick(self) -> None:
        for line in self.lines:
            line.beat_hearts()
        for lease in list(self.sessions.values()):
            if lease.is_overdue():
                self.end_session(lease.session_id)
        for line in self.lines:
            line.news.ring()

    # -- what tests do to a store behind the back of its clients

    def expire(self, session_id: int) -> None:
        """Ends a session as if its time had run out here, while its owner still believes in it."""
        self.locked(lambda: self.end_session(session_id))

    def trim(self, keep_writes: int = 0) -> None:
        """Forgets all but the last writes of each shard: a watch that lags, or comes back, may be too late."""
        for shard in self.shards:
            shard.trim(keep_writes)
        self.news.ring()


def _final_keys(shard: Shard, operations: Sequence[Operation]) -> Sequence[str]:
    """The keys of operations, those of sequences generated; no two are the same."""
    generated: SortedList[bytes] = SortedList()
    keys = []
    for operation in operations:
        key = operation.key
        if isinstance(operation, Put) and operation.sequence_deltas:
            key = shard.next_of_sequence(key, operation.sequence_deltas, generated)
            generated.add(shard.place(key))
        keys.append(key)
    check_one_for_each_key(keys)
    return keys


def _check_demands(shard: Shard, operations: Sequence[Operation], conditions: Sequence[Condition]) -> None:
    """Raises ConditionFailed with all that does not hold."""
    demands = [(condition.key, condition.version_id) for condition in conditions]
    demands += [(each.key, each.expected) for each in operations if each.expected is not None]
    failed = tuple(
        FailedCondition(place, key, expected, actual)
        for place, (key, expected) in enumerate(demands)
        if (actual := shard.version_of(key)) != expected
    )
    if failed:
        found = [f"{shown(each.key)} is at {each.actual}, not {each.expected}" for each in failed[:FAILED_SHOWN_MAX]]
        raise ConditionFailed(
            f"{len(failed)} of {len(demands)} conditions do not hold (-1: absent), "
            f"so nothing was changed: {'; '.join(found)}",
            failed,
        )
