"""A watch over several shards: what comes from each of them put together to the batches of the contract."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Generic, Protocol, TypeVar

from metastore.interface.errors import StoreError
from metastore.interface.store import Watch
from metastore.interface.values import BatchKind, WatchBatch
from metastore.providers.tokens import TokenForm
from metastore.providers.wire.feed import Changes, Mark, News, Records


class ShardFeed(Protocol):
    """What a watch gets from one shard."""

    shard_id: int
    is_torn: bool
    """The snapshot broke off: what has come of it is worth nothing."""

    def take(self) -> News | None:
        """The next news, if there is any; raises why there will be none."""


F = TypeVar("F", bound=ShardFeed)


class Phase(Enum):
    """How far a watch is."""

    NEW = "new"
    SNAPSHOT = "snapshot"
    NOW = "now"
    """It waits to hear from each shard where it begins."""
    CHANGES = "changes"


class ShardedWatch(Watch, Generic[F]):
    """It begins when it is first asked for a batch.

    A snapshot is one of all shards: if it breaks off on one of them before the last has sent its part, all of it begins
    anew. From then on each shard goes on by itself from the offset where it stands.
    """

    def __init__(
        self, tokens: TokenForm, shard_ids: Sequence[int], offsets: Mapping[int, int] | None, has_snapshot: bool
    ) -> None:
        self._tokens = tokens
        self._shard_ids = shard_ids
        self._has_snapshot = has_snapshot
        self._feeds: list[F] = []
        self._offsets: dict[int, int] = dict(offsets or {})
        """The next offset of each shard that the reader has not seen."""
        self._phase = Phase.NEW
        self._has_begun_snapshot = False
        self._has_progress = False
        self._turn = 0
        self._news = asyncio.Event()
        self._is_closed = False
        self._error: StoreError | None = None

    @abstractmethod
    def open_feeds(self, offsets: Mapping[int, int]) -> list[F]:
        """Feeds for all shards, in their order: from the first offsets wanted, or from a beginning."""

    @abstractmethod
    def close_feeds(self, feeds: Sequence[F]) -> None:
        """Nothing more is wanted of these."""

    def wake(self) -> None:
        """A feed has news, is torn, or has come to its end."""
        self._news.set()

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
                self.close_feeds(self._feeds)
                raise
            if batch is not None:
                return batch
            await self._news.wait()
        raise StopAsyncIteration

    async def close(self) -> None:
        self._is_closed = True
        self.close_feeds(self._feeds)
        self._feeds = []
        self._news.set()

    def _begin(self) -> None:
        if self._offsets:
            self._phase = Phase.CHANGES
        else:
            self._phase = Phase.SNAPSHOT if self._has_snapshot else Phase.NOW
        self._has_begun_snapshot = False
        self.close_feeds(self._feeds)
        self._feeds = self.open_feeds(self._offsets)

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

    def _in_turn(self) -> list[F]:
        """All feeds, each time beginning with another, so that none keeps the others waiting."""
        self._turn = (self._turn + 1) % len(self._feeds)
        return self._feeds[self._turn :] + self._feeds[: self._turn]

    def _token(self) -> str:
        return self._tokens.make([self._offsets[shard_id] for shard_id in self._shard_ids])
