"""Short words for tests of watches: what to write, and what a feed says in terms that can be compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from metastore.engine.operations import Delete, DeleteRange, Put, PutOptions, WriteBatch
from metastore.engine.record import value_of
from metastore.engine.shard import Shard
from metastore.watch.feed import Feed
from metastore.watch.hub import WatchHub
from metastore.watch.news import ChangeKind, FeedBatch
from metastore.watch.spec import NOW, WatchSpec

PLENTY = 1_000_000


def put(key: bytes, value: bytes = b"v", *indexes: tuple[bytes, bytes], **options: Any) -> Put:
    """A put, with options only where there are any."""
    if not indexes and not options:
        return key, value, None
    return key, value, PutOptions(secondary_indexes=indexes, **options)


def write(shard: Shard, *puts: Put, deletes: Sequence[Delete] = (), ranges: Sequence[DeleteRange] = ()) -> None:
    """One request."""
    result = shard.write(WriteBatch(list(puts), list(deletes), list(ranges)))
    assert not any(status for status, _, _ in result.puts), "a put was refused"


def write_together(shard: Shard, batches: list[WriteBatch]) -> None:
    """Several requests in one round."""

    def done(_: Any, error: BaseException | None) -> None:
        assert error is None

    def submit_all() -> None:
        for batch in batches:
            shard.submit_write(batch, done)

    shard.rounds.between_rounds(submit_all)


class News(NamedTuple):
    """A change, with the values of its records."""

    kind: ChangeKind
    key: bytes
    value: bytes | None
    previous: bytes | None


def ignore() -> None:
    """A wake that nobody waits for."""


class Following:
    """A feed with somebody who counts how often he was woken."""

    def __init__(self, hub: WatchHub, spec: WatchSpec) -> None:
        self.woken = 0
        self.feed: Feed = hub.open(spec, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def batches(self, events_max: int = PLENTY) -> list[FeedBatch]:
        """All that there is."""
        found: list[FeedBatch] = []
        while batches := self.feed.take(events_max):
            found += batches
        return found

    def is_live(self) -> bool:
        """Whether its feed is."""
        return self.feed.is_live

    def next_offset(self) -> int | None:
        """How far its feed has got."""
        return self.feed.next_offset

    def news(self, events_max: int = PLENTY) -> list[News]:
        """All changes that there are, each request's in the order of keys."""
        changes = [change for batch in self.batches(events_max) for change in batch.changes]
        return [
            News(change.kind, change.key, _value(change.record), _value(change.previous))
            for change in sorted(changes, key=lambda change: (change.offset, change.key))
        ]


def _value(record: bytes | None) -> bytes | None:
    return None if record is None else value_of(record)


def from_now(
    hub: WatchHub, start: bytes = b"", end: bytes = b"", index: bytes | None = None, previous: bool = False
) -> Following:
    """A watch without a snapshot, which has found that there is nothing yet."""
    following = Following(hub, WatchSpec(start, end, index, NOW, previous))
    assert following.batches() == []
    return following


Patch = Callable[[str, int], None]
"""Sets a limit of watches for one test."""
