"""The store as it grows: the same work at several sizes, reopening, memory at rest, listing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from loadtest.bench.bench import Group
from loadtest.bench.model import AtMost, Better, Derived, Line, Lookup, Metric, Sample, Turn
from loadtest.bench.settings import VALUE_BYTES, Settings
from loadtest.bench.store import Store, open_stores
from loadtest.bench.wire_lines import GET_WINDOWS, PUT_WINDOWS, fill, rate, wait, wire_line
from loadtest.bench.workload import Gets, Listing, Puts

GROUP = "store"
OPEN_LIMIT_S = 1.0
PUT_WAIT_LIMIT_MS = 50.0
LIST_RISE_LIMIT_MIB = 64.0
REST_GROWTH_LIMIT_MIB = 16.0

REST_METRICS = (
    Metric("idle_private_mib", "memory at rest, private", "MiB", Better.LOWER),
    Metric("idle_resident_mib", "memory at rest, with mapped files", "MiB", Better.LOWER),
)
LIST_METRICS = (
    Metric("seconds", "", "s", Better.LOWER),
    Metric("rise_mib", "private memory above idle", "MiB", Better.LOWER, (AtMost(LIST_RISE_LIMIT_MIB),)),
    Metric("resident_rise_mib", "with mapped files", "MiB", Better.LOWER),
)


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """The one group of this module; the sizes are the plan's."""
    sides = tuple(program.side for program in settings.programs)
    sizes = ", ".join(f"{size:,}" for size in settings.plan.sizes)
    title = f"A growing store, one shard, {sizes} records, {VALUE_BYTES}-byte values, random keys"
    lines = list(_lines(settings.plan.sizes))
    return [Group(GROUP, title, sides, lines, partial(open_stores, group=GROUP))]


def size_name(records: int) -> str:
    """10k, 100k, 1m."""
    return f"{records // 1_000_000}m" if records >= 1_000_000 else f"{records // 1_000}k"


def _lines(sizes: tuple[int, ...]) -> Iterator[Line[Store]]:
    *smaller, largest = sizes
    for records in smaller:
        yield _put_line(100, records, ())
        yield _get_line(100, records)
        if records == sizes[0]:
            yield _reopen_line(records, ())
    yield from (_put_line(batch, largest, _bounds(batch)) for batch in PUT_WINDOWS)
    yield _one_at_a_time(largest)
    yield _get_line(100, largest)
    yield wire_line(
        f"get-one-{size_name(largest)}",
        f"get one at a time, {largest:,} records,",
        (wait("p50"), wait("p99"), wait("max")),
        Gets(1, 1, largest),
        largest,
    )
    yield _reopen_line(largest, (AtMost(OPEN_LIMIT_S),))
    yield _reopen_after_kill_line(largest)
    yield Line(
        f"list-{size_name(largest)}",
        f"list of {largest:,} keys",
        LIST_METRICS,
        partial(_drain, records=largest),
        partial(fill, records=largest),
        is_slow=True,
    )


def _bounds(batch: int) -> tuple[AtMost, ...]:
    """Four requests of 1000 puts wait for each other as long as the bound: it would tell nothing of the store."""
    return () if batch == 1000 else (AtMost(PUT_WAIT_LIMIT_MS),)


def _put_line(batch: int, records: int, bounds: tuple[AtMost, ...]) -> Line[Store]:
    window = PUT_WINDOWS[batch]
    metrics = (rate("puts", None), wait("p50"), wait("p99"), wait("max", None, *bounds))
    title = f"put by {batch}, {window} outstanding, {records:,} records"
    return wire_line(f"put-{batch}-{size_name(records)}", title, metrics, Puts(batch, window, records), records)


def _one_at_a_time(records: int) -> Line[Store]:
    metrics = (wait("p50"), wait("p99"), wait("max", None, AtMost(PUT_WAIT_LIMIT_MS)))
    title = f"put one at a time, {records:,} records,"
    return wire_line(f"put-one-{size_name(records)}", title, metrics, Puts(1, 1, records), records)


def _get_line(batch: int, records: int) -> Line[Store]:
    metrics = (rate("gets", None), wait("p50"), wait("p99"), wait("max"))
    gets = Gets(batch, GET_WINDOWS[batch], records)
    title = f"get by {batch}, {gets.window} outstanding, {records:,} records"
    return wire_line(f"get-{batch}-{size_name(records)}", title, metrics, gets, records)


def _reopen_line(records: int, checks: tuple[AtMost, ...]) -> Line[Store]:
    metrics = (Metric("open_s", "until it serves", "s", Better.LOWER, checks), *REST_METRICS)
    title = f"reopen, {records:,} records,"
    return Line(f"reopen-{size_name(records)}", title, metrics, _reopen, partial(fill, records=records), is_slow=True)


def _reopen_after_kill_line(records: int) -> Line[Store]:
    metrics = (Metric("open_s", "until it serves", "s", Better.LOWER),)
    return Line(
        f"reopen-killed-{size_name(records)}",
        f"reopen after kill -9 under load, {records:,} records,",
        metrics,
        partial(_reopen_after_kill, records=records),
        partial(fill, records=records),
        is_slow=True,
    )


def _reopen(store: Store, _turn: Turn) -> Sample:
    return store.reopen()


def _reopen_after_kill(store: Store, turn: Turn, records: int) -> Sample:
    return store.reopen_after_kill(Puts(100, PUT_WINDOWS[100], records), turn)


def _drain(store: Store, turn: Turn, records: int) -> Sample:
    return store.drain(Listing(records), turn)


def derived(settings: Settings) -> Sequence[Derived]:
    """How cost and memory grow from the smallest size to the largest."""
    small, large = size_name(settings.plan.sizes[0]), size_name(settings.plan.sizes[-1])

    def cost(name: str, lookup: Lookup) -> dict[str, float] | None:
        return _by_side(lookup, f"{name}-{small}", f"{name}-{large}", "rate", lambda few, many: few / many)

    def rest(lookup: Lookup) -> dict[str, float] | None:
        names = (f"reopen-{small}", f"reopen-{large}")
        return _by_side(lookup, *names, "idle_private_mib", lambda few, many: many - few)

    return [
        Derived(
            "put-growth",
            f"cost per put by 100, {large} to {small} records",
            "x",
            Better.LOWER,
            partial(cost, "put-100"),
        ),
        Derived(
            "get-growth",
            f"cost per get by 100, {large} to {small} records",
            "x",
            Better.LOWER,
            partial(cost, "get-100"),
        ),
        Derived(
            "rest-growth",
            f"private memory at rest, {large} less {small} records",
            "MiB",
            Better.LOWER,
            rest,
            (AtMost(REST_GROWTH_LIMIT_MIB),),
        ),
    ]


def _by_side(lookup: Lookup, small: str, large: str, metric: str, combine: Any) -> dict[str, float] | None:
    few, many = lookup(f"{GROUP}/{small}", metric), lookup(f"{GROUP}/{large}", metric)
    if few is None or many is None:
        return None
    return {side: combine(few[side].value, many[side].value) for side in few}
