"""Scans: ranges read in chunks, all of one state of the shard.

The first chunk is read under the shard's lock, and most scans end there. A longer one takes a snapshot in the same
instant and goes on from it without any lock, however slow its reader is.
"""

from __future__ import annotations

from types import TracebackType

from metastore.engine import limits
from metastore.engine.change import Table
from metastore.engine.errors import Overloaded
from metastore.engine.index_keys import range_bounds
from metastore.engine.keys import KeyOrder
from metastore.engine.operations import Range
from metastore.engine.overlay import View
from metastore.engine.store import Snapshot, Store

FIRST_CHUNK_ITEMS = 128
"""Small at first: how large the values are is not known yet."""


class Scan:
    """A range, read chunk by chunk. Yields records, or with `keys_only` the keys as clients know them."""

    def __init__(self, store: Store, order: KeyOrder, request: Range, keys_only: bool) -> None:
        self._store = store
        self._order = order
        self._keys_only = keys_only
        self._table = Table.RECORDS if request.index_name is None else Table.INDEXES
        self._start, self._stop = self._bounds(request)
        self._snapshot: Snapshot | None = None
        self._chunk_items = limits.SCAN_CHUNK_ITEMS_MAX if keys_only else FIRST_CHUNK_ITEMS
        self.is_finished = self._stop is not None and self._start >= self._stop

    def _bounds(self, request: Range) -> tuple[bytes, bytes | None]:
        if request.index_name is not None:
            if not request.end:
                return b"", b""
            return range_bounds(self._order, request.index_name, request.start, request.end)
        start = self._order.encode(request.start) if request.start else b""
        stop = self._order.encode(request.end) if request.end else None
        if not request.include_internal_keys:
            stop = self._order.user_end if stop is None else min(stop, self._order.user_end)
        return start, stop

    def next_chunk(self) -> list[bytes]:
        """The next records or keys; empty only at the end."""
        if self.is_finished:
            return []
        if self._snapshot is not None:
            return self._read(self._snapshot.view)
        with self._store.lock:
            chunk = self._read(self._store.view)
            if not self.is_finished:
                if self._store.open_snapshots >= limits.SNAPSHOTS_MAX:
                    raise Overloaded(f"{limits.SNAPSHOTS_MAX} long scans are under way; try again later")
                self._snapshot = self._store.snapshot()
        return chunk

    def _read(self, view: View) -> list[bytes]:
        limit = self._chunk_items
        if self._table is Table.RECORDS and self._keys_only:
            keys = view.keys(self._table, self._start, self._stop, limit)
            self._advance(keys[-1] if len(keys) == limit else None)
            return self._order.decode_all(keys)
        items = view.ascending(self._table, self._start, self._stop, limit)
        self._advance(items[-1][0] if len(items) == limit else None)
        values = [value for _, value in items]
        if self._table is Table.INDEXES and not self._keys_only:
            values = [self._record(view, primary) for primary in values]
        if not self._keys_only:
            self._adapt(values)
        return values

    def _record(self, view: View, primary: bytes) -> bytes:
        record = view.get(Table.RECORDS, self._order.encode(primary))
        assert record is not None, "an index entry has no record"
        return record

    def _advance(self, last: bytes | None) -> None:
        if last is None:
            self.is_finished = True
        else:
            self._start = last + b"\0"

    def _adapt(self, values: list[bytes]) -> None:
        """The next chunk: about as many bytes as a message holds, judged by the largest value of this one."""
        largest = max(map(len, values), default=1)
        wanted = limits.SCAN_CHUNK_BYTES // largest
        self._chunk_items = max(1, min(wanted, limits.SCAN_CHUNK_ITEMS_MAX, 4 * self._chunk_items))

    def close(self) -> None:
        """Ends the scan, wherever it is."""
        self.is_finished = True
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    def __enter__(self) -> Scan:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
