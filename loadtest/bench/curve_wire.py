"""Curves over the wire: requests outstanding, bytes of a value, puts of a request, and load past saturation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from loadtest.bench.bench import Group
from loadtest.bench.model import AtMost, Axis, Better, Derived, Line, Lookup, Metric, Point, Sample, Turn
from loadtest.bench.placing import apart
from loadtest.bench.settings import SMALL_RECORDS, VALUE_BYTES, Settings
from loadtest.bench.store import Store, open_stores
from loadtest.bench.workload import Gets, Offered, Puts, Workload

OUTSTANDING = (1, 4, 16, 64, 256, 1024)
VALUES = (16, 128, 1024, 8 * 1024, 64 * 1024, 512 * 1024)
BATCHES = (1, 3, 10, 30, 100, 300, 1000)
VALUE_WINDOW = 16
BATCH_WINDOW = 8
LARGE_POOL = 1_000
"""Records that large values are put to."""
MEBIBYTE = 1024 * 1024

OVERLOAD = "curve-overload"
FACTORS = (0.5, 1.0, 1.5, 2.0)
"""Of the peak."""
PEAK_WINDOW = 256
PEAK_SECONDS = 1.0
OVERLOAD_SECONDS = 2.0
GOODPUT_OF_PEAK = 0.8
"""What must be left of the peak when twice as much is asked for."""

P99 = Metric("p99_ms", "p99", "ms", Better.LOWER)


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """Four curves."""
    sides = tuple(program.side for program in settings.programs)
    common = f"one shard, {SMALL_RECORDS:,} records"
    about = {
        "curve-outstanding": (f"Requests outstanding, {common}, {VALUE_BYTES}-byte values", "requests outstanding"),
        "curve-value": (f"Bytes of a value, {VALUE_WINDOW} puts outstanding, one shard", "bytes of a value"),
        "curve-batch": (f"Puts of a request, {BATCH_WINDOW} outstanding, {common}", "puts of a request"),
    }
    lines = {"curve-outstanding": _outstanding(), "curve-value": _values(), "curve-batch": _batches()}
    plain: list[Group[Any]] = [
        Group(name, title, sides, list(lines[name]), partial(open_stores, group=name), Axis(label))
        for name, (title, label) in about.items()
    ]
    title = f"Load by schedule, past saturation, {common}; times are from the intended start"
    axis = Axis("load offered, of the peak", is_log=False)
    return [*plain, Group(OVERLOAD, title, sides, list(_overload()), partial(open_stores, group=OVERLOAD), axis)]


def derived(_settings: Settings) -> Sequence[Derived]:
    """No collapse: what is left of the peak at twice the peak."""
    return [
        Derived(
            f"overload-{name}",
            f"{title}: peak to throughput at {FACTORS[-1]:g} x the peak",
            "x",
            Better.LOWER,
            partial(_collapse, name=name),
            (AtMost(1 / GOODPUT_OF_PEAK),),
        )
        for name, (title, _work) in OVERLOADED.items()
    ]


def _collapse(lookup: Lookup, name: str) -> dict[str, float] | None:
    figures = lookup(f"{OVERLOAD}/{name}-{FACTORS[-1]:g}", "of_peak")
    return None if figures is None else {side: 1 / figure.value for side, figure in figures.items()}


def _rate(unit: str) -> Metric:
    return Metric("rate", "", f"{unit}/s", Better.HIGHER)


def _outstanding() -> Iterator[Line[Store]]:
    for window in OUTSTANDING:
        put, get = Puts(1, window, SMALL_RECORDS), Gets(1, window, SMALL_RECORDS)
        yield _line(f"put-{window}", f"put by 1, {window:,} outstanding", put, Point("puts on a stream", window))
        yield _line(f"get-{window}", f"get by 1, {window:,} outstanding", get, Point("gets, a call each", window))


def _line(name: str, title: str, workload: Workload, point: Point) -> Line[Store]:
    metrics = (_rate("operations"), P99)
    prepare = partial(_fill, records=SMALL_RECORDS)
    return Line(name, title, metrics, partial(_load, workload=workload), prepare, point=point)


def _fill(store: Store, records: int) -> None:
    store.fill(records)


def _load(store: Store, turn: Turn, workload: Workload) -> Sample:
    return store.load(workload, turn)


def _values() -> Iterator[Line[Store]]:
    for size in VALUES:
        puts = Puts(1, VALUE_WINDOW, LARGE_POOL, value_bytes=size)
        metrics = (_rate("puts"), P99, Metric("mib_per_s", "bytes", "MiB/s", Better.HIGHER))
        measure = partial(_load_bytes, workload=puts)
        yield Line(f"put-{size}", f"put of {size:,} bytes", metrics, measure, point=Point("puts", size))


def _load_bytes(store: Store, turn: Turn, workload: Puts) -> Sample:
    sample = store.load(workload, turn)
    return {**sample, "mib_per_s": sample["rate"] * workload.value_bytes / MEBIBYTE}


def _batches() -> Iterator[Line[Store]]:
    for batch in BATCHES:
        puts = Puts(batch, BATCH_WINDOW, SMALL_RECORDS)
        yield _line(f"put-{batch}", f"put by {batch:,}", puts, Point("puts", batch))


OVERLOADED: Mapping[str, tuple[str, Workload]] = {
    "put": ("puts on a stream", Puts(1, PEAK_WINDOW, SMALL_RECORDS)),
    "get": ("gets, a call each", Gets(1, PEAK_WINDOW, SMALL_RECORDS)),
}


def _overload() -> Iterator[Line[Store]]:
    for name, (title, _work) in OVERLOADED.items():
        for factor in FACTORS:
            metrics = (
                _rate("operations"),
                Metric("of_peak", "of the peak", "x", Better.HIGHER),
                Metric("p50_ms", "p50", "ms", Better.LOWER),
                P99,
                Metric("refused_share", "refused", "of all", Better.LOWER),
                Metric("server_cpu_us", "processor of the server", "us each", Better.LOWER),
                Metric("client_cpu_share", "of the client's processor", "x", Better.LOWER),
            )
            yield Line(
                f"{name}-{factor:g}",
                f"{title}, {factor:g} x the peak offered",
                metrics,
                partial(_offer, name=name, factor=factor),
                partial(_fill, records=SMALL_RECORDS),
                is_slow=True,
                point=Point(title, factor),
            )


def _offer(store: Store, turn: Turn, name: str, factor: float) -> Sample:
    """The peak, and directly behind it requests by schedule: what a busy hour takes of both is the same."""
    work = OVERLOADED[name][1]
    with apart(store.server.pid, store.generator.pid):
        peak = store.load(work, Turn(turn.number, PEAK_SECONDS))["rate"]
        sample = store.load(Offered(work, peak * factor), Turn(turn.number, OVERLOAD_SECONDS), client="open")
    refused = sample["refused"] / (sample["refused"] + sample["requests"])
    return {**sample, "of_peak": sample["rate"] / peak, "peak": peak, "refused_share": refused}
