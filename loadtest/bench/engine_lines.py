"""The engine in process, without a server, beside py-lmdb with a synced commit per batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from loadtest.bench.bench import Bench, Group
from loadtest.bench.model import AtLeast, AtMost, Better, Line, Metric
from loadtest.bench.raw_lmdb import BatchStore, Item, RawLmdb
from loadtest.bench.settings import SCAN_RECORDS, Settings
from metastore.engine.operations import WriteBatch
from metastore.engine.shard import Shard

GROUP = "engine"
OURS, RAW = "tidemark", "py-lmdb"
BATCHES = (10, 100, 1000)
JUDGED_BATCH = 100
RATIO_TO_LMDB = 2.0
LONGEST_PUT_MS = 50.0

P50 = Metric("p50_ms", "p50", "ms", Better.LOWER)
LONGEST_OF_OURS = Metric("max_ms", "max", "ms", Better.LOWER, (AtMost(LONGEST_PUT_MS),))


class EngineShard(BatchStore):
    """A shard of the store with its defaults."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._shard = Shard.open(folder)

    def commit(self, items: Sequence[Item]) -> None:
        self._shard.write(WriteBatch(puts=[(key, value, None) for key, value in items]))

    def close(self) -> None:
        """Closes the shard."""
        self._shard.close()


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """A group per number of records: what a put costs must not grow with it beyond LMDB's own growth."""
    return [_group(records) for records in settings.plan.sizes]


def _group(records: int) -> Group[BatchStore]:
    title = f"The engine in process, {records:,} records, 128-byte values, random keys, durable batch by batch"
    lines = [_line(batch, records) for batch in BATCHES]
    return Group(f"{GROUP}-{records // 1000}k", title, (OURS, RAW), lines, _open)


def _line(batch: int, records: int) -> Line[BatchStore]:
    is_judged = batch == JUDGED_BATCH and records == SCAN_RECORDS
    goal = AtLeast(RAW, floor=RATIO_TO_LMDB, goal=RATIO_TO_LMDB) if is_judged else AtLeast(RAW)
    rate = Metric("rate", "", "puts/s", Better.HIGHER, (goal,))
    return Line(
        f"put-{batch}",
        f"put by {batch}",
        (rate, P50, LONGEST_OF_OURS),
        partial(_put_random, batch=batch),
        prepare=partial(BatchStore.fill, records=records),
    )


def _put_random(store: BatchStore, turn: Any, batch: int) -> Mapping[str, float]:
    return store.put_random(batch, turn)


@contextmanager
def _open(bench: Bench) -> Iterator[Mapping[str, BatchStore]]:
    with ExitStack() as stack:
        folder = stack.enter_context(bench.fresh_folder(GROUP))
        engine = EngineShard(folder / "shard")
        stack.callback(engine.close)
        yield {OURS: engine, RAW: stack.enter_context(RawLmdb(folder / "lmdb"))}
