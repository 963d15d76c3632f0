"""Evaluates rules: all conditions on the rows of one table together, everything else beside it; violations come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from txn.audit.keys import header_key, participant_key
from txn.audit.rules.model import SUBJECT, Context, OnRows, OnTables, Rule, Suspects
from txn.audit.tables import Tables

VIOLATION = ("rule", "severity", *SUBJECT, "evidence")
"""The columns of a violation. `evidence` is a JSON object: what the rule has judged by."""
VIOLATIONS = ", ".join(f"{name} STRING" for name in VIOLATION)


class Conditions:
    """What is looked for in the rows of one table. Made of a few hundred of Java's objects, which takes a while."""

    def __init__(self, context: Context, checks: Sequence[tuple[Rule, OnRows]]) -> None:
        self._checks = checks
        self._when = [check.when(context) for _, check in checks]
        self.any: Column = reduce(or_, self._when)
        """Whether a condition holds."""

    def found(self) -> Column:
        """An array of what each finds; null for those that do not hold."""
        return F.array(
            *(
                F.when(
                    condition,
                    F.struct(
                        F.lit(rule.name).alias("rule"),
                        F.lit(rule.severity.value).alias("severity"),
                        _evidence(check.evidence).alias("evidence"),
                    ),
                )
                for (rule, check), condition in zip(self._checks, self._when, strict=True)
            )
        )


def violations(tables: Tables, rules: Sequence[Rule], told: Callable[[str], None] = lambda step: None) -> DataFrame:
    """Every violation of every rule, computed.

    What is found is kept, and nothing else need be. `told` learns of each step before it begins.
    """
    assert rules, "there is something to evaluate"
    context = Context(tables.limits)
    checks = [(rule, check) for rule in rules for check in rule.checks]
    on_rows: dict[str, list[tuple[Rule, OnRows]]] = {}
    for rule, check in checks:
        if isinstance(check, OnRows):
            on_rows.setdefault(check.table, []).append((rule, check))
    on_tables = [(rule, check) for rule, check in checks if isinstance(check, OnTables)]
    told("reading")
    reads = [name for _, check in on_tables for name in check.reads]
    tables.expect(reads)
    with ThreadPoolExecutor(1, "engine") as threads:
        # Whatever takes long and needs nothing of what is read is done meanwhile.
        opening = threads.submit(tables.open)
        conditions = {table: Conditions(context, own) for table, own in on_rows.items()}
        opening.result()
        reading = threads.submit(tables.read, {table: each.any for table, each in conditions.items()}, reads)
        looked_for = {table: (each.any, each.found()) for table, each in conditions.items()}
        reading.result()
        told("conditions on single rows")
        finding = threads.submit(_of_rows, tables, looked_for)
        found = [*_of_tables(tables, context, on_tables, told), *finding.result()]
    return reduce(DataFrame.unionByName, found or [SparkSession.active().createDataFrame([], VIOLATIONS)])


def _of_rows(tables: Tables, looked_for: Mapping[str, tuple[Column, Column]]) -> list[DataFrame]:
    """What conditions find, in one pass over each table; kept."""
    found = [_marked(tables, table, *each) for table, each in looked_for.items()]
    return [tables.keep(reduce(DataFrame.unionByName, found))] if found else []


def _marked(tables: Tables, table: str, is_any: Column, found: Column) -> DataFrame:
    # Nearly all rows break no rule: they are out before anything is made of them.
    rows = tables.suspects(table).where(is_any)
    subject = _subject(tables, table, rows.columns)
    marked = rows.select(*subject, F.explode(F.array_compact(found)).alias("found"))
    return marked.select("found.rule", "found.severity", *SUBJECT, "found.evidence")


def _of_tables(
    tables: Tables, context: Context, checks: Sequence[tuple[Rule, OnTables]], told: Callable[[str], None]
) -> list[DataFrame]:
    """What is found otherwise, kept."""
    if not tables.has_acknowledgements:
        checks = [(rule, check) for rule, check in checks if not check.is_of_acknowledgements]
    suspected = _suspected(tables, context, [check for _, check in checks])
    found: list[DataFrame] = []
    for rule, check in checks:
        if check.suspects is None or check.suspects in suspected:
            told(rule.name)
            found.append(_beside(rule, check.find(tables, context)))
    return [tables.keep(reduce(DataFrame.unionByName, found))] if found else []


def _suspected(tables: Tables, context: Context, checks: Sequence[OnTables]) -> set[Suspects]:
    """Where there may be something to find, of all that can tell: in one query."""
    every = list(dict.fromkeys(check.suspects for check in checks if check.suspects is not None))
    if not every:
        return set()
    marks = [suspects(tables, context).select(F.lit(place).alias("place")) for place, suspects in enumerate(every)]
    return {every[row["place"]] for row in reduce(DataFrame.unionByName, marks).distinct().collect()}


def _subject(tables: Tables, table: str, columns: Sequence[str]) -> list[Column]:
    keys: Mapping[str, Column] = {
        "participants": participant_key(tables.dialect),
        "transactions": header_key(tables.dialect),
    }
    key = keys.get(table, F.col("odd_key"))
    names = [F.col(name) if name in columns else F.lit(None).cast("string").alias(name) for name in SUBJECT[:-1]]
    return [*names, key.alias("key")]


def _evidence(columns: Sequence[str]) -> Column:
    return F.to_json(F.struct(*columns))


def _beside(rule: Rule, found: DataFrame) -> DataFrame:
    """What a rule finds by itself; its other columns are the evidence."""
    shown = [name for name in found.columns if name not in SUBJECT]
    present = [F.col(name) if name in found.columns else F.lit(None).cast("string").alias(name) for name in SUBJECT]
    return found.select(
        F.lit(rule.name).alias("rule"),
        F.lit(rule.severity.value).alias("severity"),
        *present,
        (_evidence(shown) if shown else F.lit("{}")).alias("evidence"),
    )
