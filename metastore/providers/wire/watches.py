"""A watch over several shards: their feeds put together to the batches of the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from metastore.interface.errors import StoreError, Unsupported
from metastore.interface.store import Watch
from metastore.interface.values import BatchKind, Range, WatchBatch
from metastore.pb import tidemark_pb2 as pb
from metastore.providers.tokens import TokenForm
from metastore.providers.wire.caller import Caller
from metastore.providers.wire.feed import CREDIT_EVENTS, Changes, Feed, Mark, Records
from metastore.providers.wire.links import Links
from metastore.providers.wire.protocol import to_wire

MakeFeed = Callable[[int, pb.CreateWatch, int | None, Callable[[], None]], Feed]


class Phase(Enum):
    """How far a watch is."""

    NEW = "new"
    SNAPSHOT = "snapshot"
    NOW = "now"
    """It waits to hear from each shard where it begins."""
    CHANGES = "changes"


class WireWatch(Watch):
    """A watch that our service feeds. It begins when it is first asked for a batch.

    A snapshot is one of all shards: if the connection to one of them breaks before the last has sent its part, all of
    it begins anew. From then on each shard goes on by itself from the offset where it stands.
    """

    def __init__(
        self,
        links: Links,
        tokens: TokenForm,
        shard_ids: Sequence[int],
        template: pb.CreateWatch,
        offsets: Mapping[int, int] | None,
        credit: int = CREDIT_EVENTS,
    ) -> None:
        self._links = links
        self._tokens = tokens
        self._shard_ids = shard_ids
        self._template = template
        self._credit = credit
        self._feeds: list[Feed] = []
        self._offsets: dict[int, int] = dict(offsets or {})
        """The next offset of each shard that the reader has not seen."""
        self._phase = Phase.NEW
        self._has_begun_snapshot = False
        self._has_progress = False
        self._turn = 0
        self._news = asyncio.Event()
        self._is_closed = False
        self._error: StoreError | None = None

    async def __anext__(self) -> WatchBatch:
        while not self._is_closed:
            if self._error is not None:
                raise self._error
            if self._phase is Phase.NEW:
                self._begin()
            self._news.clear()
            try:
                batch = self._next()
            except StoreError as error:
                self._error = error
                self._links.detach(self._feeds)
                raise
            if batch is not None:
                return batch
            await self._news.wait()
        raise StopAsyncIteration

    async def close(self) -> None:
        self._is_closed = True
        self._links.detach(self._feeds)
        self._feeds = []
        self._news.set()

    def _begin(self) -> None:
        if self._offsets:
            self._phase = Phase.CHANGES
        else:
            self._phase = Phase.SNAPSHOT if self._template.beginning == pb.SNAPSHOT else Phase.NOW
        self._has_begun_snapshot = False
        self._links.detach(self._feeds)
        self._feeds = [
            Feed(shard_id, self._template, self._offsets.get(shard_id), self._credit, self._news.set)
            for shard_id in self._shard_ids
        ]
        self._links.attach(self._feeds)

    def _next(self) -> WatchBatch | None:
        """The next batch, if there is one by now."""
        if self._phase is Phase.SNAPSHOT:
            return self._next_of_snapshot()
        if self._phase is Phase.NOW:
            return self._next_of_beginning()
        return self._next_of_changes()

    def _next_of_snapshot(self) -> WatchBatch | None:
        if any(feed.is_torn for feed in self._feeds):
            self._offsets = {}
            self._begin()
        if not self._has_begun_snapshot:
            self._has_begun_snapshot = True
            return WatchBatch(BatchKind.SNAPSHOT_BEGIN)
        for feed in self._in_turn():
            while feed.shard_id not in self._offsets and (news := feed.take()) is not None:
                if isinstance(news, Records):
                    return WatchBatch(BatchKind.SNAPSHOT, records=news.records)
                assert isinstance(news, Mark)
                self._offsets[feed.shard_id] = news.next_offset
        return self._all_have_begun(BatchKind.SNAPSHOT_END)

    def _next_of_beginning(self) -> WatchBatch | None:
        for feed in self._in_turn():
            if feed.shard_id not in self._offsets and (news := feed.take()) is not None:
                assert isinstance(news, Mark)
                self._offsets[feed.shard_id] = news.next_offset
        return self._all_have_begun(BatchKind.PROGRESS)

    def _all_have_begun(self, kind: BatchKind) -> WatchBatch | None:
        """Tells so, once every shard has said where its changes begin."""
        if len(self._offsets) < len(self._feeds):
            return None
        self._phase = Phase.CHANGES
        return WatchBatch(kind, token=self._token())

    def _next_of_changes(self) -> WatchBatch | None:
        for feed in self._in_turn():
            while (news := feed.take()) is not None:
                assert not isinstance(news, Records)
                assert news.next_offset >= self._offsets[feed.shard_id]
                self._offsets[feed.shard_id] = news.next_offset
                if isinstance(news, Changes) and news.changes:
                    self._has_progress = False
                    return WatchBatch(BatchKind.CHANGES, changes=news.changes, token=self._token())
                self._has_progress = True
        if not self._has_progress:
            return None
        self._has_progress = False
        return WatchBatch(BatchKind.PROGRESS, token=self._token())

    def _in_turn(self) -> list[Feed]:
        """All feeds, each time beginning with another, so that none keeps the others waiting."""
        self._turn = (self._turn + 1) % len(self._feeds)
        return self._feeds[self._turn :] + self._feeds[: self._turn]

    def _token(self) -> str:
        return self._tokens.make([self._offsets[shard_id] for shard_id in self._shard_ids])


class Watches:
    """Makes the watches of a store of ours."""

    def __init__(self, caller: Caller, namespace: str, service: pb.DescribeResponse) -> None:
        self._links = Links(caller)
        self._namespace = namespace
        self._store_id = service.store_id
        self._are_enabled = service.notifications_enabled
        self._credit = min(CREDIT_EVENTS, service.limits.watch_credit_max or CREDIT_EVENTS)

    def watch(
        self,
        shard_ids: Sequence[int],
        range: Range,
        index: str | None,
        partition_key: str | None,
        resume: str | None,
        has_snapshot: bool,
        has_previous_values: bool,
    ) -> Watch:
        """A watch of a range that was checked."""
        if not self._are_enabled:
            raise Unsupported(
                f"namespace {self._namespace!r} keeps no changes to watch: enable notifications in its configuration"
            )
        identity = f"{self._store_id.hex()}/{self._namespace}"
        tokens = TokenForm(identity, range, index, partition_key, len(shard_ids))
        template = pb.CreateWatch(
            start_inclusive=to_wire(range.start),
            end_exclusive=to_wire(range.end),
            index_name=None if index is None else to_wire(index),
            beginning=pb.SNAPSHOT if has_snapshot else pb.NOW,
            previous_values=has_previous_values,
            store_id=self._store_id,
        )
        offsets = None if resume is None else dict(zip(shard_ids, tokens.read(resume), strict=True))
        return WireWatch(self._links, tokens, shard_ids, template, offsets, self._credit)

    async def close(self) -> None:
        """Ends all watches."""
        await self._links.close()
