"""The batch read: planned once, at one point, as pieces of about one size, and read piece by piece in the tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition

from metastore.engine.cutting import Cuts
from metastore.spark.columns import Table
from metastore.spark.errors import Inconsistent
from metastore.spark.options import Options
from metastore.spark.stores.model import Piece, SourceStore
from metastore.spark.stores.opening import open_source
from metastore.spark.stores.point import Point
from metastore.spark.views import Scope
from metastore.spark.worker import settle

JOINED_BYTES = 1 << 20
"""Batches that come to as much go to Spark ..."""
JOINED_MAX = 16
"""... and so many in any case."""


@dataclass(frozen=True, slots=True)
class Part(InputPartition):
    """What one task reads, and at which point."""

    piece: Piece
    point: Point


class BatchReader(DataSourceReader):
    """One read."""

    def __init__(self, options: Options, table: Table, scopes: Sequence[Scope]) -> None:
        self._options = options
        self._table = table
        self._scopes = scopes

    def partitions(self) -> Sequence[Part]:
        """Pins the point, unless it is given, and cuts what is to be read."""
        options = self._options
        with open_source(options.store, options.namespace) as store:
            point = point_of(store, options)
            return [Part(piece, point) for piece in self._plan(store)]

    def _plan(self, store: SourceStore) -> list[Piece]:
        pieces = plan(store, self._scopes, self._options.partitions)
        return [replace(piece, keys_only=True) for piece in pieces] if self._table.is_of_keys else pieces

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Reads a piece."""
        assert isinstance(partition, Part)
        return batches(self._options, partition.piece, partition.point, self._table)


def batches(options: Options, piece: Piece, point: Point, table: Table) -> Iterator[pyarrow.RecordBatch]:
    """The rows of a piece."""
    settle()
    with open_source(options.store, options.namespace) as store:
        yield from joined(_batches(store, options, piece, point, table))


def _batches(
    store: SourceStore, options: Options, piece: Piece, point: Point, table: Table
) -> Iterator[pyarrow.RecordBatch]:
    for records in store.scan(piece, point, options.batch_rows):
        if len(records):
            records.index, records.as_of_ms = piece.index, options.as_of_ms
            yield table.batch(records)


def joined(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Batches of few bytes together: each costs Spark as much as a thousand rows."""
    waiting: list[pyarrow.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        if not batch.num_columns:  # of which a table does not know how many rows there are
            yield batch
            continue
        waiting.append(batch)
        size += batch.nbytes
        if size >= JOINED_BYTES or len(waiting) >= JOINED_MAX:
            yield _one(waiting)
            waiting, size = [], 0
    if waiting:
        yield _one(waiting)


def _one(batches: list[pyarrow.RecordBatch]) -> pyarrow.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (found,) = pyarrow.Table.from_batches(batches).combine_chunks().to_batches()
    return found


def point_of(store: SourceStore, options: Options) -> Point:
    """The point that a read is given, or else the present."""
    if options.point is not None:
        store.check_point(options.point)
        return options.point
    if not store.is_consistent and options.is_consistent:
        raise Inconsistent(
            f"{options.store} cannot be read at one point: records that change meanwhile may be seen before or "
            'after, each by itself. If that will do, give option "consistent" as false'
        )
    return store.pin(options.hold_ms, is_passing=True)


def plan(store: SourceStore, scopes: Sequence[Scope], wanted: int, records_min: int = 1) -> list[Piece]:
    """The pieces of all scopes, about as many as wanted; at least one, since Spark takes none for one.

    A scope is in pieces by how many records it has, so that all are of about one size, and none is of less than
    `records_min` that need not be.
    """
    whole = [piece for scope in scopes for piece in pieces_of(store, scope)]
    found = [store.cuts(piece, wanted) if wanted > 1 else Cuts([], 0) for piece in whole]
    every = sum(each.entries for each in found)
    parts: list[Piece] = []
    for piece, (keys, entries) in zip(whole, found, strict=True):
        # Rather a few more than one that is twice as long as the others, and no more than there are places to cut at.
        count = max(1, min(-(-wanted * entries // max(1, every)), entries // records_min, len(keys) + 1))
        chosen = (keys[number * (len(keys) + 1) // count - 1] for number in range(1, count)) if keys else ()
        bounds = [piece.start, *dict.fromkeys(key for key in chosen if key), piece.end]
        parts += [Piece(piece.shard, low, high, piece.index) for low, high in pairwise(bounds)]
    return parts


def pieces_of(store: SourceStore, scope: Scope) -> list[Piece]:
    """A scope, shard by shard."""
    start, end = scope.range.start.encode(), scope.range.end.encode()
    index = None if scope.index is None else scope.index.encode()
    shards: Sequence[int | None] = store.shards or [None]
    if scope.partition_key is not None:
        shards = [store.shard_of(scope.partition_key)]
    return [Piece(shard, start, end, index) for shard in shards]
