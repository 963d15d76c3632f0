"""All recorded stages of a real Pulsar as one source: every name in it begins with its stage."""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import pyarrow
from audit_records import records
from pyspark.sql import DataFrame, SparkSession

from metastore.spark.schemas import AS_OF
from metastore.spark.views import Selection
from txn.audit.source import FrameSource
from txn.audit.views import pulsar
from txn.audit.views.form import TIME, Form

TESTS = Path(__file__).parents[1]
VECTORS = TESTS / "txn" / "doctor" / "vectors" / "pulsar-records.json.xz"
TOPICS = Path(__file__).parent / "vectors" / "pulsar-topics.json.xz"
VIEWS = {
    "pulsar_headers": pulsar.headers,
    "pulsar_ops": pulsar.ops,
    "pulsar_aborted": pulsar.aborted,
    "pulsar_events": pulsar.events,
    "pulsar_watermarks": pulsar.watermarks,
    "pulsar_numbers": pulsar.numbers,
    "pulsar_participants": pulsar.participants,
}
NAMES = ("txn_id", "segment", "coordinator", "odd_key")


@cache
def vectors() -> dict[str, Any]:
    """The records, and what happened in truth."""
    found: dict[str, Any] = json.loads(lzma.decompress(VECTORS.read_bytes()))
    return found


@cache
def topics() -> dict[str, list[str] | None]:
    """The managed ledgers that there were."""
    found: dict[str, list[str] | None] = json.loads(lzma.decompress(TOPICS.read_bytes()))
    return found


def stages() -> list[str]:
    """Their names."""
    return sorted(vectors()["dumps"])


def named(stage: str, name: str) -> str:
    """A name in the source."""
    return f"{stage}|{name}"


def source(spark: SparkSession) -> FrameSource:
    """Every stage, each at its own time."""
    frames = {name: _frame(spark, name) for name in VIEWS}
    indexes = sorted({index for dump in vectors()["dumps"].values() for index in dump["indexes"]})
    return FrameSource(frames, {index: _index(spark, index) for index in indexes})


def _index(spark: SparkSession, index: str) -> DataFrame:
    rows = [
        (_moved(stage, secondary, "/txn/op/", named_in_index), _moved(stage, key, "/txn/", named), dump["ended_ms"])
        for stage, dump in vectors()["dumps"].items()
        for secondary, key, *_ in dump["indexes"].get(index, [])
    ]
    table = spark.createDataFrame(rows, "secondary_key STRING, key STRING, at BIGINT")
    return table.selectExpr("secondary_key", "key", "0 AS shard", f"timestamp_millis(at) AS {AS_OF}")


def named_in_index(stage: str, name: str) -> str:
    """A segment's name as it stands in a secondary key."""
    return quote_plus(named(stage, "")) + name


def _moved(stage: str, key: str, room: str, rename: Callable[[str, str], str]) -> str:
    """A key, in which the transaction or the segment is of its stage."""
    if not key.startswith(room):
        return key
    path, _, name = key.rpartition("/")
    return f"{path}/{rename(stage, name)}"


def _frame(spark: SparkSession, name: str) -> DataFrame:
    tables = [table for stage in stages() for table in _tables(stage, name)]
    # An empty batch in front would count as the end.
    return spark.createDataFrame(pyarrow.concat_tables(tables).combine_chunks())


def _tables(stage: str, name: str) -> Iterator[pyarrow.Table]:
    dump = vectors()["dumps"][stage]
    form: Form = VIEWS[name].decode.args[0]  # type: ignore[attr-defined]
    pairs = [(key, value.encode()) for key, value, *_ in dump["records"]]
    every = records(pairs + [(key, b"") for key in _ledgers(stage, pairs)], times=_times(dump))
    decoded = VIEWS[name].decode(every, form.columns.names, Selection("hierarchical"))
    columns = dict(decoded.columns)
    for each in NAMES:
        if each in columns:
            texts = columns[each].to_pylist()
            columns[each] = pyarrow.array([text and named(stage, text) for text in texts], pyarrow.string())
    count = len(columns["odd"])
    columns[AS_OF] = pyarrow.array([dump["ended_ms"] * 1000] * count, pyarrow.int64()).cast(TIME)
    columns["shard"] = pyarrow.array([0] * count, pyarrow.int32())
    yield pyarrow.table(columns)


def _times(dump: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {key: (created, modified) for key, _, created, modified in dump["records"]}


def _ledgers(stage: str, pairs: Sequence[tuple[str, bytes]]) -> list[str]:
    """The managed ledgers; where they were not recorded, of all that records name."""
    known = topics()[stage]
    if known is not None:
        return known
    rows = VIEWS["pulsar_ops"].decode(records(list(pairs)), ["segment", "subscription"], Selection("hierarchical"))
    events = VIEWS["pulsar_events"].decode(records(list(pairs)), ["segment"], Selection("hierarchical"))
    marks = VIEWS["pulsar_watermarks"].decode(records(list(pairs)), ["segment"], Selection("hierarchical"))
    names = {
        (segment, subscription)
        for segment, subscription in zip(*(column.to_pylist() for column in rows.columns.values()), strict=True)
    }
    names |= {(name, None) for each in (events, marks) for name in each.columns["segment"].to_pylist()}
    names |= {(segment, None) for segment, _ in names}
    return [_ledger(segment, subscription) for segment, subscription in names if segment is not None]


def _ledger(segment: str, subscription: str | None) -> str:
    tenant, namespace, topic, range = segment.removeprefix("segment://").split("/")
    return f"/managed-ledgers/{tenant}/{namespace}/segment/{topic}/{range}" + (
        "" if subscription is None else f"/{subscription}"
    )
