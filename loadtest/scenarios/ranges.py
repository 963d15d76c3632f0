"""More than single records of the metadata: sequences, scans of an index, watches of ranges."""

from __future__ import annotations

from loadtest.arrivals.pump import Arrival
from loadtest.scenarios.scenario import MetadataScenario, all_of
from metastore.interface import BatchKind, Comparison, Range, Watch, children_of

SEQUENCES_FOLDER = "/load/sequences"
SEQUENCES = 16
APPENDS = 0.8
"""The share of arrivals that append; others ask for the newest."""

INDEXED_FOLDER = "/load/indexed"
INDEX = "load-by-number"
SCANNED = 100
"""Records that a scan brings."""
CHANGES = 0.2
"""The share of arrivals that change an index entry; others scan."""

WATCHED_FOLDER = "/load/watched"
RANGES = 16
WATCHES_OF_EACH = 4
KEYS_OF_EACH = 100


class Sequences(MetadataScenario):
    """Records whose keys the store numbers."""

    name = "sequences"
    said = f"appends to {SEQUENCES} sequences, whose keys the store numbers, and reads of the newest record"
    rate = 150.0

    async def prepare(self) -> None:
        await super().prepare()
        await all_of(self._append(number) for number in range(SEQUENCES))

    async def serve(self, arrival: Arrival) -> None:
        number = arrival.draw.randrange(SEQUENCES)
        if arrival.draw.random() < APPENDS:
            arrival.operation = "append"
            await self._append(number)
            return
        arrival.operation = "newest"
        prefix = self._prefix(number)
        newest = await self._store.get(f"{prefix}-~", comparison=Comparison.LOWER, partition_key=prefix)
        assert newest is not None, "there are records of every sequence"
        arrival.size = len(newest.value or b"")

    async def _append(self, number: int) -> None:
        prefix = self._prefix(number)
        await self._store.put(prefix, self._value, partition_key=prefix, sequence_deltas=(1,))

    async def clear(self) -> None:
        for number in range(SEQUENCES):
            prefix = self._prefix(number)
            await self._store.delete_range(Range(f"{prefix}-", f"{prefix}-~"), partition_key=prefix)

    def _prefix(self, number: int) -> str:
        return f"{SEQUENCES_FOLDER}/{self.settings.mark}-{number:03}"


class IndexScans(MetadataScenario):
    """Scans of a range of an index that changes meanwhile."""

    name = "index-scans"
    said = f"scans of {SCANNED} records by an index, while records move within that index"
    rate = 40.0

    async def prepare(self) -> None:
        await super().prepare()
        there = {key async for key in self._store.list(children_of(INDEXED_FOLDER))}
        missing = [number for number in range(self.settings.records) if self._key(number) not in there]
        await all_of(self._put(number, number) for number in missing)

    async def serve(self, arrival: Arrival) -> None:
        records = self.settings.records
        if arrival.draw.random() < CHANGES:
            arrival.operation = "put, another place in the index"
            await self._put(arrival.draw.randrange(records), arrival.draw.randrange(records))
            return
        arrival.operation = "index scan"
        first = arrival.draw.randrange(max(1, records - SCANNED))
        wanted = Range(f"{first:08}", f"{first + SCANNED:08}")
        async for record in self._store.scan(wanted, index=INDEX):
            arrival.size += len(record.value or b"")

    async def clear(self) -> None:
        """The records stay for the next run."""

    async def _put(self, number: int, place: int) -> None:
        await self._store.put(self._key(number), self._value, indexes=[(INDEX, f"{place:08}")])

    @staticmethod
    def _key(number: int) -> str:
        return f"{INDEXED_FOLDER}/{number:08}"


class Watches(MetadataScenario):
    """News of ranges, timed by when the write was meant to begin that they tell of."""

    name = "watches"
    said = f"puts into {RANGES} ranges, each with {WATCHES_OF_EACH} watches; how long until every watch has the news"
    rate = 60.0

    async def prepare(self) -> None:
        await super().prepare()
        for number in range(RANGES):
            for _ in range(WATCHES_OF_EACH):
                folder = self._folder(number)
                watch = self._store.watch(children_of(folder), partition_key=folder)
                self.begin_beside(self._follow(watch))

    async def serve(self, arrival: Arrival) -> None:
        arrival.operation = "put"
        folder = self._folder(arrival.draw.randrange(RANGES))
        key = f"{folder}/{arrival.draw.randrange(KEYS_OF_EACH):04}"
        await self._store.put(key, self.stamped(arrival), partition_key=folder)

    async def clear(self) -> None:
        for number in range(RANGES):
            folder = self._folder(number)
            await self._store.delete_range(children_of(folder), partition_key=folder)

    async def _follow(self, watch: Watch) -> None:
        async with watch:
            async for batch in watch:
                if batch.kind is BatchKind.CHANGES:
                    for change in batch.changes:
                        self._time(change.record.value if change.record is not None else None)

    def _time(self, value: bytes | None) -> None:
        intended_s = self.stamp_of(value or b"")
        if intended_s is not None:
            self.event("news of a watch", intended_s, len(value or b""))

    def _folder(self, number: int) -> str:
        return f"{WATCHED_FOLDER}/{self.settings.mark}-{number:03}"
