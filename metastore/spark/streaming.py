"""The stream of changes: by offsets of each shard's change log, so that a batch can be read again and is the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from metastore.spark.columns import change_batches
from metastore.spark.errors import PointGone, WrongOption
from metastore.spark.options import STARTING_OFFSETS, Options
from metastore.spark.stores.model import Piece, SourceStore
from metastore.spark.stores.opening import open_source
from metastore.spark.stores.point import Point
from metastore.spark.worker import settle

Offsets = dict[str, int]
"""By shard, the first offset that is not read yet. Spark keeps them as JSON, so the shards are text."""

WRITES_PER_PART = 20_000
"""Fewer writes of a shard are not worth two tasks."""


@dataclass(frozen=True, slots=True)
class ChangePart(InputPartition):
    """What one task reads: writes of one shard."""

    piece: Piece
    start: int
    end: int


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's source. What a batch is follows from its two offsets alone."""

    def __init__(self, options: Options, schema: pyarrow.Schema) -> None:
        self._options = options
        self._schema = schema
        self._store: SourceStore | None = None
        self._target: Offsets | None = None
        """Where a query ends that shall only read what there is."""

    def __getstate__(self) -> dict[str, Any]:
        """An open store stays where it is."""
        return {**self.__dict__, "_store": None}

    @property
    def store(self) -> SourceStore:
        """Open from the first call on."""
        if self._store is None:
            self._store = open_source(self._options.store, self._options.namespace)
            if not self._store.is_consistent:
                raise WrongOption(
                    f"{self._options.store} has no change log that can be read: streams need our service or a directory"
                )
        return self._store

    def _piece(self, shard: int) -> Piece:
        options = self._options
        index = None if options.index is None else options.index.encode()
        return Piece(shard, options.range.start.encode(), options.range.end.encode(), index)

    @property
    def _shards(self) -> Sequence[int]:
        """The shards to read, the new ones too."""
        key = self._options.partition_key
        if key is None:
            return self.store.shards
        shard = self.store.shard_of(key)
        assert shard is not None
        return [shard]

    # -- offsets

    def initialOffset(self) -> Offsets:
        wanted = self._options.starting_offsets
        if wanted not in STARTING_OFFSETS:
            point = _starting_point(wanted)
            self.store.check_point(point)
            return {str(shard): int(state["offset"]) for shard, state in point.shards.items()}
        ends = {shard: self.store.advance(self._piece(shard), None, None) for shard in self._shards}
        is_early = wanted == STARTING_OFFSETS[0]
        return {str(shard): end.first_offset if is_early else end.next_offset for shard, end in ends.items()}

    def getDefaultReadLimit(self) -> ReadLimit:
        rows = self._options.rows_per_trigger
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._present()

    def reportLatestOffset(self) -> Offsets:
        return self._present()

    def _present(self) -> Offsets:
        return {str(shard): self.store.advance(self._piece(shard), None, None).next_offset for shard in self._shards}

    def latestOffset(self, start: Mapping[str, int], limit: ReadLimit) -> Offsets:
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        shards = list(self._shards)
        first = sum(start.values()) % max(1, len(shards))
        found: Offsets = dict(start)
        for number, shard in enumerate(shards[first:] + shards[:first]):
            offset = start.get(str(shard), 0)
            share = None if rows is None else -(-rows // (len(shards) - number))
            if share == 0:
                found[str(shard)] = offset
                continue
            found[str(shard)], taken = self._advance(shard, offset, share)
            rows = None if rows is None else max(0, rows - taken)
        return found

    def _advance(self, shard: int, offset: int, changes_max: int | None) -> tuple[int, int]:
        """Where a shard's part of a batch ends, and how many changes that are at the most."""
        advance = self.store.advance(self._piece(shard), offset, changes_max)
        if offset > advance.next_offset:
            raise PointGone(
                f"shard {shard} ends at offset {advance.next_offset}, and the query has come to {offset}: the store "
                "has lost data, or is another one: begin a new query with a new checkpoint"
            )
        to_offset = advance.to_offset
        if self._target is not None:
            to_offset = max(offset, min(to_offset, self._target.get(str(shard), 0)))
        return to_offset, advance.changes

    # -- batches

    def partitions(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[ChangePart]:
        parts: list[ChangePart] = []
        for shard, to_offset in sorted(end.items(), key=lambda item: int(item[0])):
            offset = start.get(shard, 0)
            count = min(-(-(to_offset - offset) // WRITES_PER_PART), self._options.partitions)
            bounds = [offset + number * (to_offset - offset) // max(1, count) for number in range(count + 1)]
            parts += [ChangePart(self._piece(int(shard)), low, high) for low, high in pairwise(bounds)]
        return parts

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        assert isinstance(partition, ChangePart)
        settle()
        piece = partition.piece
        assert piece.shard is not None
        with open_source(self._options.store, self._options.namespace) as store:
            writes = store.changes(piece, partition.start, partition.end)
            yield from change_batches(writes, self._schema, piece.shard, self._options.batch_rows)

    def stop(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


def _starting_point(text: str) -> Point:
    try:
        return Point.parse(text)
    except WrongOption:
        allowed = ", ".join(STARTING_OFFSETS)
        raise WrongOption(f'option "startingOffsets" is {text[:80]!r}: {allowed}, or a point') from None
