"""The watches of our service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metastore.interface.errors import Unsupported
from metastore.interface.store import Watch
from metastore.interface.values import Range
from metastore.pb import tidemark_pb2 as pb
from metastore.providers.tokens import TokenForm
from metastore.providers.wire.caller import Caller
from metastore.providers.wire.feed import CREDIT_EVENTS, Feed
from metastore.providers.wire.links import Links
from metastore.providers.wire.protocol import to_wire
from metastore.providers.wire.sharded_watch import ShardedWatch


class WireWatch(ShardedWatch[Feed]):
    """A watch that our service feeds."""

    def __init__(
        self,
        links: Links,
        tokens: TokenForm,
        shard_ids: Sequence[int],
        template: pb.CreateWatch,
        offsets: Mapping[int, int] | None,
        credit: int = CREDIT_EVENTS,
    ) -> None:
        super().__init__(tokens, shard_ids, offsets, template.beginning == pb.SNAPSHOT)
        self._links = links
        self._template = template
        self._credit = credit

    def open_feeds(self, offsets: Mapping[int, int]) -> list[Feed]:
        feeds = [
            Feed(shard_id, self._template, offsets.get(shard_id), self._credit, self.wake)
            for shard_id in self._shard_ids
        ]
        self._links.attach(feeds)
        return feeds

    def close_feeds(self, feeds: Sequence[Feed]) -> None:
        self._links.detach(feeds)


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
