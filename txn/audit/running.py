"""From parsed options to an audit, and from what goes wrong there to an exit code."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from pyspark.sql import SparkSession

from metastore.clock import SystemClock
from metastore.commandline import UsageError
from metastore.spark import WrongOption, pin
from metastore.spark.stores.opening import open_source
from txn.audit.dialect import DIALECTS, Dialect, DialectName, Limits
from txn.audit.engine import violations
from txn.audit.ledger import Ledger, Past
from txn.audit.listing import explain_rule, list_rules
from txn.audit.recording import record
from txn.audit.report.figures import FIGURED
from txn.audit.rules.registry import UnknownRule, rules_of
from txn.audit.session import session
from txn.audit.source import StoreSource
from txn.audit.tables import Tables
from txn.audit.telling import Telling
from txn.audit.words import told_in_words


def perform(arguments: argparse.Namespace) -> int:
    """Runs one operation; returns the exit code."""
    try:
        if arguments.operation == "rules":
            list_rules(arguments.dialect, sys.stdout, as_json=arguments.json)
            return 0
        if arguments.operation == "explain":
            explain_rule(arguments.rule, sys.stdout, as_json=arguments.json)
            return 0
        with told_in_words(), session(arguments.master, arguments.conf, arguments.py_files) as spark:
            if arguments.operation == "record":
                return record(spark, arguments)
            if arguments.operation == "watch":
                return _watch(spark, arguments)
            return _audit(spark, arguments)
    except (UnknownRule, WrongOption) as error:
        raise UsageError(str(error)) from error


def _watch(spark: SparkSession, arguments: argparse.Namespace) -> int:
    """Audits until it is enough; one that fails ends it, so that whoever starts it anew is told."""
    rounds = 0
    while True:
        began_s = time.monotonic()
        code = _audit(spark, arguments)
        rounds += 1
        if arguments.times is not None and rounds >= arguments.times:
            return code
        time.sleep(max(0.0, began_s + arguments.every / 1000 - time.monotonic()))


def _audit(spark: SparkSession, arguments: argparse.Namespace) -> int:
    dialect = DIALECTS[DialectName(arguments.dialect)]
    if arguments.ledger is None:
        return _judge(spark, arguments, dialect, None, None)
    ledger = Ledger(spark, arguments.ledger, dialect)
    with ExitStack() as stack:
        if not ledger.is_recorded:
            stack.enter_context(ledger.folder.writing())
        with ledger.past() as past:
            code = _judge(spark, arguments, dialect, ledger, None if ledger.is_empty else past)
        if not ledger.is_recorded:
            ledger.look_after(arguments.keep, SystemClock().wall_ms())
    return code


def _judge(
    spark: SparkSession, arguments: argparse.Namespace, dialect: Dialect, ledger: Ledger | None, past: Past | None
) -> int:
    rules = rules_of(dialect.name, arguments.rule, history=False if past is None else None)
    if not rules:
        raise UsageError(f"the rules {', '.join(arguments.rule)} are about history: they need a --ledger that has some")
    telling = Telling(arguments, sys.stdout, sys.stderr)
    with _at_one_point(spark, arguments, telling.note) as source:
        tables = Tables(source, dialect, _limits(arguments, dialect.limits), past)
        if arguments.report is not None:
            tables.expect(FIGURED)
        found = violations(tables, rules, telling.step)
        if ledger is not None and not ledger.is_recorded:
            telling.step("the ledger")
            ledger.append(source)
        if arguments.output is not None:
            found.write.mode("append").partitionBy("rule").parquet(str(arguments.output.absolute()))
        return telling.tell(found, rules, tables, source.as_of_ms)


def _limits(arguments: argparse.Namespace, limits: Limits) -> Limits:
    given = {
        "grace_ms": arguments.grace,
        "collect_ms": arguments.collect_within,
        "hold_ms": arguments.hold,
    }
    return replace(limits, **{name: value for name, value in given.items() if value is not None})


@contextmanager
def _at_one_point(
    spark: SparkSession, arguments: argparse.Namespace, note: Callable[[str], None]
) -> Iterator[StoreSource]:
    """The store, held at the present where it can be."""
    options = {"store": arguments.store}
    if arguments.namespace is not None:
        options["namespace"] = arguments.namespace
    with open_source(arguments.store, arguments.namespace) as store:
        is_consistent = store.is_consistent
    # What is written from now on is too young to be judged, so a store without points may be read as it changes.
    as_of_ms = SystemClock().wall_ms()
    if not is_consistent:
        note(f"{arguments.store} cannot be read at one point: what changes meanwhile may be seen before or after")
        yield StoreSource(spark, {**options, "consistent": "false"}, as_of_ms)
        return
    with pin(arguments.store, namespace=arguments.namespace) as point:
        yield StoreSource(spark, {**options, "point": str(point)}, as_of_ms)
