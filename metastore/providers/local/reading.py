"""Lists and scans: chunk by chunk on threads, several shards put into one order on the loop.

A scan that has read its first chunk and has more to read holds a snapshot of its shard, which keeps LMDB from using
freed space again. So one whose reader takes nothing for `STALLED_READER_S` is ended, as a server would.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from metastore.clock import Clock
from metastore.engine.index_keys import IndexEntry, decode_entry, path_escape
from metastore.engine.keys import KeyOrder
from metastore.engine.operations import Range
from metastore.engine.scan import Chunks
from metastore.interface import Record, Unavailable
from metastore.providers.local.records import records_by_index, records_of
from metastore.providers.local.shards import OpenShard
from metastore.providers.merging import Merge, Place

STALLED_READER_S = 60.0

T = TypeVar("T")
Source = tuple[Chunks[Any], Callable[[list[Any]], list[T]]]
"""A scan of the engine, and what turns its chunks into items."""


class Reader(Generic[T]):
    """One shard's part of a list or scan."""

    def __init__(self, shard: OpenShard, source: Source[T], clock: Clock) -> None:
        self.shard = shard
        self._chunks, self._convert = source
        self._clock = clock
        self._lock = threading.Lock()
        self._taken_s = clock.monotonic_s()
        self._is_stalled = False
        self._is_over = False

    def take(self) -> list[T]:
        """The next items; none at the end. On a thread."""
        try:
            with self._lock:
                return self._take()
        finally:
            if self._is_over:
                self.close()

    def _take(self) -> list[T]:
        if self._is_stalled:
            raise Unavailable(f"the reader of a scan took nothing for {STALLED_READER_S:.0f} s: begin it anew")
        if self._is_over:
            return []
        chunk = self._chunks.next_chunk()
        if self._chunks.is_finished:
            self._chunks.close()
        self._taken_s = self._clock.monotonic_s()
        return self._convert(chunk)

    def end_if_stalled(self, now_s: float) -> None:
        """Lets the snapshot go if nobody has come for more. One that is being read at this moment is not stalled."""
        if self._lock.acquire(blocking=False):
            try:
                if not self._chunks.is_finished and now_s - self._taken_s >= STALLED_READER_S:
                    self._is_stalled = True
                    self._chunks.close()
            finally:
                self._lock.release()

    def finish(self) -> None:
        """Nobody wants more of it. On the loop: what is being read at this moment is closed by its thread."""
        self._is_over = True
        if self._lock.acquire(blocking=False):
            try:
                self._chunks.close()
            finally:
                self._lock.release()

    def close(self) -> None:
        """Ends it, once what is being read is read. On a thread."""
        with self._lock:
            self._chunks.close()


async def merged(readers: Sequence[Reader[T]], place: Callable[[T], Place]) -> AsyncGenerator[list[T], None]:
    """The items of all readers in one order, in portions."""
    if len(readers) == 1:
        while portion := await readers[0].shard.in_thread(readers[0].take):
            yield portion
        return
    merge: Merge[T] = Merge(len(readers), place)
    while True:
        wanted = merge.wanted()
        portions = await asyncio.gather(*(readers[each].shard.in_thread(readers[each].take) for each in wanted))
        for each, portion in zip(wanted, portions, strict=True):
            if portion:
                merge.feed(each, portion)
            else:
                merge.end(each)
        if merge.wanted():
            continue
        if not (portion := merge.take()):
            return
        yield portion


def keys_of_range(shard: OpenShard, range: Range) -> tuple[Chunks[bytes], Callable[[list[bytes]], list[str]]]:
    return shard.shard.list_keys(range), _decoded


def records_of_range(shard: OpenShard, range: Range) -> tuple[Chunks[bytes], Callable[[list[bytes]], list[Record]]]:
    return shard.shard.scan(range), records_of


def entries_of_index(shard: OpenShard, range: Range) -> tuple[Chunks[Any], Callable[[list[Any]], list[IndexEntry]]]:
    return shard.shard.scan_entries(range, keys_only=True), partial(_entries, shard.shard.order)


def records_of_index(shard: OpenShard, range: Range) -> tuple[Chunks[Any], Callable[[list[Any]], list[Record]]]:
    return shard.shard.scan_entries(range), partial(_records, shard.shard.order)


def place_of_entry(order: KeyOrder, entry: IndexEntry) -> Place:
    """Where an entry stands in its index, among those of all shards."""
    return order.encode(entry.secondary), path_escape(entry.primary)


def keys_of(entries: list[IndexEntry]) -> Iterator[str]:
    """The keys of the records that entries lead to."""
    return (entry.primary.decode() for entry in entries)


def _decoded(keys: list[bytes]) -> list[str]:
    return [key.decode() for key in keys]


def _entries(order: KeyOrder, chunk: list[Any]) -> list[IndexEntry]:
    return [decode_entry(order, entry.encoded) for entry in chunk]


def _records(order: KeyOrder, chunk: list[Any]) -> list[Record]:
    secondary_keys = (decode_entry(order, entry.encoded).secondary for entry in chunk)
    return records_by_index([entry.record for entry in chunk], secondary_keys)
