"""What the report shows, counted by Spark: of each figure no more than a few bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from metastore.spark.schemas import AS_OF
from txn.audit.rules.model import Rule
from txn.audit.tables import Tables

BARS_MAX = 8
AGES = (
    ("≤ 10 s", 10_000),
    ("≤ 1 min", 60_000),
    ("≤ 10 min", 600_000),
    ("≤ 1 h", 3_600_000),
    ("≤ 1 day", 86_400_000),
)
OLDEST = "older"
DELAYS = (
    ("≤ 10 ms", 10),
    ("≤ 50 ms", 50),
    ("≤ 100 ms", 100),
    ("≤ 500 ms", 500),
    ("≤ 1 s", 1_000),
    ("≤ 10 s", 10_000),
    ("≤ 1 min", 60_000),
)
SLOWEST = "longer"
STATES = ("OPEN", "COMMITTED", "ABORTED")
SLOW_SHARE = 0.95
FIGURED = ("participants", "totals")
"""The tables that are shown as a whole."""


class Shape(Enum):
    """How a figure is drawn."""

    RANKING = "ranking"
    """The greatest of many."""
    HISTOGRAM = "histogram"
    """All, by a few steps."""


class Bar(NamedTuple):
    """One bar: its parts are stacked."""

    label: str
    parts: Sequence[float]
    tone: str = ""
    """Its colour; else each part has that of its place."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart."""

    title: str
    said: str
    """What it shows, in a sentence."""
    bars: Sequence[Bar]
    shape: Shape = Shape.RANKING
    unit: str = ""
    legend: Sequence[str] = ()
    """What the parts of a bar are, if there are several."""
    nothing: str = "Nothing to show."
    """What is said where there are no bars."""


class Totals(NamedTuple):
    """How much there was to audit."""

    transactions: int
    operations: int


def totals_of(tables: Tables) -> Totals:
    """How many headers and operations were looked at."""
    counts = F.count("state").alias("transactions"), F.coalesce(F.sum("operations"), F.lit(0)).alias("operations")
    row = tables.totals.agg(*counts).collect()[0]
    return Totals(row["transactions"], row["operations"])


def figures_of(tables: Tables, rules: Sequence[Rule], counts: Mapping[str, int]) -> list[Figure]:
    """All figures of an audit; those that the dialect has no records for are left out."""
    found = [_ages(tables), _violations(rules, counts), _operations(tables), _horizons(tables)]
    if tables.has("applied"):
        found += [_delays(tables), _owners(tables)]
    return found


def _violations(rules: Sequence[Rule], counts: Mapping[str, int]) -> Figure:
    broken = sorted((rule for rule in rules if rule.name in counts), key=lambda rule: (-counts[rule.name], rule.name))
    bars = [Bar(rule.name, [counts[rule.name]], rule.severity.value) for rule in broken[:BARS_MAX]]
    return Figure("Top violations", "How often each rule is broken.", bars, nothing="No rule is broken.")


def _ages(tables: Tables) -> Figure:
    age = _ms(AS_OF) - _ms("begun")
    known = tables.totals.where("state IS NOT NULL")
    rows = known.groupBy(_bucket(age, AGES, OLDEST).alias("age"), "state").count().collect()
    counts = {(row["age"], row["state"]): row["count"] for row in rows}
    labels = [*(label for label, _ in AGES), OLDEST]
    bars = [Bar(label, [counts.get((label, state), 0) for state in STATES]) for label in labels]
    said = "Transactions whose headers are there, by how long ago they were begun."
    legend = [state.lower() for state in STATES]
    return Figure("Transactions by state and age", said, bars, Shape.HISTOGRAM, legend=legend)


def _operations(tables: Tables) -> Figure:
    grouped = (
        tables.participants.where("operations > 0")
        .groupBy("segment")
        .agg(
            F.sum(F.when(F.col("subscription").isNull(), F.col("operations")).otherwise(0)).alias("writes"),
            F.sum(F.when(F.col("subscription").isNotNull(), F.col("operations")).otherwise(0)).alias("acks"),
        )
    )
    rows = grouped.orderBy(F.desc(F.col("writes") + F.col("acks")), "segment").limit(BARS_MAX).collect()
    bars = [Bar(row["segment"], [row["writes"], row["acks"]]) for row in rows]
    said = "Operation records that wait for an outcome, or for it to be carried out."
    legend = ["writes", "acknowledgements"]
    return Figure("Operations by segment", said, bars, legend=legend, nothing="No operation waits.")


def _horizons(tables: Tables) -> Figure:
    held = tables.participants.where("operations > 0 AND subscription IS NULL AND state = 'OPEN'")
    age_s = F.max(_ms(AS_OF) - _ms("first_written")) / 1000
    rows = held.groupBy("segment").agg(age_s.alias("age")).orderBy(F.desc("age"), "segment").limit(BARS_MAX).collect()
    bars = [Bar(row["segment"], [row["age"]]) for row in rows]
    said = "For how long the oldest open transaction has held back the readers of a segment."
    return Figure("Horizon lag", said, bars, unit="s", nothing="No open transaction holds a segment.")


def _delays(tables: Tables) -> Figure:
    applied = tables.participants.where("applied IS NOT NULL AND finalized IS NOT NULL")
    delay = _ms("applied") - _ms("finalized")
    rows = applied.groupBy(_bucket(delay, DELAYS, SLOWEST).alias("delay")).count().collect()
    counts = {row["delay"]: row["count"] for row in rows}
    bars = [Bar(label, [counts.get(label, 0)]) for label in [*(label for label, _ in DELAYS), SLOWEST]]
    said = "How long participants took from a decision to its effect."
    return Figure("Commit to visible", said, bars, Shape.HISTOGRAM)


def _owners(tables: Tables) -> Figure:
    applied = tables.view("applied", "txn_id", "applied", "broker", "odd_key").where("odd_key IS NULL").drop(AS_OF)
    decided = tables.totals.where("finalized IS NOT NULL").select("txn_id", "finalized")
    delay_ms = F.percentile_approx(_ms("applied") - _ms("finalized"), SLOW_SHARE)
    grouped = applied.join(decided, "txn_id").groupBy("broker").agg(delay_ms.alias("delay"))
    rows = grouped.orderBy(F.desc("delay"), "broker").limit(BARS_MAX).collect()
    bars = [Bar(row["broker"], [max(0, row["delay"])]) for row in rows]
    said = f"The time within which an owner of segments has carried out {SLOW_SHARE:.0%} of the outcomes."
    return Figure("Slowest owners", said, bars, unit="ms", nothing="No owner has carried anything out yet.")


def _ms(column: str) -> Column:
    return F.unix_millis(column)


def _bucket(number: Column, buckets: Sequence[tuple[str, int]], last: str) -> Column:
    """The name of the first bucket that a number fits into."""
    found = F.lit(last)
    for label, bound in reversed(buckets):
        found = F.when(number <= bound, F.lit(label)).otherwise(found)
    return found
