"""A shard: the engine's door. One log, one LMDB environment, one order of keys; everything in one process.

    with Shard.open(directory, ShardOptions()) as shard:
        shard.write(WriteBatch(puts=[(b"/a", b"1", None)]))
        shard.get(Get(b"/a"))

All methods may be called from any thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from metastore.clock import Clock, SystemClock
from metastore.engine import limits, read
from metastore.engine.changelog import ChangeLog
from metastore.engine.errors import InvalidSessionTimeout, ShardStopped, StoreDamaged, StoreInUse
from metastore.engine.feeder import Feeder
from metastore.engine.keys import key_order
from metastore.engine.notifications import NotificationBatch
from metastore.engine.operations import Get, Range, Transaction, WriteBatch, WriteResult
from metastore.engine.overlay import View
from metastore.engine.points import Points
from metastore.engine.previous import PreviousRecords
from metastore.engine.recovery import replay, resume_sessions, show_internal_record
from metastore.engine.rounds import Chain, Done, Request, Rounds
from metastore.engine.scan import EntryScan, Scan
from metastore.engine.sequence import highest_key
from metastore.engine.sessions import SessionSchedule
from metastore.engine.stage import Stage
from metastore.engine.statistics import ShardStatistics
from metastore.engine.store import Store, StoreOptions
from metastore.engine.validate import (
    check_batch,
    check_gets,
    check_keys,
    check_range,
    check_text,
    check_transaction,
)
from metastore.faults import NO_FAULTS, Faults
from metastore.files import lock_file
from metastore.log import Frame, Log, LogError, LogOptions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShardOptions:
    """How a shard keeps its data."""

    key_sorting: str = "hierarchical"
    retention_ms: int = 3_600_000
    """How long log entries are kept for subscribers, at least."""
    quota_bytes: int | None = None
    """What records and indexes may take; beyond it only deletes are accepted."""
    store: StoreOptions = field(default_factory=StoreOptions)
    log: LogOptions = field(default_factory=LogOptions)


class Shard:
    """One shard, open."""

    def __init__(
        self,
        store: Store,
        log: Log,
        previous: PreviousRecords,
        options: ShardOptions,
        clock: Clock,
        faults: Faults,
    ) -> None:
        self.options = options
        self.order = key_order(options.key_sorting)
        self._clock = clock
        self._store = store
        self._log = log
        self._previous = previous
        self._changes = ChangeLog(log, store, previous, self.order, clock, options.retention_ms)
        self.sessions = SessionSchedule()
        self.statistics = ShardStatistics()
        self.feeder = Feeder(store, faults, self._on_failure)
        self.rounds = Rounds(
            store,
            log,
            self.feeder,
            self.order,
            clock,
            self.sessions,
            options.quota_bytes,
            faults,
            self.statistics,
        )
        self.points = Points(store, self.order, clock)
        self._closed = False
        self._release = ExitStack()
        """Closes the log, the store and the lock, in this order."""

    @classmethod
    def open(
        cls,
        directory: Path,
        options: ShardOptions = ShardOptions(),  # noqa: B008 - immutable
        clock: Clock = SystemClock(),  # noqa: B008 - stateless
        faults: Faults = NO_FAULTS,
    ) -> Shard:
        """Opens or creates a shard: what LMDB lacks is replayed from the log."""
        with ExitStack() as undo:
            lock = _lock(directory)
            undo.callback(os.close, lock)
            store = Store(directory / "index", options.store)
            undo.callback(store.close)
            floor = store.applied.next_offset
            try:
                log = Log.open(directory / "log", options.log, faults=faults, durable_floor=floor)
            except LogError as error:
                raise StoreDamaged(f"{directory}: {error}") from error
            undo.callback(log.close)
            shard = cls(store, log, PreviousRecords(directory, faults), options, clock, faults)
            replay(store, log)
            show_internal_record(store, shard.order)
            resume_sessions(store, shard.sessions, clock.monotonic_s())
            shard._release = undo.pop_all()
        shard.feeder.start()
        return shard

    # -- writing

    def submit_write(self, batch: WriteBatch, done: Done, chain: Chain | None = None) -> None:
        """Hands a write over; `done` gets a WriteResult or an error, after it is durable. Raises InvalidRequest."""
        check_batch(batch)
        self.rounds.submit(Request(Stage.write, batch, done, batch.only_deletes, chain))

    def submit_transact(self, transaction: Transaction, done: Done) -> None:
        """Hands a transaction over; `done` gets a WriteResult, ConditionsFailed, SessionNotFound or another error."""
        check_transaction(transaction)
        self.rounds.submit(Request(Stage.transact, transaction, done, transaction.only_deletes))

    def submit_create_session(self, timeout_ms: int, identity: bytes, done: Done) -> None:
        """Hands over the creation of a session; `done` gets its id."""
        if not limits.SESSION_TIMEOUT_MS_MIN <= timeout_ms <= limits.SESSION_TIMEOUT_MS_MAX:
            raise InvalidSessionTimeout(timeout_ms)
        check_text("client identity", identity)
        self.rounds.submit(Request(_create_session, (timeout_ms, identity), done, makes_space=False))

    def submit_close_session(self, session_id: int, done: Done) -> None:
        """Hands over the end of a session and of its records."""
        self.rounds.submit(Request(Stage.close_session, session_id, done, makes_space=True))

    def write(self, batch: WriteBatch) -> WriteResult:
        """Writes and waits until it is durable."""
        return self._wait(lambda done: self.submit_write(batch, done))  # type: ignore[no-any-return]

    def transact(self, transaction: Transaction) -> WriteResult:
        """Writes all or nothing, and waits until it is durable."""
        return self._wait(lambda done: self.submit_transact(transaction, done))  # type: ignore[no-any-return]

    def create_session(self, timeout_ms: int, identity: bytes = b"") -> int:
        """Creates a session and returns its id, when it is durable."""
        return self._wait(  # type: ignore[no-any-return]
            lambda done: self.submit_create_session(timeout_ms, identity, done)
        )

    def close_session(self, session_id: int) -> None:
        """Ends a session and removes its records."""
        self._wait(lambda done: self.submit_close_session(session_id, done))

    def keep_alive(self, session_id: int) -> None:
        """A heartbeat."""
        self.check_open()
        with self._store.lock:
            self.sessions.keep_alive(session_id, self._clock.monotonic_s())

    def note_standstill(self, standstill_s: float) -> None:
        """This process stood still for so long, until now: sessions do not end for heartbeats that were not read."""
        with self._store.lock:
            self.sessions.stood_still(standstill_s, self._clock.monotonic_s())

    def expire_sessions(self, until_s: float | None = None) -> int:
        """Ends the sessions whose time is over, now or at that time, in batches; returns how many there were."""
        expired = 0
        judged_s = self._clock.monotonic_s() if until_s is None else until_s
        while not self._closed and self.rounds.failure is None:
            with self._store.lock:
                due = self.sessions.due(judged_s, limits.SESSIONS_PER_EXPIRY_MAX)
            if not due:
                break
            argument = due, judged_s
            self._wait(lambda done: self.rounds.submit(Request(self._expire, argument, done, makes_space=True)))  # noqa: B023
            expired += len(due)
            self.statistics.sessions_expired += len(due)
        return expired

    def _expire(self, stage: Stage, argument: tuple[list[int], float]) -> None:
        """Heartbeats may have come meanwhile: judges again, in the round itself."""
        session_ids, judged_s = argument
        stage.close_sessions([each for each in session_ids if self.sessions.is_due(each, judged_s)])

    def _wait(self, submit: Callable[[Done], None]) -> Any:
        answered = threading.Lock()
        answered.acquire()
        outcome: list[Any] = [None, None]

        def done(result: Any, error: BaseException | None) -> None:
            outcome[:] = result, error
            answered.release()

        submit(done)
        answered.acquire()
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    # -- reading

    def get(self, request: Get) -> read.Found | None:
        """One point read, of the latest durable state."""
        return self.get_many([request])[0]

    def get_many(self, requests: list[Get]) -> list[read.Found | None]:
        """Several point reads of one state; fewer if what they find is large, one in any case."""
        check_gets(requests)
        return self._read(lambda view: read.get_many(view, self.order, requests))

    def get_records(self, keys: list[bytes]) -> list[bytes | None]:
        """What `get_many` finds by these keys, at a lower price."""
        check_keys(keys)
        encode = self.order.encode
        return self._read(lambda view: view.records([encode(key) for key in keys]))

    def _read(self, find: Callable[[View], list[T]]) -> list[T]:
        """What is found in the latest durable state, counted and timed."""
        self.check_open()
        began_s = self._clock.monotonic_s()
        with self._store.lock:
            found = find(self._store.view)
        self.statistics.gets += len(found)
        self.statistics.read_seconds.observe(self._clock.monotonic_s() - began_s)
        return found

    def scan(self, request: Range) -> Scan:
        """The records of a range, in order; to be closed."""
        self.check_open()
        check_range(request)
        self.statistics.range_scans += 1
        return Scan(self._store, self.order, request, keys_only=False)

    def list_keys(self, request: Range) -> Scan:
        """The keys of a range, in order; to be closed."""
        self.check_open()
        check_range(request)
        self.statistics.lists += 1
        return Scan(self._store, self.order, request, keys_only=True)

    def scan_entries(
        self, request: Range, keys_only: bool = False, admit: Callable[[], bool] = lambda: True
    ) -> EntryScan:
        """The records of a range with the entries that lead to them, in order; an empty end is open. To be closed.

        A range that is longer than one chunk asks `admit`, which must be quick, and is Overloaded if that refuses.
        """
        self.check_open()
        check_range(request)
        self.statistics.range_scans += 1
        return EntryScan(self._store, self.order, request, keys_only, admit)

    def highest_sequence_key(self, prefix: bytes) -> bytes | None:
        """The newest key of a sequence, if it has one."""
        self.check_open()
        check_text("key", prefix)
        with self._store.lock:
            return highest_key(self._store.view, self.order, prefix)

    # -- the change log

    @property
    def next_offset(self) -> int:
        """The offset that the next write request gets; everything below is durable."""
        return self._store.durable.next_offset

    @property
    def first_offset(self) -> int:
        """The oldest offset that is retained."""
        return self._log.first_offset

    def notifications(self, offset: int, bytes_max: int) -> list[NotificationBatch]:
        """The news from an offset on (or from the oldest retained one), about so many bytes of log."""
        self.check_open()
        return self._changes.notifications(offset, bytes_max)

    def read_log(self, offset: int, bytes_max: int) -> list[Frame]:
        """About so many bytes of the change log, one frame at least if there is any; LogTrimmed if it is gone.

        The last frame may reach beyond `next_offset`: what is durable comes first into the log, then to readers.
        """
        self.check_open()
        return self._log.read(offset, bytes_max)

    def keep_previous(self) -> int:
        """From the offset on that this returns, the log tells what records were before they changed; durably so.

        To be called between rounds, as is `tend_previous`.
        """
        self.check_open()
        return self._changes.keep_previous()

    def tend_previous(self, is_wanted: bool) -> None:
        """To be called now and then: ends `keep_previous` when nobody has wanted it for a retention time."""
        self._changes.tend_previous(is_wanted)

    @property
    def previous_since(self) -> int | None:
        """Since which offset the log tells what records were before; None if it does not."""
        return self._previous.since_offset

    def size_bytes(self) -> int:
        """What the records and indexes take; the log has a size of its own."""
        if self._closed:
            return 0
        with self._store.lock:
            return self._store.size_bytes()

    def trim_log(self) -> int:
        """Drops log entries that are older than the retention and in LMDB; returns the oldest offset left.

        LMDB forgets those who read its file and were killed: what they held can be used again.
        """
        self.store.environment.reader_check()
        return self.rounds.between_rounds(self._changes.trim)

    # -- the end

    def _on_failure(self, error: BaseException) -> None:
        self.rounds.fail(error)

    def check_open(self) -> None:
        """Raises ShardStopped if there is nothing more to expect of the shard."""
        if self._closed:
            raise ShardStopped("the shard is closed")
        if self.rounds.failure is not None:
            raise ShardStopped(f"the shard stopped: {self.rounds.failure}")

    def close(self, within_s: float | None = None) -> None:
        """Brings LMDB up to date, for so long at the most, and releases everything.

        Requests that still wait are refused. What LMDB lacks in the end is in the log.
        """
        if self._closed:
            return
        failed = self.rounds.failure is not None
        self._closed = True
        self.points.close()
        self.rounds.fail(ShardStopped("the shard is closed"))
        self.rounds.between_rounds(self.feeder.stop)
        if not failed:
            end_s = None if within_s is None else self._clock.monotonic_s() + within_s
            self.feeder.feed_all(lambda: end_s is not None and self._clock.monotonic_s() > end_s)
        self._release.close()

    def abandon(self) -> None:
        """Releases everything as a crash would, LMDB left behind; for tests of recovery."""
        self._closed = True
        self.points.close()
        self.rounds.fail(ShardStopped("the shard is abandoned"))
        self.rounds.between_rounds(self.feeder.stop)
        self._release.close()

    def __enter__(self) -> Shard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def log(self) -> Log:
        """The change log, for the metrics."""
        return self._log

    @property
    def store(self) -> Store:
        """The store, for the metrics."""
        return self._store


def _lock(directory: Path) -> int:
    """Makes the directory this process's own."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        return lock_file(directory / "LOCK")
    except BlockingIOError as error:
        raise StoreInUse(f"{directory} is in use by another process") from error


def _create_session(stage: Stage, argument: tuple[int, bytes]) -> int:
    return stage.create_session(*argument)
