"""The rules of the watch machine: random writes, watches, readers, trimming and restarts, beside the model."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from watch_model import ModelRecord, ShardModel
from watch_reader import Reader

from metastore.clock import ManualClock
from metastore.engine import scan
from metastore.engine.errors import ConditionsFailed, SessionNotFound
from metastore.engine.operations import PutOptions, Transaction, WriteBatch, WriteResult
from metastore.engine.shard import Shard, ShardOptions
from metastore.engine.store import StoreOptions
from metastore.log import LogOptions
from metastore.watch import limits
from metastore.watch.errors import OffsetTrimmed, PreviousValuesMissing
from metastore.watch.hub import WatchHub
from metastore.watch.spec import NOW, WatchSpec

KEYS = st.sampled_from([b"a", b"b", b"a/b", b"a/c", b"a/c/d", b"a//", b"z", b"b\0", "/é".encode(), b"__oxia/x"])
BOUNDS = st.sampled_from([b"", b"a", b"a/", b"a//", b"b", b"c", b"a/c", b"b\0", b"zz"])
NAMES = st.sampled_from([b"i", b"i", b"i\0", b"j"])
SECONDARIES = st.sampled_from([b"", b"1", b"1_2", b"1_20", b"1\0", b"2", b"a/b"])
INDEX_BOUNDS = st.sampled_from([b"", b"", b"1", b"1_2", b"1_2\0", b"2", b"3", b"a/b"])
INDEXES = st.lists(st.tuples(NAMES, SECONDARIES), max_size=3).map(tuple)
VALUES = st.sampled_from([b"", b"v", b"w" * 40, b"x" * 300])
OVERRIDES = st.none() | st.sampled_from([-2, -1, 0, 1, 7])

SESSION_TIMEOUT_MS = 10_000
RETENTION_MS = 60_000
SMALL = ShardOptions(
    retention_ms=RETENTION_MS,
    store=StoreOptions(map_bytes=1 << 20, generation_bytes=4 << 10, lag_bytes_max=64 << 10),
    log=LogOptions(segment_bytes_max=1 << 10, step_bytes_min=4 << 10, reserve_bytes=4 << 10, sync=False),
)


@st.composite
def batches(draw: st.DrawFn, sessions: list[int]) -> WriteBatch:
    """A write request of all that there is."""
    return WriteBatch(
        draw(st.lists(puts(sessions, with_overrides=True), max_size=3)),
        draw(st.lists(st.tuples(KEYS, st.none() | st.integers(-1, 5)), max_size=2)),
        draw(st.lists(st.tuples(BOUNDS, BOUNDS), max_size=1)),
    )


@st.composite
def puts(draw: st.DrawFn, sessions: list[int], with_overrides: bool) -> Any:
    options = PutOptions(
        expected_version_id=draw(st.none() | st.none() | st.integers(-1, 5)),
        session_id=draw(st.none() | st.sampled_from([*sessions, 99])) if sessions else None,
        secondary_indexes=draw(INDEXES),
        override_modifications_count=draw(OVERRIDES) if with_overrides else None,
    )
    return draw(KEYS), draw(VALUES), draw(st.sampled_from([None, options, options, options]))


class WatchMachine(RuleBasedStateMachine):
    """One shard, its hub, and any number of readers at any pace."""

    sorting = "hierarchical"

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.folder = Path(self.stack.enter_context(TemporaryDirectory(prefix="tidemark-watch-")))
        for module, name, value in (
            (limits, "FEED_EVENTS_MAX", 4),
            (limits, "LOG_READ_BYTES", 300),
            (limits, "LONG_SNAPSHOTS_MAX", 1),
            (scan, "FIRST_CHUNK_ITEMS", 2),
        ):
            self.stack.enter_context(patch.object(module, name, value))
        self.clock = ManualClock()
        self.readers: list[Reader] = []
        self.sessions: list[int] = []
        self.open()
        self.model = ShardModel(self.shard.order)

    def open(self) -> None:
        options = ShardOptions(self.sorting, SMALL.retention_ms, None, SMALL.store, SMALL.log)
        self.shard = Shard.open(self.folder / "shard", options, self.clock)
        self.hub = WatchHub(self.shard)

    # -- writes

    @rule(data=st.data(), count=st.integers(1, 4))
    def write_in_one_round(self, data: st.DataObject, count: int) -> None:
        requests = [data.draw(batches(self.sessions)) for _ in range(count)]
        results: list[WriteResult] = []

        def done(result: WriteResult | None, error: BaseException | None) -> None:
            assert result is not None, error
            results.append(result)

        def submit_all() -> None:
            for request in requests:
                self.shard.submit_write(request, done)

        self.shard.rounds.between_rounds(submit_all)
        for request, result in zip(requests, results, strict=True):
            self.note_write(request, result)

    def note_write(self, batch: WriteBatch, result: WriteResult) -> None:
        """Puts, then deletes, then ranges: as far as the answers say that they took place."""
        stored = [
            (key, ModelRecord(value, version, frozenset(options.secondary_indexes), options.session_id))
            for (key, value, given), (status, version, _) in zip(batch.puts, result.puts, strict=True)
            if status == 0
            for options in [given or PutOptions()]
        ]
        gone = [key for (key, _), status in zip(batch.deletes, result.deletes, strict=True) if status == 0]
        for start, end in batch.delete_ranges:
            after = ShardModel(self.shard.order)
            after.state = {**self.model.state, **dict(stored)}
            gone += after.keys_in(start, end)
        self.model.apply(stored, gone)

    @rule(data=st.data(), deletes=st.lists(KEYS, max_size=2))
    def transact(self, data: st.DataObject, deletes: list[bytes]) -> None:
        stored = data.draw(st.lists(puts(self.sessions, with_overrides=False), max_size=3))
        operations = {key: (key, value, options) for key, value, options in stored}
        gone = [key for key in dict.fromkeys(deletes) if key not in operations]
        if not operations and not gone:
            return
        transaction = Transaction([], list(operations.values()), [(key, None) for key in gone])
        before = self.shard.next_offset
        try:
            result = self.shard.transact(transaction)
        except (ConditionsFailed, SessionNotFound):
            assert self.shard.next_offset == before
        else:
            self.note_write(WriteBatch(transaction.puts, transaction.deletes), result)

    @precondition(lambda self: len(self.sessions) < 3)
    @rule()
    def open_session(self) -> None:
        self.sessions.append(self.shard.create_session(SESSION_TIMEOUT_MS))
        self.model.apply()

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def close_session(self, data: st.DataObject) -> None:
        session_id = data.draw(st.sampled_from(self.sessions))
        self.sessions.remove(session_id)
        self.shard.close_session(session_id)
        self.model.apply(deletes=self.model.keys_of_session(session_id))

    @precondition(lambda self: self.sessions)
    @rule()
    def let_sessions_expire(self) -> None:
        self.clock.advance_ms(SESSION_TIMEOUT_MS)
        assert self.shard.expire_sessions() == len(self.sessions)
        self.model.apply(deletes=[key for each in self.sessions for key in self.model.keys_of_session(each)])
        self.sessions.clear()

    # -- watches

    @rule(data=st.data(), name=st.none() | NAMES, previous=st.booleans())
    def watch(self, data: st.DataObject, name: bytes | None, previous: bool) -> None:
        bounds, encode = BOUNDS if name is None else INDEX_BOUNDS, self.shard.order.encode
        start, end = data.draw(bounds), data.draw(bounds)
        if end and encode(end) < encode(start):
            start, end = end, start
        first = data.draw(st.none() | st.just(NOW) | st.integers(0, self.model.next_offset))
        self.begin(WatchSpec(start, end, name, first, previous))

    @initialize(previous=st.booleans())
    def watch_everything(self, previous: bool) -> None:
        self.begin(WatchSpec(previous_values=previous))

    def begin(self, spec: WatchSpec) -> None:
        reader = Reader(self.model, spec)
        try:
            reader.open(self.hub)
        except OffsetTrimmed as error:
            self.check_refusal(error, spec.from_offset)
        else:
            self.readers.append(reader)

    @precondition(lambda self: self.readers)
    @rule(data=st.data(), events_max=st.integers(1, 5), times=st.integers(1, 4))
    def take(self, data: st.DataObject, events_max: int, times: int) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        while times and self.read(reader, events_max):
            times -= 1

    def read(self, reader: Reader, events_max: int) -> bool:
        """Whether there was any news; a watch that has lost its place is gone."""
        try:
            return reader.take(events_max)
        except OffsetTrimmed as error:
            self.check_refusal(error, reader.next_offset)
            reader.close()
            self.readers.remove(reader)
            return False

    def check_refusal(self, error: OffsetTrimmed, wanted: int | None) -> None:
        """What is wanted is indeed not there, and the oldest that is there is named."""
        is_previous = isinstance(error, PreviousValuesMissing)
        assert error.oldest == (self.shard.previous_since if is_previous else self.shard.first_offset)
        assert wanted is not None
        assert wanted < error.oldest

    @rule()
    def everybody_reads_everything(self) -> None:
        for reader in list(self.readers):
            while self.read(reader, 3):
                pass
        while waiting := [reader for reader in self.readers if not reader.is_complete]:
            # They stood in line for their snapshots.
            assert any([self.read(reader, 3) for reader in waiting])
        for reader in self.readers:
            while self.read(reader, 3):
                pass
            reader.check_that_all_is_told()

    @precondition(lambda self: self.readers)
    @rule(data=st.data())
    def end_watch(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.readers))
        reader.close()
        self.readers.remove(reader)

    # -- everything else

    @rule(advance_ms=st.sampled_from([0, 1_000, RETENTION_MS // 2, 2 * RETENTION_MS]))
    def housekeep(self, advance_ms: int) -> None:
        if not self.sessions:
            self.clock.advance_ms(advance_ms)
        self.shard.feeder.feed_all()
        self.shard.trim_log()
        self.hub.tend(self.clock.monotonic_s())

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        self.hub.close()
        if is_clean:
            self.shard.close()
        else:
            self.shard.abandon()
        self.open()
        left, self.readers = self.readers, []
        for reader in left:
            self.begin(reader.resumed())

    def teardown(self) -> None:
        try:
            self.everybody_reads_everything()
            self.hub.close()
            self.shard.close()
        finally:
            self.stack.close()
