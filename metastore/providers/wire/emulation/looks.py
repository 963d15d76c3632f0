"""Looks at the records of one shard, for a ledger that needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from metastore.interface.values import ALL
from metastore.providers.wire.emulation.ledger import Ledger
from metastore.providers.wire.emulation.mirror import BOUNDS, Bounds
from metastore.providers.wire.emulation.pending import ABSENT, Sight
from metastore.providers.wire.emulation.scope import Scope
from metastore.providers.wire.plain import PlainShards

LOOK_KEYS_MAX = 500
"""Keys that are read together."""


class Looks:
    """Of one watch at one shard."""

    def __init__(self, shards: PlainShards, scope: Scope, bounds: Bounds = BOUNDS) -> None:
        self._shards = shards
        self._scope = scope
        self._bounds = bounds

    async def look(self, ledger: Ledger) -> None:
        """Looks at what was not seen."""
        keys = ledger.unseen()
        if not keys:
            return
        listed = None if self._scope.index is None else await self._listed(self._scope.index)
        for portion in _portions(keys):
            records = await self._shards.get_many(self._scope.shard, portion)
            for key, record in zip(portion, records, strict=True):
                if record is None:
                    ledger.see(key, ABSENT)
                elif listed is None:
                    ledger.see(key, Sight(record, True))
                else:
                    ledger.see(key, Sight(replace(record, secondary_key=listed.get(key)), key in listed))

    async def survey(self, ledger: Ledger) -> None:
        """Looks at the whole range, and at what was told of it."""
        scope = self._scope
        if scope.index is None:
            async with aclosing(self._shards.scan_shard(scope.shard, scope.range, None)) as records:
                async for record in records:
                    ledger.meet(record.key, record, True)
            return
        listed = await self._listed(scope.index)
        if scope.keeps_outsiders:
            async with aclosing(self._shards.scan_shard(scope.shard, ALL, None)) as records:
                async for record in records:
                    key = record.key
                    ledger.meet(key, replace(record, secondary_key=listed.get(key)), key in listed)
            return
        for portion in _portions([*{*listed, *ledger.unmet()}]):
            for found in await self._shards.get_many(scope.shard, portion):
                if found is not None:
                    key = found.key
                    ledger.meet(key, replace(found, secondary_key=listed.get(key)), key in listed)

    async def _listed(self, index: str) -> dict[str, str]:
        """The keys in the range of an index, each with its first secondary key there."""
        found: dict[str, str] = {}
        async with aclosing(self._shards.index_entries(self._scope.shard, self._scope.range, index)) as entries:
            async for secondary_key, key in entries:
                found.setdefault(key, secondary_key)
                self._bounds.check_records(len(found), str(self._scope))
        return found


def _portions(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(keys), LOOK_KEYS_MAX):
        yield keys[first : first + LOOK_KEYS_MAX]
