"""Which records, or which entries of an index, a range selects, and how these stand in order. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from metastore.engine.index_keys import path_escape
from metastore.engine.keys import DEPTH_MAX, KeyOrder
from metastore.interface import Comparison, Range, Record
from metastore.providers.zookeeper.layout import Identity, directory_of
from metastore.providers.zookeeper.records import Header

_BEYOND_UTF8 = b"\xfe"
"""Greater than every byte of a key; the hierarchical order has FF for the slash."""


class Row(NamedTuple):
    """What a record contributes to a selection: itself, or one entry of an index. Rows sort as the contract has it."""

    place: tuple[bytes, bytes]
    identity: Identity
    secondary_key: str | None

    def rank(self) -> tuple[tuple[bytes, bytes], str]:
        """The order of rows: that of keys, and of equal keys in several partitions some order."""
        return self.place, self.identity.home


@dataclass(frozen=True, slots=True)
class Selection:
    """All records with a key, or all entries with a secondary key, between two places."""

    order: KeyOrder
    low: bytes
    high: bytes | None
    """None: to the end of the index."""
    index: str | None = None
    partition_key: str | None = None

    # -- rows

    def row_of_key(self, identity: Identity) -> Row | None:
        """The row of a record, in a selection by key."""
        place = place_of(self.order, identity.key)
        if not self._has_place(place) or not self._has_partition(identity):
            return None
        return Row((place, b""), identity, None)

    def row_of_entry(self, secondary_key: str, identity: Identity) -> Row | None:
        """The row of an index entry; internal records have none."""
        place = place_of(self.order, secondary_key)
        key = identity.key.encode()
        if not self._has_place(place) or not self._has_partition(identity) or self.order.is_internal(key):
            return None
        return Row((place, path_escape(key)), identity, secondary_key)

    def rows_of(self, header: Header | None) -> list[Row]:
        """All rows of a record, in order."""
        if header is None:
            return []
        if self.index is None:
            found = [self.row_of_key(header.identity)]
        else:
            entries = {key for name, key in header.indexes if name == self.index}
            found = [self.row_of_entry(key, header.identity) for key in entries]
        return sorted([row for row in found if row is not None], key=Row.rank)

    def show(self, header: Header, value: bytes) -> Record:
        """A record as the selection shows it: with its first secondary key there, if it has one."""
        rows = self.rows_of(header)
        return header.as_record(value, rows[0].secondary_key if rows else None)

    def _has_place(self, place: bytes) -> bool:
        return self.low <= place and (self.high is None or place < self.high)

    def _has_partition(self, identity: Identity) -> bool:
        return self.partition_key is None or identity.home == self.partition_key

    # -- directories

    def single_directory(self) -> str | None:
        """The only directory that can hold anything selected, where the range is narrow enough to tell."""
        if self.high is None:
            return None
        if self.high == self.low + b"\0":
            return directory_of(self.order.decode(self.low).decode())
        if self.order.name != "hierarchical":
            return None
        # One level of one path: from a key of the directory to what bounds the directory from above, or less.
        directory = directory_of(self.order.decode(self.low).decode())
        if directory.endswith("//") or directory.count("/") >= DEPTH_MAX:
            return None
        lowest, highest = directory_bounds(self.order, directory)
        is_within = lowest <= self.low and self.high <= highest[:-1] + b"\xff"
        return directory if is_within else None

    def may_meet(self, directory: str) -> bool:
        """Whether a directory can hold anything that is selected."""
        lowest, highest = directory_bounds(self.order, directory)
        return self.low <= highest and (self.high is None or lowest < self.high)


def select(order: KeyOrder, range: Range, index: str | None = None, partition_key: str | None = None) -> Selection:
    """The selection of a range. Internal keys are in none."""
    low = place_of(order, range.start)
    if index is not None:
        return Selection(order, low, place_of(order, range.end) if range.end else None, index, partition_key)
    high = min(place_of(order, range.end), order.user_end) if range.end else order.user_end
    return Selection(order, low, high, None, partition_key)


def place_of(order: KeyOrder, key: str) -> bytes:
    """Compares as the keys do."""
    return order.encode(key.encode())


def directory_bounds(order: KeyOrder, directory: str) -> tuple[bytes, bytes]:
    """Two places with all keys of a directory between them."""
    raw = directory.encode()
    return order.encode(raw), order.encode(raw + _BEYOND_UTF8)


def around(
    order: KeyOrder, key: str, comparison: Comparison, index: str | None = None, partition_key: str | None = None
) -> Selection:
    """Everything on the side of a key on which a get looks for the nearest."""
    place = place_of(order, key)
    behind = place + b"\0"
    low = {Comparison.EQUAL: place, Comparison.CEILING: place, Comparison.HIGHER: behind}.get(comparison, b"")
    high = {Comparison.EQUAL: behind, Comparison.FLOOR: behind, Comparison.LOWER: place}.get(comparison)
    if index is None:
        high = order.user_end if high is None else min(high, order.user_end)
    return Selection(order, low, high, index, partition_key)


def nearest(order: KeyOrder, rows: Sequence[Row], key: str, comparison: Comparison) -> Row | None:
    """The row that a get asks for, of all those around its key; rows are in order."""
    if not rows:
        return None
    if comparison is Comparison.FLOOR:
        place = place_of(order, key)
        return next((row for row in rows if row.place[0] == place), rows[-1])
    return rows[-1] if comparison is Comparison.LOWER else rows[0]
