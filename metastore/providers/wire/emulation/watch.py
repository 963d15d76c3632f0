"""The emulated watch, and who makes it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence

from metastore.interface.errors import Unsupported
from metastore.interface.store import Watch
from metastore.providers.wire.emulation.feed import AUDITS_MAX, Beginning, EmulatedFeed
from metastore.providers.wire.emulation.mirror import BOUNDS, Bounds
from metastore.providers.wire.emulation.scope import Scope
from metastore.providers.wire.patience import Backoff
from metastore.providers.wire.plain import PlainShards, WatchRequest
from metastore.providers.wire.sharded_watch import ShardedWatch


class EmulatedWatch(ShardedWatch[EmulatedFeed]):
    """A watch over the shards of a plain Oxia."""

    def __init__(self, shards: PlainShards, request: WatchRequest, choice: random.Random, bounds: Bounds) -> None:
        offsets = None if request.resume is None else dict(zip(request.shards, request.resume, strict=True))
        super().__init__(request.tokens, request.shards, offsets, request.has_snapshot)
        self._shards = shards
        self._request = request
        self._choice = choice
        self._bounds = bounds
        self._chances = {shard: iter(range(AUDITS_MAX)) for shard in request.shards}
        self._stopping: list[EmulatedFeed] = []

    def open_feeds(self, offsets: Mapping[int, int]) -> list[EmulatedFeed]:
        return [self._feed(shard, offsets.get(shard)) for shard in self._request.shards]

    def _feed(self, shard: int, offset: int | None) -> EmulatedFeed:
        request = self._request
        scope = Scope(shard, request.range, request.index, request.has_previous_values, self._shards.order)
        beginning = Beginning(request.has_snapshot, offset)
        chances, backoff = self._chances[shard], Backoff(self._choice)
        return EmulatedFeed(self._shards, scope, beginning, backoff, chances, self.wake, self._bounds)

    def close_feeds(self, feeds: Sequence[EmulatedFeed]) -> None:
        for feed in feeds:
            feed.stop()
        self._stopping = [*[feed for feed in self._stopping if not feed.is_stopped], *feeds]

    async def close(self) -> None:
        await super().close()
        stopping, self._stopping = self._stopping, []
        await asyncio.gather(*[feed.stopped() for feed in stopping])


class Emulation:
    """Makes emulated watches."""

    def __init__(self, choice: random.Random, bounds: Bounds = BOUNDS) -> None:
        self._choice = choice
        self._bounds = bounds

    def __call__(self, shards: PlainShards, request: WatchRequest) -> Watch:
        if request.resume is not None and request.has_previous_values:
            raise Unsupported(
                f"watch of {request.range}: a plain Oxia does not keep what records were, so a watch with previous "
                "values cannot be resumed: begin with a snapshot"
            )
        return EmulatedWatch(shards, request, self._choice, self._bounds)
