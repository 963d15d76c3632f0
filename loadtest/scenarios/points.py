"""Single records of the metadata: reads, writes, deletes."""

from __future__ import annotations

from loadtest.arrivals import DISTRIBUTIONS
from loadtest.arrivals.pump import Arrival
from loadtest.scenarios.scenario import MetadataScenario, Stage, all_of
from metastore.interface import children_of

FOLDER = "/load/points"
DELETES = 0.1
"""The share of deletes among what is no read."""


class MetadataMixed(MetadataScenario):
    """Reads, writes and deletes of single records."""

    name = "metadata-mixed"
    said = "gets, puts and deletes of single records, every key as often as every other"
    rate = 200.0
    distribution = "uniform"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        settings = stage.settings
        self._choose = DISTRIBUTIONS[settings.distribution or self.distribution](settings.records)

    async def prepare(self) -> None:
        await super().prepare()
        there = {key async for key in self._store.list(children_of(FOLDER))}
        missing = [key for key in map(self._key, range(self.settings.records)) if key not in there]
        await all_of(self._store.put(key, self._value) for key in missing)

    async def serve(self, arrival: Arrival) -> None:
        key = self._key(self._choose(arrival.draw))
        if arrival.draw.random() < self.settings.reads:
            arrival.operation = "get"
            record = await self._store.get(key)
            arrival.size = len(record.value or b"") if record is not None else 0
        elif arrival.draw.random() < DELETES:
            arrival.operation = "delete"
            await self._store.delete(key)
        else:
            arrival.operation = "put"
            await self._store.put(key, self._value)

    async def clear(self) -> None:
        """The records stay for the next run."""

    @staticmethod
    def _key(number: int) -> str:
        return f"{FOLDER}/{number:08}"


class MetadataZipf(MetadataMixed):
    """The same, with popular keys."""

    name = "metadata-zipf"
    said = "the same, where the n-th most popular key is drawn with a frequency of 1/n"
    distribution = "zipfian"


class MetadataHot(MetadataMixed):
    """The same, with few keys that nearly everybody wants."""

    name = "metadata-hot"
    said = "the same, where a hundredth of the keys gets nine draws of ten"
    distribution = "hot"
