"""The reader of one watch, who knows what it must be told and believes nothing else."""

from __future__ import annotations

from dataclasses import replace

from watch_model import ModelRecord, ShardModel, parsed, told_of

from metastore.engine.record import key_of
from metastore.watch.feed import Feed
from metastore.watch.hub import WatchHub
from metastore.watch.news import FeedBatch, FeedBatchKind
from metastore.watch.spec import NOW, WatchSpec


class Reader:
    """Compares every batch with the model's requests between where it was and where the batch says it is."""

    def __init__(self, model: ShardModel, spec: WatchSpec) -> None:
        self.model = model
        self.spec = spec
        self.next_offset: int | None = None
        self.woken = 0
        self._snapshot: dict[bytes, ModelRecord] | None = None
        self._is_waiting = False
        self._feed: Feed | None = None

    def open(self, hub: WatchHub) -> None:
        self._feed = hub.open(self.spec, self._wake)
        if self.spec.from_offset is not None:
            now = self.model.next_offset
            self.next_offset = now if self.spec.from_offset == NOW else self.spec.from_offset

    def _wake(self) -> None:
        self.woken += 1

    @property
    def feed(self) -> Feed:
        assert self._feed is not None
        return self._feed

    @property
    def is_complete(self) -> bool:
        """Whether its snapshot is."""
        return self.next_offset is not None

    def take(self, events_max: int) -> bool:
        """Takes what there is and checks it; False if there was nothing."""
        self._check_that_it_was_woken()
        self.woken = 0
        batches = self.feed.take(events_max)
        for batch in batches:
            self._check(batch, events_max)
        self._is_waiting = not batches
        self._check_the_place()
        return bool(batches)

    def _check_that_it_was_woken(self) -> None:
        if self._is_waiting and self.next_offset is not None:
            news = self.model.changes(self.spec, self.next_offset, self.model.next_offset)
            assert self.woken == bool(news), "woken for nothing, or twice, or not woken"

    def _check(self, batch: FeedBatch, events_max: int) -> None:
        if batch.kind == FeedBatchKind.SNAPSHOT_BEGIN:
            assert not self.is_complete
            self._snapshot = {}
        elif batch.kind == FeedBatchKind.SNAPSHOT:
            assert self._snapshot is not None
            for record in batch.records:
                found = parsed(record)
                assert found is not None
                assert key_of(record) not in self._snapshot, "a record came twice"
                self._snapshot[key_of(record)] = found
        elif batch.kind == FeedBatchKind.SNAPSHOT_END:
            assert batch.next_offset is not None
            state = self.model.state_at(batch.next_offset)
            assert self._snapshot == self.model.selected(self.spec, state)
            self._snapshot, self.next_offset = None, batch.next_offset
        else:
            self._check_changes(batch, events_max)

    def _check_changes(self, batch: FeedBatch, events_max: int) -> None:
        assert self.next_offset is not None
        assert batch.next_offset is not None
        assert self.next_offset < batch.next_offset <= self.model.next_offset
        told = [told_of(change) for change in batch.changes]
        assert [each.offset for each in told] == sorted(each.offset for each in told)
        assert sorted(told) == self.model.changes(self.spec, self.next_offset, batch.next_offset)
        assert bool(told) == (batch.kind == FeedBatchKind.CHANGES)
        before_the_last = [each for each in told if each.offset < told[-1].offset]
        assert len(before_the_last) < events_max
        self.next_offset = batch.next_offset

    def _check_the_place(self) -> None:
        """What the feed says of itself: nothing that it would still tell lies below its next offset."""
        reached = self.feed.next_offset
        assert (reached is None) == (self.next_offset is None)
        if reached is not None and self.next_offset is not None:
            assert self.next_offset <= reached <= self.model.next_offset
            assert self.model.changes(self.spec, self.next_offset, reached) == []
            assert self.feed.lag == self.model.next_offset - reached
            self.next_offset = reached

    def check_that_all_is_told(self) -> None:
        assert self.next_offset == self.model.next_offset
        assert self.feed.is_live

    def resumed(self) -> WatchSpec:
        """How it goes on after a restart: where it was, or with the whole snapshot."""
        return replace(self.spec, from_offset=self.next_offset)

    def close(self) -> None:
        self.feed.close()
        assert self.feed.take(1) == []
