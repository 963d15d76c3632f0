"""Every other store that keeps the contract: read as it is at the time, record by record. It has no point."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Protocol

from metastore.engine.cutting import Cuts
from metastore.engine.record import encode_entry, encode_times, encode_version
from metastore.interface import MetadataStore, Range, Record
from metastore.providers.wire.plain_store import PlainStore
from metastore.spark.errors import Inconsistent
from metastore.spark.records import Records, records_of_entries
from metastore.spark.stores.loop import Loop
from metastore.spark.stores.model import Advance, ChangedRecord, Piece, SourceStore
from metastore.spark.stores.point import Point


class ReadsShards(Protocol):
    """How a store is scanned, shard by shard where it has shards."""

    shards: Sequence[int]

    def shard_of(self, partition_key: str) -> int | None:
        """Where a partition lives."""

    def scan(self, shard: int | None, range: Range, index: str | None) -> AsyncGenerator[Record, None]:
        """The records of a range."""


class PlainShards(ReadsShards):
    """A plain Oxia."""

    def __init__(self, store: PlainStore) -> None:
        self._store = store
        self.shards = store.shards.over(None)

    def shard_of(self, partition_key: str) -> int:
        return self._store.shards.owner("", partition_key)

    def scan(self, shard: int | None, range: Range, index: str | None) -> AsyncGenerator[Record, None]:
        assert shard is not None
        return self._store.scan_shard(shard, range, index)


class Undivided(ReadsShards):
    """A store that does not tell its shards apart."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.shards = ()

    def shard_of(self, partition_key: str) -> None:
        return None

    async def scan(self, shard: int | None, range: Range, index: str | None) -> AsyncGenerator[Record, None]:
        async for record in self._store.scan(range, index=index):
            yield record


class ContractStore(SourceStore):
    """A store without points."""

    is_consistent = False

    def __init__(self, loop: Loop, reads: ReadsShards) -> None:
        self._loop = loop
        self._reads = reads
        self.key_sorting = loop.store.key_sorting
        self.shards = reads.shards

    def shard_of(self, partition_key: str) -> int | None:
        return self._reads.shard_of(partition_key)

    def pin(self, hold_ms: int, *, is_passing: bool = False) -> Point:
        """No point at all, and it says so."""
        return Point("", {}, is_consistent=False)

    def check_point(self, point: Point) -> None:
        if point.is_consistent:
            raise Inconsistent('a store of this kind cannot be read at a point: leave out the option "point"')

    def release(self, point: Point) -> None:
        """There is nothing to let go."""

    def cuts(self, piece: Piece, count: int) -> Cuts:
        """Nobody knows: each shard is one piece."""
        return Cuts([], 0)

    def scan(self, piece: Piece, point: Point, rows: int) -> Iterator[Records]:
        wanted = Range(piece.start.decode(), piece.end.decode())
        index = None if piece.index is None else piece.index.decode()
        for records in self._loop.each(_portions(self._reads.scan(piece.shard, wanted, index), rows)):
            secondary = None if index is None else [(each.secondary_key or "").encode() for each in records]
            yield records_of_entries([_entry(each) for each in records], piece.shard, secondary)

    def advance(self, piece: Piece, offset: int | None, changes_max: int | None) -> Advance:
        raise Inconsistent("a store of this kind has no change log that can be read again")

    def changes(self, piece: Piece, start: int, end: int) -> Iterator[list[ChangedRecord]]:
        raise Inconsistent("a store of this kind has no change log that can be read again")

    def close(self) -> None:
        self._loop.close()


async def _portions(records: AsyncGenerator[Record, None], rows: int) -> AsyncGenerator[list[Record], None]:
    portion: list[Record] = []
    try:
        async for record in records:
            portion.append(record)
            if len(portion) == rows:
                yield portion
                portion = []
        if portion:
            yield portion
    finally:
        await records.aclose()


def _entry(record: Record) -> bytes:
    version = record.version
    times = encode_times(version.created_ms, version.modified_ms)
    identity = None if version.identity is None else version.identity.encode("utf-8", "surrogateescape")
    encoded = encode_version(version.version_id, version.modifications, times, version.session_id, identity)
    return encode_entry(encoded, record.value or b"", record.key.encode("utf-8", "surrogateescape"))
