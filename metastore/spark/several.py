"""Several views in one read: what there are few records of is planned once, and not view by view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow
from pyspark.sql.datasource import DataSourceReader, InputPartition

from metastore.spark.batch import batches, plan, point_of
from metastore.spark.columns import Table, batch_of, columns_of, names_of
from metastore.spark.options import Options
from metastore.spark.stores.model import Piece
from metastore.spark.stores.opening import open_source
from metastore.spark.stores.point import Point
from metastore.spark.views import VIEW, Selection, Views

PIECE_RECORDS_MIN = 10_000
"""Fewer are not worth a task of their own."""


@dataclass(frozen=True, slots=True)
class ViewPart(InputPartition):
    """What one task reads, for which view, and at which point."""

    view: str
    piece: Piece
    point: Point


class SeveralReader(DataSourceReader):
    """One read."""

    def __init__(self, options: Options, schema: pyarrow.Schema, views: Views, selection: Selection) -> None:
        self._options = options
        self._schema = schema
        self._selection = selection
        self._tables: Mapping[str, Table] = {
            name: Table(_own_part(schema, columns_of(view, None, has_moment=True)), view, selection)
            for name, view in views.named.items()
        }

    def partitions(self) -> Sequence[ViewPart]:
        """Pins the point, unless it is given, and cuts what is to be read."""
        options = self._options
        with open_source(options.store, options.namespace) as store:
            point = point_of(store, options)
            parts: list[ViewPart] = []
            for name, table in self._tables.items():
                assert table.view is not None, "each table is of a view"
                pieces = plan(store, table.view.scopes(self._selection), options.partitions, PIECE_RECORDS_MIN)
                parts += [ViewPart(name, piece, point) for piece in pieces]
            return parts

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        """Reads a piece."""
        assert isinstance(partition, ViewPart)
        for rows in batches(self._options, partition.piece, partition.point, self._tables[partition.view]):
            yield self._padded(partition.view, rows)

    def _padded(self, view: str, rows: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """With nulls for what only other views have."""
        count = len(rows)
        known = {**dict(zip(rows.schema.names, rows.columns, strict=True)), VIEW: pyarrow.repeat(view, count)}
        arrays = [known.get(each.name, pyarrow.nulls(count, each.type)) for each in self._schema]
        return batch_of(arrays, self._schema)


def _own_part(schema: pyarrow.Schema, columns: str) -> pyarrow.Schema:
    known = set(names_of(columns)) - {VIEW}
    return pyarrow.schema([each for each in schema if each.name in known])
