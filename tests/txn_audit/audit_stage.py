"""Stores for the tests of the audit, and audits of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from metastore.clock import SystemClock
from metastore.engine.routing import place_of
from metastore.interface import open_store
from metastore.spark import pin
from txn.audit.dialect import TIDEMARK, DialectName
from txn.audit.engine import violations
from txn.audit.planting import Expected, Planter
from txn.audit.rules.model import Rule
from txn.audit.rules.registry import rules_of
from txn.audit.source import StoreSource
from txn.audit.tables import Tables

SHARDS = 2
LATER_MS = 600_000
"""The audit looks so long after the planting, so that what the store itself dates is old."""


def elsewhere(partition: str) -> str:
    """A partition that is on another shard."""
    own = place_of(partition.encode(), SHARDS)
    return next(name for name in map(str, range(100)) if place_of(name.encode(), SHARDS) != own)


def plant(
    folder: Path, work: Callable[[Planter], Awaitable[None]], as_of_ms: int | None = None, shards: int = SHARDS
) -> tuple[str, int]:
    """A store that something was planted into; its URL, and the moment to audit it at."""
    url = f"lmdb://{folder}?shards={shards}"
    as_of_ms = as_of_ms or SystemClock().wall_ms() + LATER_MS

    async def run() -> None:
        async with await open_store(url) as store:
            await work(Planter(store, as_of_ms, elsewhere))

    asyncio.run(run())
    return f"lmdb://{folder}", as_of_ms


def source_at(spark: SparkSession, url: str, point: object, as_of_ms: int) -> StoreSource:
    """A store at a point, in one partition for each shard."""
    return StoreSource(spark, {"store": url, "point": str(point), "partitions": "1"}, as_of_ms)


def audit(spark: SparkSession, url: str, as_of_ms: int) -> set[Expected]:
    """What the audit finds."""
    with pin(url) as point:
        source = source_at(spark, url, point, as_of_ms)
        return found(Tables(source, TIDEMARK), rules_of(DialectName.TIDEMARK, history=False))


def found(tables: Tables, rules: Sequence[Rule]) -> set[Expected]:
    """The violations of rules, as what was to be expected."""
    rows = violations(tables, rules).collect()
    every = [
        Expected(
            row.rule,
            row.txn_id,
            row.segment,
            row.subscription,
            row.key if row.txn_id is None and row.segment is None else None,
        )
        for row in rows
    ]
    return set(every)
