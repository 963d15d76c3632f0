"""The shards of a store: which of them a call asks, and the lanes that lead there."""

from __future__ import annotations

import asyncio

from metastore.interface.errors import StoreClosed
from metastore.providers.wire.caller import Caller
from metastore.providers.wire.channels import CLOSED
from metastore.providers.wire.protocol import to_wire
from metastore.providers.wire.reads import ReadLane
from metastore.providers.wire.routing import ShardMap
from metastore.providers.wire.settings import Settings
from metastore.providers.wire.transacting import Transacting
from metastore.providers.wire.writes import WriteLane


class Shards:
    """Lanes are made when a shard is first written to or read from."""

    def __init__(self, caller: Caller, settings: Settings, together_max: int) -> None:
        self._caller = caller
        self._together_max = together_max
        """Transactions that the server takes in one call."""
        self._transacting: dict[int, Transacting] = {}
        self._settings = settings
        self._writes: dict[int, WriteLane] = {}
        self._reads: dict[int, ReadLane] = {}
        self._is_closed = False

    def _map(self) -> ShardMap:
        if self._is_closed:
            raise StoreClosed(CLOSED)
        return self._caller.topology.shards

    def owner(self, key: str, partition_key: str | None) -> int:
        """The shard of a record."""
        return self._map().owner(to_wire(key if partition_key is None else partition_key)).shard_id

    def over(self, partition_key: str | None) -> list[int]:
        """The shards over which a range of keys is spread: all, unless a partition is named."""
        shards = self._map()
        if partition_key is not None:
            return [shards.owner(to_wire(partition_key)).shard_id]
        return [shard.shard_id for shard in shards.shards]

    def writes(self, shard_id: int) -> WriteLane:
        """The way of writes to a shard."""
        lane = self._writes.get(shard_id)
        if lane is None:
            lane = self._writes[shard_id] = WriteLane(shard_id, self._caller, self._settings)
        return lane

    def reads(self, shard_id: int) -> ReadLane:
        """The way of gets to a shard."""
        lane = self._reads.get(shard_id)
        if lane is None:
            lane = self._reads[shard_id] = ReadLane(shard_id, self._caller, self._settings)
        return lane

    def transacting(self, shard_id: int) -> Transacting:
        """The way of transactions to a shard."""
        found = self._transacting.get(shard_id)
        if found is None:
            found = self._transacting[shard_id] = Transacting(shard_id, self._caller, self._together_max)
        return found

    async def close(self) -> None:
        """Ends everything that is under way; no shard is found any more."""
        self._is_closed = True
        lanes = [*self._writes.values(), *self._reads.values()]
        await asyncio.gather(*[lane.close() for lane in lanes], *[each.close() for each in self._transacting.values()])
