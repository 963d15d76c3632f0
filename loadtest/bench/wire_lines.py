"""The same requests to every server: puts, gets and scans, one by one and by batches, on a small store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from loadtest.bench.bench import Group
from loadtest.bench.model import AtLeast, Better, Check, Line, Metric, Sample, Summary, Turn
from loadtest.bench.settings import SCAN_RECORDS, SMALL_RECORDS, VALUE_BYTES, Settings
from loadtest.bench.store import Store, open_stores
from loadtest.bench.workload import Gets, Puts, Scan, Workload

GROUP = "wire"
PEER = "oxia"
SINGLE_FLOOR = 0.6
BATCH_FLOOR = 1.0
PUT_WINDOWS = {1: 64, 10: 16, 100: 8, 1000: 4}
GET_WINDOWS = {100: 4}


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """The one group of this module."""
    sides = tuple(program.side for program in settings.programs)
    title = f"Over the wire, one shard, {SMALL_RECORDS:,} records, {VALUE_BYTES}-byte values, random keys"
    return [Group(GROUP, title, sides, list(_lines()), partial(open_stores, group=GROUP))]


def rate(unit: str, floor: float | None) -> Metric:
    """Operations per second, to be at least a peer's."""
    return Metric("rate", "", f"{unit}/s", Better.HIGHER, (AtLeast(PEER, floor),))


def wait(label: str, floor: float | None = None, *more: Check) -> Metric:
    """A percentile of the waiting times, or their maximum (of which the worst repeat counts)."""
    summary = Summary.WORST if label == "max" else Summary.MEDIAN
    return Metric(f"{label}_ms", label, "ms", Better.LOWER, (AtLeast(PEER, floor), *more), summary)


def play(store: Store, turn: Turn, workload: Workload) -> Sample:
    """One turn of a workload on a store."""
    return store.load(workload, turn)


def fill(store: Store, records: int) -> None:
    """Makes the store hold the records that a line works on."""
    store.fill(records)


def wire_line(name: str, title: str, metrics: tuple[Metric, ...], workload: Workload, records: int) -> Line[Store]:
    """A line that plays a workload on a store of so many records."""
    return Line(name, title, metrics, partial(play, workload=workload), partial(fill, records=records))


def _lines() -> Iterator[Line[Store]]:
    yield from _single_lines()
    yield from _batch_lines()
    yield wire_line(
        "scan-100k",
        f"scan of {SCAN_RECORDS:,} records",
        (Metric("seconds", "", "s", Better.LOWER, (AtLeast(PEER, BATCH_FLOOR),)),),
        Scan(SCAN_RECORDS),
        SCAN_RECORDS,
    )


def _single_lines() -> Iterator[Line[Store]]:
    waits = (wait("p50", SINGLE_FLOOR), wait("p99"))
    one = Puts(1, 1, SMALL_RECORDS)
    yield wire_line("put-one", "put one at a time, stream,", waits, one, SMALL_RECORDS)
    unary = Puts(1, 1, SMALL_RECORDS, is_stream=False)
    yield wire_line("put-one-unary", "put one at a time, unary,", waits, unary, SMALL_RECORDS)
    yield wire_line("get-one", "get one at a time,", waits, Gets(1, 1, SMALL_RECORDS), SMALL_RECORDS)


def _batch_lines() -> Iterator[Line[Store]]:
    floors = {1: SINGLE_FLOOR, 10: None, 100: BATCH_FLOOR, 1000: BATCH_FLOOR}
    for batch, window in PUT_WINDOWS.items():
        metrics = (rate("puts", floors[batch]),)
        title = f"put by {batch}, {window} outstanding"
        yield wire_line(f"put-{batch}", title, metrics, Puts(batch, window, SMALL_RECORDS), SMALL_RECORDS)
    metrics = (rate("puts", BATCH_FLOOR),)
    for name, title, puts in (
        ("put-100-ordered", "keys in order", Puts(100, 8, SMALL_RECORDS, order="sorted")),
        ("put-100-indexed", "indexed, same entries", Puts(100, 8, SMALL_RECORDS, index="same")),
        ("put-100-reindexed", "indexed, new entries", Puts(100, 8, SMALL_RECORDS, index="moving")),
    ):
        yield wire_line(name, f"put by 100, 8 outstanding, {title}", metrics, puts, SMALL_RECORDS)
    for batch, window in GET_WINDOWS.items():
        gets = Gets(batch, window, SMALL_RECORDS)
        title = f"get by {batch}, {window} outstanding"
        yield wire_line(f"get-{batch}", title, (rate("gets", BATCH_FLOOR),), gets, SMALL_RECORDS)
