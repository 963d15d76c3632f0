"""What py-lmdb itself does with one synced commit per batch: the limit that an engine is held against."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import lmdb

from loadtest.bench.figures import percentile
from loadtest.bench.model import Sample, Turn
from loadtest.bench.workload import SEED, VALUE_BYTES, record_key

MAP_BYTES = 8 * 1024**3
FILL_BATCH = 10_000
ORDERED_ITEMS = 500_000
RANDOM_ITEMS = 100_000

Item = tuple[bytes, bytes]


class BatchStore(ABC):
    """A store that writes batches of records, each batch durable before the next."""

    def __init__(self) -> None:
        self._records = 0
        self._items: dict[str, Sequence[Item]] = {}

    @abstractmethod
    def commit(self, items: Sequence[Item]) -> None:
        """Writes a batch, and returns when it is durable."""

    def fill(self, records: int) -> None:
        """Makes it hold the first records, before random puts go to them."""
        for first in range(self._records, records, FILL_BATCH):
            self.commit(_items(range(first, min(records, first + FILL_BATCH))))
        if records > self._records:
            self._records = records
            numbers = random.Random(SEED).choices(range(records), k=RANDOM_ITEMS)
            self._items["random"] = _items(numbers)

    def put_random(self, batch: int, turn: Turn) -> Sample:
        """Overwrites records at random, durable batch by batch."""
        assert self._records, "fill it first"
        return self._measure(self._items["random"], batch, turn)

    def _measure(self, items: Sequence[Item], batch: int, turn: Turn) -> Sample:
        parts = [items[first : first + batch] for first in range(0, len(items) - batch + 1, batch)]
        latencies_s: list[float] = []
        started_s = now_s = time.perf_counter()
        while now_s - started_s < turn.seconds:
            self.commit(parts[len(latencies_s) % len(parts)])
            before_s, now_s = now_s, time.perf_counter()
            latencies_s.append(now_s - before_s)
        latencies_s.sort()
        return {
            "rate": len(latencies_s) * batch / (now_s - started_s),
            "p50_ms": percentile(latencies_s, 0.5) * 1e3,
            "p99_ms": percentile(latencies_s, 0.99) * 1e3,
            "max_ms": latencies_s[-1] * 1e3,
        }


class RawLmdb(BatchStore):
    """One environment with LMDB's own defaults: every commit is synced."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        folder.mkdir()
        self._environment = lmdb.open(str(folder), map_size=MAP_BYTES)
        self._database = self._environment.open_db()

    def __enter__(self) -> RawLmdb:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._environment.close()

    def put_in_order(self, batch: int, turn: Turn) -> Sample:
        """Adds new records in key order to an empty database, a synced commit per batch."""
        items = self._items.setdefault("ordered", _items(range(ORDERED_ITEMS)))
        with self._environment.begin(write=True) as transaction:
            transaction.drop(self._database, delete=False)
        self._records = 0
        return self._measure(items, batch, turn)

    def commit(self, items: Sequence[Item]) -> None:
        with self._environment.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(items)


def _items(numbers: Sequence[int]) -> list[Item]:
    source = random.Random(SEED + 1)
    return [(record_key(number), source.randbytes(VALUE_BYTES)) for number in numbers]
