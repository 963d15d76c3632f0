"""Tells what an audit has found: a summary by rule and some examples of each; never more than that is collected."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TextIO

from pyspark.sql import DataFrame, Window
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F

from metastore.tables import moment_text, write_rows
from txn.audit.report.figures import figures_of, totals_of
from txn.audit.report.page import Findings, page_of
from txn.audit.rules.model import SUBJECT, Rule, Severity
from txn.audit.tables import Tables

EXIT_CODES = {Severity.WARNING: 3, Severity.ERROR: 4, Severity.CRITICAL: 5}


class Telling:
    """What is printed of one audit."""

    def __init__(self, arguments: argparse.Namespace, out: TextIO, aside: TextIO) -> None:
        self._arguments = arguments
        self._out = out
        self._aside = aside
        self._width = 0

    def note(self, text: str) -> None:
        """Something to know beside the result."""
        print(f"tidemark audit: {text}", file=self._aside)

    def step(self, what: str) -> None:
        """What is done now, on one line of a terminal."""
        if self._aside.isatty():
            self._wipe()
            text = f"{what} ..."
            self._aside.write(text)
            self._aside.flush()
            self._width = len(text)

    def _wipe(self) -> None:
        if self._width:
            self._aside.write(f"\r{' ' * self._width}\r")
            self._aside.flush()
            self._width = 0

    def tell(self, found: DataFrame, rules: Sequence[Rule], tables: Tables, as_of_ms: int) -> int:
        """Prints, and writes the report where one is wanted; returns the exit code."""
        counts = {row["rule"]: row["count"] for row in found.groupBy("rule").count().collect()}
        examples = _examples(found, self._arguments.limit) if counts else {}
        if self._arguments.report is not None:
            self.step("the report")
            shown = {name: [row.asDict() for row in rows] for name, rows in examples.items()}
            figures = figures_of(tables, rules, counts)
            findings = Findings(self._arguments.store, as_of_ms, rules, counts, shown, totals_of(tables), figures)
            self._arguments.report.write_text(page_of(findings), encoding="utf-8")
        self._wipe()
        broken = sorted((rule for rule in rules if rule.name in counts), key=lambda rule: rule.severity.rank)
        if self._arguments.json:
            self._tell_programs(broken, counts, examples, len(rules), as_of_ms)
        else:
            self._tell_people(broken, counts, examples, len(rules), as_of_ms)
        return self._code(broken)

    def _code(self, broken: Sequence[Rule]) -> int:
        least = Severity(self._arguments.fail_on).rank
        grave = [rule.severity for rule in broken if rule.severity.rank <= least]
        return EXIT_CODES[min(grave, key=lambda each: each.rank)] if grave else 0

    def _tell_people(
        self,
        broken: Sequence[Rule],
        counts: Mapping[str, int],
        examples: Mapping[str, Sequence[SparkRow]],
        rules: int,
        as_of_ms: int,
    ) -> None:
        out, total = self._out, sum(counts.values())
        print(f"{moment_text(as_of_ms)}: {rules} rules, {total} violations of {len(broken)}", file=out)
        if not broken:
            return
        summary = [
            {"severity": each.severity.value, "violations": counts[each.name], "rule": each.name, "title": each.title}
            for each in broken
        ]
        print(file=out)
        write_rows(["severity", "violations", "rule", "title"], summary, out)
        for rule in broken:
            rows = examples[rule.name]
            print(f"\n{rule.name}: {len(rows)} of {counts[rule.name]}", file=out)
            names = [name for name in SUBJECT if any(row[name] is not None for row in rows)]
            write_rows([*names, "evidence"], [{name: row[name] for name in (*names, "evidence")} for row in rows], out)
        print("\n`tidemark audit explain RULE` says what one means, and what to do", file=out)

    def _tell_programs(
        self,
        broken: Sequence[Rule],
        counts: Mapping[str, int],
        examples: Mapping[str, Sequence[SparkRow]],
        rules: int,
        as_of_ms: int,
    ) -> None:
        for rule in broken:
            for row in examples[rule.name]:
                subject = {name: row[name] for name in SUBJECT}
                evidence = json.loads(row["evidence"])
                self._print({"type": "violation", "rule": rule.name, **subject, "evidence": evidence})
        for rule in broken:
            count = counts[rule.name]
            self._print({"type": "rule", "rule": rule.name, "severity": rule.severity.value, "violations": count})
        self._print({"type": "audit", "as_of_ms": as_of_ms, "rules": rules, "violations": sum(counts.values())})

    def _print(self, found: Mapping[str, object]) -> None:
        print(json.dumps(found), file=self._out, flush=True)


def _examples(found: DataFrame, limit: int) -> dict[str, list[SparkRow]]:
    """The first violations of each rule."""
    order = Window.partitionBy("rule").orderBy(*SUBJECT, "evidence")
    numbered = found.withColumn("place", F.row_number().over(order)).where(F.col("place") <= limit)
    examples: dict[str, list[SparkRow]] = {}
    for row in numbered.orderBy("rule", "place").collect():
        examples.setdefault(row["rule"], []).append(row)
    return examples
