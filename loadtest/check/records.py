"""Puts of records under a prefix of their own."""

from __future__ import annotations

import random

from loadtest.check.profiles import RECORDS
from loadtest.check.works import Work
from metastore.client.ranges import prefix_range
from metastore.commandline import UsageError
from metastore.interface import MetadataStore, Range

MARK = b"tidemark check perf "
VALUE_BYTES = 256
KEYS = 10_000
"""So many records are there in the end, however many puts there were."""
STRIDE = 7_919
"""A prime: keys that follow each other in time are not neighbours."""


class RecordWork(Work):
    """Every piece is one put, unconditional and durable."""

    kind = RECORDS
    under_way_max = 2_000

    def __init__(self, store: MetadataStore, prefix: str, discard: bool, seed: int) -> None:
        self._store = store
        self._prefix = prefix.rstrip("/") + "/"
        self._discard = discard
        self._is_ours = False
        self._value = MARK + random.Random(seed).randbytes(VALUE_BYTES - len(MARK))
        self.text = f"puts of {VALUE_BYTES} bytes to {KEYS:,} keys under {self._prefix}"

    @property
    def _range(self) -> Range:
        return prefix_range(self._prefix, self._store.key_sorting)

    async def prepare(self) -> None:
        async for record in self._store.scan(self._range):
            if record.value is None or not record.value.startswith(MARK):
                raise UsageError(
                    f"there are records under {self._prefix} that this check has not made ({record.key!r}): "
                    "nothing was done; --prefix names another place"
                )
            if not self._discard:
                raise UsageError(
                    f"there are records under {self._prefix}, of another check that runs, or of one that was killed: "
                    "nothing was done; --discard removes them first, --prefix names another place"
                )
        self._is_ours = True
        await self.clear()

    async def do(self, number: int) -> str:
        key = f"{self._prefix}{number * STRIDE % KEYS:06d}"
        await self._store.put(key, self._value)
        return key

    async def clear(self) -> None:
        if self._is_ours:
            await self._store.delete_range(self._range)
