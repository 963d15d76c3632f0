"""Records of several kinds read together, name by name: planned by ranges of names, each of which one task reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy
import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition

from metastore.spark.batch import point_of
from metastore.spark.columns import Array, batch_of, moments, shards
from metastore.spark.options import Options
from metastore.spark.records import Records
from metastore.spark.schemas import AS_OF
from metastore.spark.stores.model import Piece, Scan, SourceStore
from metastore.spark.stores.opening import open_source
from metastore.spark.stores.point import Point
from metastore.spark.views import JointView, Kind, Surroundings, levels_below
from metastore.spark.worker import settle

SHARD = "shard"

Flags = Any
"""A numpy array of bool."""


@dataclass(frozen=True, slots=True)
class JointPart(InputPartition):
    """What one task reads: a range of names, of each kind, and at which point."""

    pieces: tuple[Piece, ...]
    bounds: tuple[str, ...]
    """The names where it begins and ends, if it does."""
    point: Point


class JointReader(DataSourceReader):
    """One read."""

    def __init__(self, options: Options, schema: pyarrow.Schema, view: JointView) -> None:
        self._options = options
        self._schema = schema
        self._view = view

    def partitions(self) -> Sequence[JointPart]:
        """Pins the point, unless it is given, and cuts what is to be read."""
        options = self._options
        with open_source(options.store, options.namespace) as store:
            point = point_of(store, options)
            parts = plan(store, self._view.kinds, options.partitions)
            return [JointPart(pieces, bounds, point) for pieces, bounds in parts]

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Reads a range of names."""
        assert isinstance(partition, JointPart)
        settle()
        shard, own = partition.pieces[0].shard, [name for name in self._schema.names if name not in (SHARD, AS_OF)]
        with open_source(self._options.store, self._options.namespace) as store:
            surroundings = _surroundings(store, partition)
            with store.scans(shard, partition.point) as scan:
                streams = [_filled(scan, piece, self._view.batch_rows) for piece in partition.pieces]
                for columns in self._view.decode(streams, own, surroundings):
                    count = len(next(iter(columns.values())))
                    common = {SHARD: shards(shard, count), AS_OF: moments(self._options.as_of_ms, count)}
                    every = {**common, **columns}
                    yield batch_of([every[name] for name in self._schema.names], self._schema)


def _surroundings(store: SourceStore, part: JointPart) -> Surroundings:
    is_divided, shard = len(store.shards) > 1, part.pieces[0].shard

    def are_home(names: Array) -> Flags:
        if not is_divided:
            return numpy.ones(len(names), bool)
        return numpy.array([store.shard_of(name) == shard for name in names.to_pylist()], bool)

    return Surroundings(is_divided, are_home, part.bounds)


def _filled(scan: Scan, piece: Piece, rows: int) -> Iterator[Records]:
    return (records for records in scan(piece, rows) if len(records))


Share = tuple[tuple[Piece, ...], tuple[str, ...]]
"""A range of names, of each kind, and the names where it begins and ends."""


def plan(store: SourceStore, kinds: Sequence[Kind], wanted: int) -> list[Share]:
    """Ranges of names, about as many as wanted, of each shard; at least one, since Spark takes none for one."""
    every: Sequence[int | None] = store.shards or [None]
    each = max(1, -(-wanted // len(every)))
    return [share for shard in every for share in _of_shard(store, kinds, shard, each)]


def _of_shard(store: SourceStore, kinds: Sequence[Kind], shard: int | None, count: int) -> list[Share]:
    whole = [_whole(kind, shard, store.key_sorting) for kind in kinds]
    chosen: list[bytes] = []
    for name in _evenly(_weighed(store, kinds, whole, count), count) if count > 1 else ():
        # Of two names of which one begins with the other, orders differ in which comes first.
        if not chosen or not name.startswith(chosen[-1]):
            chosen.append(name)
    bounds = [None, *chosen, None]
    return [
        (
            tuple(_between(kind, piece, low, high) for kind, piece in zip(kinds, whole, strict=True)),
            tuple(bound.decode(errors="ignore") for bound in (low, high) if bound is not None),
        )
        for low, high in pairwise(bounds)
    ]


def _weighed(
    store: SourceStore, kinds: Sequence[Kind], whole: Sequence[Piece], count: int
) -> list[tuple[bytes, float]]:
    """Names, in order, and how many records lie between each and the one before it of its kind."""
    found = []
    for kind, piece in zip(kinds, whole, strict=True):
        keys, entries = store.cuts(piece, count)
        found += [(name, entries / (len(keys) + 1)) for name in (_name(kind, key) for key in keys) if name]
    return sorted(found)


def _evenly(names: Sequence[tuple[bytes, float]], count: int) -> Iterator[bytes]:
    """The names that part all records best: kinds are of different sizes, and each has cuts of its own."""
    share = sum(weight for _, weight in names) / (count - 1)  # behind the last cut of each kind is as much once more
    seen = 0.0
    for name, weight in names:
        before, seen = seen, seen + weight
        if round(before / share) < round(seen / share):
            yield name


def _whole(kind: Kind, shard: int | None, key_sorting: str) -> Piece:
    below = levels_below(kind.path, kind.levels, key_sorting)
    return Piece(shard, below.start.encode(), below.end.encode())


def _name(kind: Kind, key: bytes) -> bytes:
    """The name in a key; empty where it is the key of something else."""
    head = f"{kind.path}/".encode()
    return key[len(head) :].split(b"/")[0].rstrip(b"\0") if key.startswith(head) else b""


def _between(kind: Kind, whole: Piece, low: bytes | None, high: bytes | None) -> Piece:
    """The part of a piece from one name to before another."""

    def bound(name: bytes) -> bytes:
        return b"%b/%b%b" % (kind.path.encode(), name, b"/" if kind.levels > 1 else b"")

    return Piece(whole.shard, whole.start if low is None else bound(low), whole.end if high is None else bound(high))
