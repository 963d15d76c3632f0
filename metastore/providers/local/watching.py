"""A watch of the store: the feeds of its shards put together, and turned into batches of the contract.

The snapshot is taken shard after shard, each of a state of its own; what changes on one meanwhile waits in its feed,
or in the log. Then whichever feed has news is next. The watch is in no hurry: it takes when somebody asks for more, so
one that nobody reads costs what its feed bounds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from metastore.interface import BatchKind, Change, ChangeKind, InvalidToken, Watch, WatchBatch
from metastore.providers.local.records import records_of
from metastore.providers.local.shards import OpenShard
from metastore.providers.local.threads import LoopInbox
from metastore.providers.tokens import TokenForm
from metastore.watch import news
from metastore.watch.feed import Feed
from metastore.watch.news import FeedBatch, FeedBatchKind
from metastore.watch.spec import WatchSpec

EVENTS_PER_TAKE_MAX = 1024
"""Changes of one batch; but a write is told whole."""

KINDS = {
    news.ChangeKind.CREATED: ChangeKind.CREATED,
    news.ChangeKind.MODIFIED: ChangeKind.MODIFIED,
    news.ChangeKind.DELETED: ChangeKind.DELETED,
    news.ChangeKind.ENTERED: ChangeKind.ENTERED,
    news.ChangeKind.LEFT: ChangeKind.LEFT,
}


class LocalWatch(Watch):
    """One watch. All but the feeds' own work happens on the loop."""

    def __init__(
        self,
        shards: Sequence[OpenShard],
        spec: WatchSpec,
        offsets: Sequence[int],
        tokens: TokenForm,
        inbox: LoopInbox,
        translate: Callable[[BaseException], BaseException],
        on_end: Callable[[LocalWatch], None],
    ) -> None:
        self._shards = shards
        self._spec = spec
        self._tokens = tokens
        self._inbox = inbox
        self._translate = translate
        self._on_end = on_end
        self._resume_offsets = offsets
        """Where to resume on each shard; none: begin as the spec says."""
        self._offsets: list[int] = []
        """Where the news of each shard go on; complete, for all shards, from the end of the snapshot on."""
        self._begun = 0
        """The shards whose part of the snapshot has begun."""
        self._feeds: list[Feed] = []
        self._awake: deque[int] = deque()
        """The places of the shards that may have news."""
        self._news = asyncio.Event()
        self._ready: deque[WatchBatch] = deque()
        self._filling: asyncio.Task[None] | None = None
        self._is_taking = False
        """A thread takes something, and so the feed is ahead of what was told."""
        self._error: BaseException | None = None
        self._is_closed = False

    async def __anext__(self) -> WatchBatch:
        while not self._ready:
            if self._is_closed:
                raise StopAsyncIteration
            if self._error is not None:
                raise self._error
            if self._filling is None:
                self._filling = asyncio.ensure_future(self._fill())
                self._filling.add_done_callback(self._filled)
            # A wait that is cancelled leaves what is being taken to the next one.
            await asyncio.wait([self._filling])
        return self._ready.popleft()

    async def _fill(self) -> None:
        """Returns when something is ready, or the watch is over."""
        while not (self._ready or self._is_closed or self._error):
            if not self._feeds:
                await self._open()
            elif not self._awake:
                self._news.clear()
                await self._news.wait()
            else:
                place = self._awake.popleft()
                for batch in await self._take(place):
                    self._tell(place, batch)
                    if not self._feeds:
                        break  # all begins anew, this one too

    def _filled(self, done: asyncio.Task[None]) -> None:
        self._filling = None
        error = None if done.cancelled() else done.exception()
        if error is not None:
            self.fail(self._translate(error))
        if self._is_closed or self._error:
            self._end()

    # -- the feeds

    async def _open(self) -> None:
        for place, shard in enumerate(self._shards):
            self._feeds.append(await shard.in_thread(partial(self._open_feed, place)))
        if self._spec.from_offset is None and not self._resume_offsets:
            self._awake.append(0)
            return
        self._offsets = [feed.next_offset or 0 for feed in self._feeds]
        self._awake.extend(range(len(self._feeds)))
        if not self._resume_offsets:
            self._tell_progress()

    def _open_feed(self, place: int) -> Feed:
        """On a thread: the shard may have to make a note on the disk."""
        spec, shard = self._spec, self._shards[place]
        if self._resume_offsets:
            offset, reached = self._resume_offsets[place], shard.shard.next_offset
            if offset > reached:
                raise InvalidToken(
                    f"the token is ahead of shard {shard.shard_id}, which has come to {reached} and not to {offset}: "
                    "the store has lost data since, or was restored; begin with a snapshot"
                )
            spec = replace(spec, from_offset=offset)
        return shard.hub.open(spec, partial(self._inbox.post, self._wake, place))

    def _wake(self, place: int) -> None:
        if place not in self._awake:
            self._awake.append(place)
        self._news.set()

    async def _take(self, place: int) -> list[FeedBatch]:
        """What a feed has: at once where it only has to look into its queue."""
        feed = self._feeds[place]
        if feed.is_live:
            batches = feed.take(EVENTS_PER_TAKE_MAX)
        else:
            self._is_taking = True
            try:
                batches = await self._shards[place].in_thread(partial(feed.take, EVENTS_PER_TAKE_MAX))
            finally:
                self._is_taking = False
        if batches and place not in self._awake:
            self._awake.append(place)
        return batches

    # -- what they tell

    def _tell(self, place: int, batch: FeedBatch) -> None:
        if batch.next_offset is not None and batch.kind is not FeedBatchKind.SNAPSHOT_END:
            self._offsets[place] = batch.next_offset
        if batch.kind is FeedBatchKind.CHANGES:
            changes = self._changes(place, batch.changes)
            self._ready.append(WatchBatch(BatchKind.CHANGES, changes=changes, token=self._tokens.make(self._offsets)))
        elif batch.kind is FeedBatchKind.PROGRESS:
            self._tell_progress()
        elif batch.kind is FeedBatchKind.SNAPSHOT:
            if batch.records:
                self._ready.append(WatchBatch(BatchKind.SNAPSHOT, records=tuple(records_of(batch.records))))
        elif batch.kind is FeedBatchKind.SNAPSHOT_BEGIN:
            self._begin_snapshot(place)
        else:
            assert batch.next_offset is not None, "changes begin behind a snapshot"
            self._end_snapshot(batch.next_offset)

    def _tell_progress(self) -> None:
        self._ready.append(WatchBatch(BatchKind.PROGRESS, token=self._tokens.make(self._offsets)))

    def _begin_snapshot(self, place: int) -> None:
        """The part of a shard begins; where it does so anew, all parts have to."""
        if place == 0:
            self._ready.append(WatchBatch(BatchKind.SNAPSHOT_BEGIN))
        elif place < self._begun:
            self._close_feeds()
            self._offsets.clear()
        self._begun = place + 1 if self._feeds else 0

    def _end_snapshot(self, next_offset: int) -> None:
        """The part of a shard is complete; the next one's turn, or the end of the whole."""
        self._offsets.append(next_offset)
        self._awake.clear()
        if len(self._offsets) < len(self._feeds):
            self._awake.append(len(self._offsets))
            return
        self._awake.extend(range(len(self._feeds)))
        self._ready.append(WatchBatch(BatchKind.SNAPSHOT_END, token=self._tokens.make(self._offsets)))

    def _changes(self, place: int, changes: Sequence[news.Change]) -> tuple[Change, ...]:
        shard_id = self._shards[place].shard_id
        records = iter(records_of([each.record for each in changes if each.record is not None]))
        previous = iter(records_of([each.previous for each in changes if each.previous is not None]))
        return tuple(
            Change(
                KINDS[each.kind],
                each.key.decode(),
                None if each.record is None else next(records),
                None if each.previous is None else next(previous),
                shard_id,
                each.offset,
                each.time_ms,
            )
            for each in changes
        )

    def note_progress(self) -> None:
        """Tells how far the shards have come, if nothing happened to the range meanwhile. Called now and then."""
        is_idle = self._filling is not None and not (self._ready or self._awake or self._is_taking)
        if is_idle and len(self._offsets) == len(self._feeds) > 0:
            reached = [feed.next_offset or 0 for feed in self._feeds]
            if reached != self._offsets:
                self._offsets = reached
                self._tell_progress()
                self._news.set()

    # -- the end

    def fail(self, error: BaseException) -> None:
        """Nothing more comes, for this reason; what is ready is told before."""
        if self._error is None:
            self._error = error
        self._news.set()

    async def close(self) -> None:
        self._is_closed = True
        self._ready.clear()
        self._news.set()
        if self._filling is not None:
            await asyncio.wait([self._filling])
        else:
            self._end()

    def _end(self) -> None:
        self._close_feeds()
        self._on_end(self)

    def _close_feeds(self) -> None:
        for feed in self._feeds:
            feed.close()
        self._feeds = []
        self._awake.clear()
