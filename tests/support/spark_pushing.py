"""A source that takes the filters which Spark pushes, as PySpark's documentation shows it: numbers, filtered here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, GreaterThanOrEqual, InputPartition, LessThan
from pyspark.sql.types import StructType

NUMBERS = 1000


class PushingReader(DataSourceReader):
    """Takes `number < N` and `number >= N`, and leaves it to Spark to judge each row once more."""

    def __init__(self) -> None:
        self._taken: list[Filter] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self._taken = filters
        return filters

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return ((number,) for number in range(NUMBERS) if all(_holds(each, number) for each in self._taken))

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]


def _holds(condition: Filter, number: int) -> bool:
    match condition:
        case LessThan(value=value):
            return bool(number < value)
        case GreaterThanOrEqual(value=value):
            return bool(number >= value)
    return True


class PushingSource(DataSource):
    """`spark.read.format("pushing")`."""

    @classmethod
    def name(cls) -> str:
        return "pushing"

    def schema(self) -> str:
        return "number BIGINT"

    def reader(self, schema: StructType) -> DataSourceReader:
        return PushingReader()
