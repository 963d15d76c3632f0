"""Everything there is to measure: a new module of lines is named here, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loadtest.bench import (
    client_lines,
    curve_sizes,
    curve_wire,
    engine_lines,
    limit_lines,
    spark_audit_lines,
    spark_lines,
    store_lines,
    topic_lines,
    txn_lines,
    watch_lines,
    wire_lines,
)
from loadtest.bench.bench import Group
from loadtest.bench.model import AtMost, Better, Derived, Lookup
from loadtest.bench.peers import lines as peer_lines
from loadtest.bench.settings import Settings

SINGLE_PUT_LIMIT = 2.0
MODULES = (
    limit_lines,
    engine_lines,
    wire_lines,
    store_lines,
    client_lines,
    watch_lines,
    txn_lines,
    topic_lines,
    spark_lines,
    spark_audit_lines,
)


def all_groups(settings: Settings) -> Sequence[Group[Any]]:
    """All groups, in the order in which they run."""
    return [group for module in _modules(settings) for group in module.groups(settings)]


def _modules(settings: Settings) -> Sequence[Any]:
    if settings.peers:
        return (limit_lines, peer_lines)
    return MODULES if settings.curve_records is None else (limit_lines, curve_wire, curve_sizes)


def all_derived(settings: Settings) -> Sequence[Derived]:
    """Rows that are computed from others when all is measured."""
    single_put = Derived(
        "put-one-limit",
        "put one at a time, unary, p50, to echo + fdatasync",
        "x",
        Better.LOWER,
        _put_to_limit,
        (AtMost(SINGLE_PUT_LIMIT),),
    )
    if settings.peers:
        return peer_lines.derived(settings)
    if settings.curve_records is not None:
        return curve_wire.derived(settings)
    modules = (store_lines, watch_lines, txn_lines, topic_lines, spark_lines)
    return [single_put, *(each for module in modules for each in module.derived(settings))]


def _put_to_limit(lookup: Lookup) -> dict[str, float] | None:
    """What a durable put cannot do without: a message there and back, and a synced write."""
    put = lookup(f"{wire_lines.GROUP}/put-one-unary", "p50_ms")
    echo = lookup(f"{limit_lines.GROUP}/echo-unary", "p50_ms")
    synced = lookup(f"{limit_lines.GROUP}/fdatasync-256", "p50_ms")
    if put is None or echo is None or synced is None:
        return None
    limit_ms = echo[limit_lines.SIDE].value + synced[limit_lines.SIDE].value
    return {side: figure.value / limit_ms for side, figure in put.items()}
