"""The data source `tidemark`, as Spark calls it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from metastore.spark import options as opts
from metastore.spark.batch import BatchReader
from metastore.spark.columns import AnyView, Table, check_names, columns_of, schema_of
from metastore.spark.errors import WrongOption
from metastore.spark.joint import JointReader
from metastore.spark.options import Options
from metastore.spark.schemas import CHANGES
from metastore.spark.several import SeveralReader
from metastore.spark.stores.opening import open_source
from metastore.spark.streaming import ChangeReader
from metastore.spark.views import JointView, Scope, Selection, View, Views, any_view_named
from metastore.spark.worker import settle

NAME = "tidemark"


class TidemarkSource(DataSource):
    """`spark.read.format("tidemark")`, `spark.readStream.format("tidemark")`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        # Whether a stream is wanted Spark does not say here.
        if any(name in self.options for name in opts.STREAM_ONLY):
            return CHANGES
        options = opts.parse(self.options, opts.BATCH)
        return schema_of(_view(options), options.index)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = opts.parse(self.options, opts.BATCH)
        view = _view(options)
        settle()  # this is a process of Spark's, which plans for others too
        check_names(schema.names, columns_of(view, options.index, options.as_of_ms is not None))
        columns = to_arrow_schema(schema, timezone="UTC")
        if isinstance(view, JointView):
            if options.segment is not None or options.transaction is not None:
                raise WrongOption('a view that puts records together reads all: leave out "segment" and "transaction"')
            return JointReader(options, columns, view)
        selection = self._selection(options, view)
        if isinstance(view, Views):
            return SeveralReader(options, columns, view, selection)
        scopes: Sequence[Scope] = [Scope(options.range, options.index, options.partition_key)]
        if view is not None:
            scopes = view.scopes(selection)
        return BatchReader(options, Table(columns, view, selection), scopes)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = opts.parse(self.options, opts.STREAM)
        check_names(schema.names, CHANGES)
        if "change" not in schema.names:
            raise WrongOption(
                "a stream tells changes: its schema must have the column `change`: .schema(metastore.spark.CHANGES) "
                f"or some of its columns. With one of the options {', '.join(opts.STREAM_ONLY)} that is the default"
            )
        return ChangeReader(options, to_arrow_schema(schema, timezone="UTC"))

    def _selection(self, options: Options, view: View | Views | None) -> Selection:
        if view is None:
            return Selection("")
        with open_source(options.store, options.namespace) as store:
            return Selection(store.key_sorting, options.segment, options.transaction)


def _view(options: Options) -> AnyView | None:
    return None if options.view is None else any_view_named(options.view)
