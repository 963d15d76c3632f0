"""The words: what is read, at which point, and what a store must be able to do. Values travel between processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from metastore.engine.cutting import Cuts
from metastore.spark.records import Records
from metastore.spark.stores.point import Point


@dataclass(frozen=True, slots=True)
class Piece:
    """What one task reads: a range of the keys, or of an index, of one shard. Keys as clients know them."""

    shard: int | None
    """None where the store does not tell its shards apart."""
    start: bytes = b""
    end: bytes = b""
    """Empty: to the last one."""
    index: bytes | None = None
    keys_only: bool = False
    """Of an index: nothing is wanted of the records but their keys. A store may read more."""


Scan = Callable[[Piece, int], Iterator[Records]]
"""The records of a piece, in order, about so many at a time."""


class Advance(NamedTuple):
    """How far a stream may go on a shard."""

    first_offset: int
    """The oldest that is retained."""
    next_offset: int
    """The end of the log."""
    to_offset: int
    """Behind the last whole write that fits."""
    changes: int
    """In between."""


class ChangedRecord(NamedTuple):
    """A change of one record."""

    kind: str
    """`created`, `modified` or `deleted`; of an index range also `entered` or `left`."""
    key: bytes
    entry: bytes | None
    """The record as it is from now on, as an entry of a RangeScanResponse; None when it is gone."""
    offset: int
    time_ms: int


class SourceStore(ABC):
    """A store that is open for reading. Raises the errors of `metastore.spark.errors`."""

    key_sorting: str
    shards: Sequence[int]
    is_consistent: bool
    """Whether it can be read at a point."""
    is_held_by_reader: bool = False
    """Whether a point lasts only as long as somebody here holds it."""

    @abstractmethod
    def shard_of(self, partition_key: str) -> int | None:
        """Where a partition lives; None where the store does not tell its shards apart."""

    @abstractmethod
    def pin(self, hold_ms: int, *, is_passing: bool = False) -> Point:
        """The present state of all shards, kept for so long after its last use, where something has to keep it.

        Of one read it is a passing one: it may make room for others.
        """

    @abstractmethod
    def check_point(self, point: Point) -> None:
        """Raises WrongOption if a point is of another store."""

    @abstractmethod
    def release(self, point: Point) -> None:
        """The point is no longer needed."""

    @abstractmethod
    def cuts(self, piece: Piece, count: int) -> Cuts:
        """Keys that cut a piece into `count` parts of about one size, or fewer, and about how large it is."""

    @abstractmethod
    def scan(self, piece: Piece, point: Point, rows: int) -> Iterator[Records]:
        """The records of a piece at a point, in order, about so many at a time."""

    def scans(self, shard: int | None, point: Point) -> AbstractContextManager[Scan]:
        """For several scans of one shard that go on beside each other, as long as the block lasts."""
        return nullcontext(partial(self._scan_beside, point))

    def _scan_beside(self, point: Point, piece: Piece, rows: int) -> Iterator[Records]:
        return self.scan(piece, point, rows)

    @abstractmethod
    def advance(self, piece: Piece, offset: int | None, changes_max: int | None) -> Advance:
        """How far a stream may go from an offset, for so many changes of a piece; one write at least, if there is any.

        Without an offset it only says where the log begins and ends. Without a number it may go to the end.
        """

    @abstractmethod
    def changes(self, piece: Piece, start: int, end: int) -> Iterator[list[ChangedRecord]]:
        """The changes of a piece by the writes from `start` to before `end`; PointGone if they are no longer kept."""

    @abstractmethod
    def close(self) -> None:
        """Ends it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
