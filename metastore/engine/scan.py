"""Scans: ranges read in chunks, all of one state of the shard.

The first chunk is read under the shard's lock, and most scans end there. A longer one takes a snapshot in the same
instant and goes on from it without any lock, however slow its reader is. Either way it knows which state it reads:
the offset that the state reaches, from which the change log tells what came after.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

from metastore.engine import limits
from metastore.engine.change import Table
from metastore.engine.errors import InvalidRequest, Overloaded
from metastore.engine.index_keys import index_bounds, range_bounds
from metastore.engine.keys import KeyOrder
from metastore.engine.operations import Range
from metastore.engine.overlay import View
from metastore.engine.store import Snapshot, Store
from metastore.engine.tree import Item
from metastore.engine.validate import shown

FIRST_CHUNK_ITEMS = 128
"""Small at first: nobody writes meanwhile."""

T = TypeVar("T")


class Chunks(ABC, Generic[T]):
    """The items [start, stop) of a table, chunk by chunk."""

    def __init__(self, store: Store, order: KeyOrder, table: Table, bounds: tuple[bytes, bytes | None]) -> None:
        self._store = store
        self._order = order
        self._table = table
        self._start, self._stop = bounds
        self._snapshot: Snapshot | None = None
        self._chunk_items = FIRST_CHUNK_ITEMS
        self.is_finished = self._stop is not None and self._start >= self._stop
        self.next_offset: int | None = None
        """The first offset that the state does not hold; known from the first chunk on."""

    def next_chunk(self) -> list[T]:
        """The next items; empty only at the end."""
        if self._snapshot is not None:
            return [] if self.is_finished else self._read(self._snapshot.view)
        if self.next_offset is not None:
            return []
        start = self._start
        with self._store.lock:
            chunk = [] if self.is_finished else self._read(self._store.view)
            if not self.is_finished:
                if self._store.open_snapshots >= limits.SNAPSHOTS_MAX or not self._may_go_on():
                    self._start = start
                    raise Overloaded(f"{self._store.open_snapshots} long scans are under way; try again later")
                self._snapshot = self._store.snapshot()
            self.next_offset = self._store.durable.next_offset
        return chunk

    def _may_go_on(self) -> bool:
        """Whether this scan may become a long one."""
        return True

    @abstractmethod
    def _read(self, view: View) -> list[T]:
        """The next items of a view; notes how far it has got."""

    def _items(self, view: View) -> list[Item]:
        """The next items as they are in the table."""
        items, following = view.ascending(self._table, self._start, self._stop, self._chunk_items)
        self._advance(following)
        return items

    def _indexed(self, view: View) -> tuple[list[Item], list[bytes]]:
        """The next items of an index, and the records that they lead to."""
        items, records, following = indexed(view, self._order, self._start, self._stop, self._chunk_items)
        self._advance(following)
        return items, records

    def _advance(self, following: bytes | None) -> None:
        self._chunk_items = limits.SCAN_CHUNK_ITEMS_MAX
        if following is None:
            self.is_finished = True
        else:
            self._start = following

    def close(self) -> None:
        """Ends the scan, wherever it is."""
        self.is_finished = True
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Scan(Chunks[bytes]):
    """A range as clients of the protocol ask for it: records, or with `keys_only` the keys as clients know them."""

    def __init__(self, store: Store, order: KeyOrder, request: Range, keys_only: bool) -> None:
        table = Table.RECORDS if request.index_name is None else Table.INDEXES
        super().__init__(store, order, table, _protocol_bounds(order, request))
        self._keys_only = keys_only
        if keys_only:
            self._chunk_items = limits.SCAN_CHUNK_ITEMS_MAX

    def _read(self, view: View) -> list[bytes]:
        if self._table is Table.RECORDS and self._keys_only:
            keys, following = view.keys(self._table, self._start, self._stop, self._chunk_items)
            self._advance(following)
            return self._order.decode_all(keys)
        if self._table is Table.INDEXES and not self._keys_only:
            return self._indexed(view)[1]
        return [value for _, value in self._items(view)]


class Entry(NamedTuple):
    """An item of a table, with the record that it is or leads to."""

    encoded: bytes
    """The encoded key, or the key of the index entry."""
    record: bytes | None


class EntryScan(Chunks[Entry]):
    """A range of keys or of an index with the entries by which it was found; records are left out with `keys_only`."""

    def __init__(
        self, store: Store, order: KeyOrder, request: Range, keys_only: bool, admit: Callable[[], bool]
    ) -> None:
        table = Table.RECORDS if request.index_name is None else Table.INDEXES
        super().__init__(store, order, table, open_bounds(order, request))
        self._keys_only = keys_only
        self._admit = admit

    def _may_go_on(self) -> bool:
        return self._admit()

    def _read(self, view: View) -> list[Entry]:
        if self._keys_only:
            return [Entry(encoded, None) for encoded, _ in self._items(view)]
        if self._table is Table.RECORDS:
            return [Entry(encoded, record) for encoded, record in self._items(view)]
        items, records = self._indexed(view)
        return [Entry(encoded, record) for (encoded, _), record in zip(items, records, strict=True)]


def indexed(
    view: View, order: KeyOrder, start: bytes, stop: bytes | None, limit: int
) -> tuple[list[Item], list[bytes], bytes | None]:
    """Up to `limit` first items of an index, the records that they lead to, and where to go on; fewer if those are
    large."""
    items, following = view.ascending(Table.INDEXES, start, stop, limit)
    encode = order.encode
    found = view.records([encode(primary) for _, primary in items])
    records = [record for record in found if record is not None]
    assert len(records) == len(found), "an index entry has no record"
    if len(records) < len(items):
        following = items[len(records)][0]
        del items[len(records) :]
    return items, records, following


def open_bounds(order: KeyOrder, request: Range) -> tuple[bytes, bytes]:
    """The encoded bounds of a range whose empty end is that of the user's keys, or of the index; refuses inverted ones.

    Internal keys are beyond every such range, internal secondary keys are not.
    """
    if request.index_name is None:
        low, high = order.encode(request.start), order.encode(request.end)
        limit = order.user_end
    else:
        low, high = range_bounds(order, request.index_name, request.start, request.end)
        limit = index_bounds(request.index_name)[1]
    if request.end and high < low:
        raise InvalidRequest(f"the range from {shown(request.start)} to {shown(request.end)} ends before it starts")
    if not request.start and request.index_name is None:
        low = b""
    return min(low, limit), min(high, limit) if request.end else limit


def _protocol_bounds(order: KeyOrder, request: Range) -> tuple[bytes, bytes | None]:
    if request.index_name is not None:
        if not request.end:
            return b"", b""
        return range_bounds(order, request.index_name, request.start, request.end)
    start = order.encode(request.start) if request.start else b""
    stop = order.encode(request.end) if request.end else None
    if not request.include_internal_keys:
        stop = order.user_end if stop is None else min(stop, order.user_end)
    return start, stop
