"""`tidemark audit record`: feeds a ledger with the stream until it is told to end."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from types import FrameType
from typing import TextIO

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from metastore.clock import SystemClock
from metastore.commandline import CommandError
from metastore.spark import pin
from metastore.tables import moment_text
from txn.audit.dialect import DIALECTS, DialectName
from txn.audit.ledger import Ledger
from txn.audit.ledger.recorder import Recorded, Recorder
from txn.audit.words import gone

LOOK_S = 0.25
"""How often it is looked whether the query has ended, or should."""


def record(spark: SparkSession, arguments: argparse.Namespace) -> int:
    """Records until it is enough; returns the exit code."""
    ledger = Ledger(spark, arguments.ledger, DIALECTS[DialectName(arguments.dialect)])
    telling = Telling(sys.stdout, as_json=arguments.json)
    options = {"store": arguments.store}
    if arguments.namespace is not None:
        options["namespace"] = arguments.namespace
    with ledger.folder.writing(), _told_to_end() as end:
        recorder = Recorder(spark, ledger, options, arguments.keep, telling.batch)
        if not ledger.is_recorded:
            _begin(recorder, arguments, telling)
        try:
            _follow(recorder, arguments, end)
        except PySparkException as error:
            said = gone(error)
            if said is None:
                raise
            if not arguments.bridge:
                raise CommandError(
                    f"{said}: what came between is not in the ledger {arguments.ledger}. "
                    "--bridge goes on with the store as it is now, and leaves that gap"
                ) from error
            _begin(recorder, arguments, telling)
            _follow(recorder, arguments, end)
    telling.end()
    return 0


def _begin(recorder: Recorder, arguments: argparse.Namespace, telling: Telling) -> None:
    as_of_ms = SystemClock().wall_ms()
    with pin(arguments.store, namespace=arguments.namespace) as point:
        recorder.begin(point, as_of_ms)
    telling.begin(as_of_ms)


def _follow(recorder: Recorder, arguments: argparse.Namespace, end: Event) -> None:
    query = recorder.start(every_ms=None if arguments.once else arguments.every, rows_per_batch=arguments.rows)
    try:
        while not query.awaitTermination(LOOK_S):  # type: ignore[arg-type]  # it takes parts of a second
            if end.is_set():
                recorder.stop(query)
                return
    except PySparkException:
        # Who presses Ctrl-C interrupts all processes, the workers of Spark too.
        if not end.is_set():
            raise


@contextmanager
def _told_to_end() -> Iterator[Event]:
    """Set by SIGINT and SIGTERM, which end nothing by themselves as long as the block lasts."""
    end = Event()

    def tell(_number: int, _frame: FrameType | None) -> None:
        end.set()

    before = {each: signal.signal(each, tell) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield end
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class Telling:
    """What is printed of a recording: one line for each batch that has added something."""

    def __init__(self, out: TextIO, *, as_json: bool) -> None:
        self._out = out
        self._as_json = as_json
        self._batches = 0
        self._rows: Counter[str] = Counter()

    def begin(self, as_of_ms: int) -> None:
        """It begins with a snapshot."""
        self._tell({"type": "begin", "as_of_ms": as_of_ms}, f"{moment_text(as_of_ms)}: the store as it is")

    def batch(self, recorded: Recorded) -> None:
        """A batch was added."""
        self._batches += 1
        self._rows.update(recorded.rows)
        fields = {"type": "batch", "batch": recorded.batch, "until_ms": recorded.until_ms, "rows": recorded.rows}
        self._tell(fields, f"{moment_text(recorded.until_ms)}: batch {recorded.batch}: {_counted(recorded.rows)}")

    def end(self) -> None:
        """It ends, as it was told to."""
        fields = {"type": "end", "batches": self._batches, "rows": dict(self._rows)}
        self._tell(fields, f"recorded {self._batches} batches: {_counted(self._rows)}")

    def _tell(self, fields: Mapping[str, object], text: str) -> None:
        print(json.dumps(fields) if self._as_json else text, file=self._out, flush=True)


def _counted(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in rows.items()) or "nothing"
