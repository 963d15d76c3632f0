"""From parsed options to a session of Spark, and from what goes wrong there to an exit code."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from metastore.clock import SystemClock
from metastore.commandline import CommandError, UsageError
from metastore.spark import ReadError, WrongOption, pin, register
from metastore.spark.stores.opening import open_source
from txn.audit.dialect import DIALECTS, DialectName, Limits
from txn.audit.engine import violations
from txn.audit.ledger import Ledger
from txn.audit.listing import explain_rule, list_rules
from txn.audit.rules.registry import UnknownRule, rules_of
from txn.audit.source import StoreSource
from txn.audit.tables import Tables
from txn.audit.telling import Telling

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.log.level": "OFF",
}
"""Where nobody says otherwise. The messages of Spark's own are for those who look after Spark."""
LOCAL_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
LOCAL = "local[*]"

_ERROR = re.compile(r"metastore\.spark\.errors\.(\w+): (.+)")


def perform(arguments: argparse.Namespace) -> int:
    """Runs one operation; returns the exit code."""
    try:
        if arguments.operation == "rules":
            list_rules(arguments.dialect, sys.stdout, as_json=arguments.json)
            return 0
        if arguments.operation == "explain":
            explain_rule(arguments.rule, sys.stdout, as_json=arguments.json)
            return 0
        with _told_in_words(), _session(arguments) as spark:
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
    ledger = None if arguments.ledger is None else Ledger(spark, arguments.ledger, dialect)
    has_history = ledger is not None and not ledger.is_empty
    rules = rules_of(dialect.name, arguments.rule, history=None if has_history else False)
    if not rules:
        raise UsageError(f"the rules {', '.join(arguments.rule)} are about history: they need a --ledger that has some")
    telling = Telling(arguments, sys.stdout, sys.stderr)
    with _at_one_point(spark, arguments, telling.note) as source:
        tables = Tables(source, dialect, _limits(arguments, dialect.limits), ledger if has_history else None)
        found = violations(tables, rules, telling.step)
        if ledger is not None:
            telling.step("the ledger")
            ledger.append(source)
            ledger.compact()
            ledger.expire(arguments.keep, source.as_of_ms)
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


@contextmanager
def _session(arguments: argparse.Namespace) -> Iterator[SparkSession]:
    """A session of Spark: the one that there is, or one that ends with the audit."""
    present = SparkSession.getActiveSession()
    if present is not None:
        register(present)
        yield present
        return
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise CommandError("Spark needs Java 17 or later: install a JRE, as `apt-get install openjdk-17-jre-headless`")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master = arguments.master or os.environ.get("MASTER", LOCAL)
    builder = SparkSession.builder.appName("tidemark audit").master(master)
    settings = SETTINGS | (LOCAL_SETTINGS if master.startswith("local") else {}) | _given(arguments.conf)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        register(spark)
        yield spark
    finally:
        spark.stop()


def _given(settings: list[str]) -> dict[str, str]:
    found = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise UsageError(f"--conf {setting!r}: NAME=VALUE is expected")
        found[name] = value
    return found


@contextmanager
def _told_in_words() -> Iterator[None]:
    """What the data source says comes through Spark with its traceback; only its sentence is told."""
    try:
        yield
    except ReadError as error:
        raise _plain(type(error).__name__, str(error)) from error
    except PySparkException as error:
        sentence = _ERROR.search(str(error))
        if sentence is None:
            raise CommandError(f"Spark: {str(error).strip().splitlines()[0]}") from error
        raise _plain(sentence[1], sentence[2]) from error


def _plain(kind: str, text: str) -> CommandError:
    return UsageError(text) if kind == WrongOption.__name__ else CommandError(text)
