"""Writers and readers in threads of their own: every reader hears every write once, in its order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from watch_helpers import Patch

from metastore.engine.operations import PutOptions, WriteBatch
from metastore.engine.record import value_of
from metastore.engine.shard import Shard
from metastore.watch.hub import WatchHub
from metastore.watch.news import Change, ChangeKind
from metastore.watch.spec import NOW, WatchSpec

WRITERS = 3
WRITES = 150
LAST = b"last"

History = list[tuple[bytes, bytes | None]]
"""(key, value, or None: deleted) in the order of the writes."""


def write_all(shard: Shard, writer: int) -> History:
    """Writes its own records, one request after the other."""
    written: History = []
    for number in range(WRITES):
        key = b"/w%d/%d" % (writer, number % 7)
        if number % 5 == 3 and number >= 7:
            shard.write(WriteBatch(deletes=[(key, None)]))
            written.append((key, None))
        else:
            value = b"%d" % number
            shard.write(WriteBatch(puts=[(key, value, PutOptions(secondary_indexes=((b"i", b"s"),)))]))
            written.append((key, value))
    return written


class ThreadReader:
    """Reads in a thread until the last record has come."""

    def __init__(self, hub: WatchHub, spec: WatchSpec, events_max: int) -> None:
        self._news = threading.Event()
        self._events_max = events_max
        self._feed = hub.open(spec, self._news.set)

    def read_all(self) -> list[Change]:
        changes: list[Change] = []
        while not changes or changes[-1].key != LAST:
            self._news.clear()
            batches = self._feed.take(self._events_max)
            changes += (change for batch in batches for change in batch.changes)
            if not batches:
                assert self._news.wait(60), "nobody woke the reader"
        self._feed.close()
        return changes


@pytest.mark.parametrize("queue_events", [1, 8, 4096])
def test_every_reader_hears_every_write_once(tmp_path: Path, limit: Patch, queue_events: int) -> None:
    limit("FEED_EVENTS_MAX", queue_events)
    limit("LOG_READ_BYTES", 2_000)
    with Shard.open(tmp_path / "one") as shard, ThreadPoolExecutor(10) as pool:
        hub = WatchHub(shard)
        by_key, by_index = WatchSpec(from_offset=NOW), WatchSpec(b"", b"", b"i", NOW, previous_values=True)
        readers = [ThreadReader(hub, spec, events) for spec in (by_key, by_index) for events in (1, 10, 1_000)]
        reading = [pool.submit(reader.read_all) for reader in readers]
        writing = [pool.submit(write_all, shard, writer) for writer in range(WRITERS)]
        written = [write.result() for write in writing]
        shard.write(WriteBatch(puts=[(LAST, b"", PutOptions(secondary_indexes=((b"i", b"s"),)))]))
        for read in reading:
            check(read.result(), written)


def check(changes: list[Change], written: list[History]) -> None:
    assert len(changes) == WRITERS * WRITES + 1
    offsets = [change.offset for change in changes]
    assert offsets == sorted(set(offsets))
    for writer, history in enumerate(written):
        own: Callable[[Change], bool] = lambda change, writer=writer: change.key.startswith(b"/w%d" % writer)  # type: ignore[misc] # noqa: E731
        told = [(each.key, None if each.record is None else value_of(each.record)) for each in filter(own, changes)]
        assert told == history
    alive: set[bytes] = set()
    for change in changes:
        is_known = change.key in alive
        assert change.kind == (
            ChangeKind.DELETED if change.record is None else ChangeKind.MODIFIED if is_known else ChangeKind.CREATED
        )
        (alive.discard if change.record is None else alive.add)(change.key)
