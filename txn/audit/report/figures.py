"""What the report shows, counted by Spark: of each figure no more than a few bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txn.audit.source import AS_OF
from txn.audit.tables import Tables

BARS_MAX = 15
AGES = (("under 1 min", 60_000), ("1 to 10 min", 600_000), ("10 min to 1 h", 3_600_000), ("1 h to 1 day", 86_400_000))
OLDEST = "over 1 day"
DELAYS = (
    ("up to 10 ms", 10),
    ("up to 50 ms", 50),
    ("up to 100 ms", 100),
    ("up to 500 ms", 500),
    ("up to 1 s", 1_000),
    ("up to 10 s", 10_000),
    ("up to 1 min", 60_000),
)
SLOWEST = "longer"
STATES = ("OPEN", "COMMITTED", "ABORTED")
SLOW_SHARE = 0.95


class Bar(NamedTuple):
    """One bar: its parts are stacked."""

    label: str
    parts: Sequence[float]


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart."""

    title: str
    said: str
    """What it shows, in a sentence."""
    bars: Sequence[Bar]
    unit: str = ""
    legend: Sequence[str] = ()
    """What the parts of a bar are, if there are several."""


def figures_of(tables: Tables, violations: DataFrame) -> list[Figure]:
    """All figures of an audit; those that the dialect has no records for are left out."""
    found = [_violations(violations), _ages(tables), _operations(tables), _horizons(tables)]
    if tables.has("applied"):
        found += [_delays(tables), _owners(tables)]
    return found


def _violations(violations: DataFrame) -> Figure:
    rows = violations.groupBy("rule").count().orderBy(F.desc("count"), "rule").limit(BARS_MAX).collect()
    bars = [Bar(row["rule"], [row["count"]]) for row in rows]
    return Figure("Violations", "How often each rule is broken.", bars)


def _ages(tables: Tables) -> Figure:
    age = _ms(AS_OF) - _ms("begun")
    known = tables.transactions.where("state IS NOT NULL")
    rows = known.groupBy(_bucket(age, AGES, OLDEST).alias("age"), "state").count().collect()
    counts = {(row["age"], row["state"]): row["count"] for row in rows}
    labels = [*(label for label, _ in AGES), OLDEST]
    bars = [Bar(label, [counts.get((label, state), 0) for state in STATES]) for label in labels]
    said = "Transactions whose headers are there, by how long ago they were begun."
    return Figure("Transactions by state and age", said, bars, legend=[state.lower() for state in STATES])


def _operations(tables: Tables) -> Figure:
    grouped = tables.participants.where("operations > 0").groupBy("segment").agg(
        F.sum(F.when(F.col("subscription").isNull(), F.col("operations")).otherwise(0)).alias("writes"),
        F.sum(F.when(F.col("subscription").isNotNull(), F.col("operations")).otherwise(0)).alias("acks"),
    )
    rows = grouped.orderBy(F.desc(F.col("writes") + F.col("acks")), "segment").limit(BARS_MAX).collect()
    bars = [Bar(row["segment"], [row["writes"], row["acks"]]) for row in rows]
    said = "Operation records that wait for an outcome, or for it to be carried out."
    return Figure("Operations by segment", said, bars, legend=["writes", "acknowledgements"])


def _horizons(tables: Tables) -> Figure:
    held = tables.participants.where("operations > 0 AND subscription IS NULL AND state = 'OPEN'")
    age_s = F.max(_ms(AS_OF) - _ms("first_written")) / 1000
    rows = held.groupBy("segment").agg(age_s.alias("age")).orderBy(F.desc("age"), "segment").limit(BARS_MAX).collect()
    bars = [Bar(row["segment"], [row["age"]]) for row in rows]
    said = "For how long the oldest open transaction of a segment has held its readers back."
    return Figure("Horizon lag", said, bars, "s")


def _delays(tables: Tables) -> Figure:
    applied = tables.participants.where("applied IS NOT NULL AND finalized IS NOT NULL")
    delay = _ms("applied") - _ms("finalized")
    rows = applied.groupBy(_bucket(delay, DELAYS, SLOWEST).alias("delay")).count().collect()
    counts = {row["delay"]: row["count"] for row in rows}
    bars = [Bar(label, [counts.get(label, 0)]) for label in [*(label for label, _ in DELAYS), SLOWEST]]
    return Figure("From the decision to its effect", "How long participants took to carry an outcome out.", bars)


def _owners(tables: Tables) -> Figure:
    applied = tables.view("applied", "txn_id", "applied", "broker", "odd_key").where("odd_key IS NULL").drop(AS_OF)
    decided = tables.transactions.where("finalized IS NOT NULL").select("txn_id", "finalized")
    delay_ms = F.percentile_approx(_ms("applied") - _ms("finalized"), SLOW_SHARE)
    grouped = applied.join(decided, "txn_id").groupBy("broker").agg(delay_ms.alias("delay"))
    rows = grouped.orderBy(F.desc("delay"), "broker").limit(BARS_MAX).collect()
    bars = [Bar(row["broker"], [max(0, row["delay"])]) for row in rows]
    said = f"Within which time an owner of segments has carried out {SLOW_SHARE:.0%} of the outcomes."
    return Figure("Slowest owners", said, bars, "ms")


def _ms(column: str) -> Column:
    return F.unix_millis(column)


def _bucket(number: Column, buckets: Sequence[tuple[str, int]], last: str) -> Column:
    """The name of the first bucket that a number fits into."""
    found = F.lit(last)
    for label, bound in reversed(buckets):
        found = F.when(number <= bound, F.lit(label)).otherwise(found)
    return found
