"""Secondary indexes of a plain Oxia, read entry by entry.

Its own scans and gets by index are of no use here. They do not tell the secondary keys, so that the answers of several
shards could not be put in order; an open end selects nothing, and one that selects a single key selects none; where
there are slashes the nearest key is the wrong one. And a range whose borders have different numbers of slashes may meet
other internal records, whereupon **the server dies**. So this asks for the entries, which a list of internal keys
shows, level by level, and gets the records that they name.

What cannot be had: the entries and the records are not read from one state of the shard. An entry whose record is gone
(servers forget to remove those of ephemeral records) is passed over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeVar

from metastore.interface.errors import Unsupported
from metastore.interface.values import Comparison, Range, Record
from metastore.providers.merging import StoreOrder
from metastore.providers.wire.plain_entries import (
    Borders,
    Reorder,
    Span,
    decode_entry,
    entries_prefix,
    level_of,
    level_start,
)
from metastore.providers.wire.protocol import to_wire
from metastore.providers.wire.scans import IndexedKey

ListInternal = Callable[[int, bytes, bytes], AsyncGenerator[bytes, None]]
"""Lists the keys of a shard, internal ones too, from one to before another (empty: to the last)."""
GetMany = Callable[[int, Sequence[str], bool], Awaitable[list[Record | None]]]
"""Records of a shard by their keys, with or without the values."""
GetLower = Callable[[int, str, str], Awaitable[str | None]]
"""What the server takes for the secondary key before one, on a shard, in an index."""
T = TypeVar("T")

RECORDS_AT_ONCE = 256
"""Entries whose records are asked for together."""


class PlainIndexes:
    """The indexes of one store."""

    def __init__(
        self,
        order: StoreOrder,
        is_hierarchical: bool,
        list_internal: ListInternal,
        get_many: GetMany,
        get_lower: GetLower,
    ) -> None:
        self._order = order
        self._is_hierarchical = is_hierarchical
        self._borders = Borders(is_hierarchical)
        self._list_internal = list_internal
        self._get_many = get_many
        self._get_lower = get_lower

    async def check(self, shard_id: int) -> None:
        """Raises Unsupported if the server does not show its entries; else an index would look empty."""
        async with aclosing(self._list_internal(shard_id, b"__oxia/", b"")) as keys:
            if await anext(keys, None) is None:
                raise Unsupported("the Oxia server is too old to tell the entries of its indexes: use a newer one")

    async def entries(self, shard_id: int, range: Range, index: str) -> AsyncGenerator[IndexedKey, None]:
        """The entries of one shard with a secondary key in the range, in the order of the contract."""
        low, high = self._order.position(range.start), self._order.position(range.end) if range.end else None
        async with aclosing(self._levels(shard_id, range, index)) as levels:
            async for level, start, end in levels:
                async with aclosing(self._level(shard_id, index, level, start, end)) as entries:
                    async for entry in entries:
                        position = self._order.position(entry[0])
                        if low <= position and (high is None or position < high):
                            yield entry

    async def records(
        self, shard_id: int, range: Range, index: str, include_value: bool
    ) -> AsyncGenerator[Record, None]:
        """The records of these entries."""
        async with aclosing(self.entries(shard_id, range, index)) as entries:
            async for portion in in_portions(entries, RECORDS_AT_ONCE):
                for record in await self._records(shard_id, portion, include_value):
                    yield record

    async def nearest(self, shard_id: int, index: str, key: str, comparison: Comparison) -> Record | None:
        """The record of this shard with a secondary key, or with the nearest one."""
        if comparison is Comparison.EQUAL:
            return await self._exact(shard_id, index, key)
        if comparison is Comparison.CEILING:
            return await self._first(shard_id, Range(key), index)
        if comparison is Comparison.HIGHER:
            is_one_up = self._is_hierarchical and key.endswith("//")
            return await self._first(shard_id, Range(key if is_one_up else key + "\0"), index, other_than=key)
        if comparison is Comparison.FLOOR:
            exact = await self._exact(shard_id, index, key)
            if exact is not None:
                return exact
        return await self._last_before(shard_id, index, key)

    async def _exact(self, shard_id: int, index: str, key: str) -> Record | None:
        raw = to_wire(key)
        async with aclosing(self._stored(shard_id, index, Span(raw + b"\x01", raw + b"\x02"))) as entries:
            async for portion in in_portions(entries, RECORDS_AT_ONCE):
                found = await self._records(shard_id, [entry for entry in portion if entry[0] == key])
                if found:
                    return found[0]
        return None

    async def _first(self, shard_id: int, range: Range, index: str, other_than: str | None = None) -> Record | None:
        async with aclosing(self.entries(shard_id, range, index)) as entries:
            async for entry in entries:
                found = await self._records(shard_id, [entry] if entry[0] != other_than else [])
                if found:
                    return found[0]
        return None

    async def _last_before(self, shard_id: int, index: str, key: str) -> Record | None:
        """Keys are listed upwards only. What the server takes for the one before tells where to begin."""
        if not key:
            return None
        hint = await self._get_lower(shard_id, index, key)
        is_before = hint is not None and self._order.position(hint) < self._order.position(key)
        for start in [hint, ""] if hint is not None and is_before else [""]:
            async with aclosing(self.entries(shard_id, Range(start, key), index)) as entries:
                below = [entry async for entry in entries]
            for entry in reversed(below):
                found = await self._records(shard_id, [entry])
                if found:
                    return found[0]
        return None

    async def _records(self, shard_id: int, entries: Sequence[IndexedKey], include_value: bool = True) -> list[Record]:
        """The records of these entries, as far as there are any."""
        if not entries:
            return []
        records = await self._get_many(shard_id, [key for _, key in entries], include_value)
        return [
            replace(record, secondary_key=secondary_key)
            for (secondary_key, _), record in zip(entries, records, strict=True)
            if record is not None
        ]

    # -- entries as the server has them

    async def _levels(
        self, shard_id: int, range: Range, index: str
    ) -> AsyncGenerator[tuple[int, bytes | None, bytes | None], None]:
        """The levels of a range on which there may be entries, each with its first key and the one to end before."""
        start, end = to_wire(range.start), to_wire(range.end) or None
        if not self._is_hierarchical:
            yield 0, start, end
            return
        first: bytes | None = start
        level = level_of(start)
        last = None if end is None else level_of(end)
        while last is None or level < last:
            yield level, first, None
            stored = await self._next_stored_level(shard_id, index, level + 1)
            if stored is None:
                return
            # What is stored there may belong one level higher.
            level, first = max(level + 1, stored - 1), None
        if level == last:
            yield level, first, end

    async def _next_stored_level(self, shard_id: int, index: str, level: int) -> int | None:
        """The first level from this one on where the server has entries of the index; None if there is none."""
        prefix = entries_prefix(index)
        while True:
            async with aclosing(self._list_internal(shard_id, prefix + level_start(level), b"")) as keys:
                key = await anext(keys, None)
            if key is None:
                return None
            found = key.count(b"/") - prefix.count(b"/")
            if key.startswith(prefix):
                return found
            level = max(found, level + 1)

    async def _level(
        self, shard_id: int, index: str, level: int, start: bytes | None, end: bytes | None
    ) -> AsyncGenerator[IndexedKey, None]:
        """The entries of a level of the contract, in order."""
        reorder = Reorder(self._order)
        displaced: deque[IndexedKey] = deque()
        span = self._borders.span_of_displaced(level, start, end)
        if span is not None:
            found = [entry async for entry in self._stored(shard_id, index, span) if entry[0].endswith("//")]
            displaced.extend(sorted(found, key=reorder.place))
        async with aclosing(self._stored(shard_id, index, self._borders.span(level, start, end))) as entries:
            async for entry in entries:
                if self._is_hierarchical and entry[0].endswith("//"):
                    continue
                for ready in reorder.feed(entry):
                    while displaced and reorder.place(displaced[0]) < reorder.place(ready):
                        yield displaced.popleft()
                    yield ready
        for ready in sorted([*reorder.end(), *displaced], key=reorder.place):
            yield ready

    async def _stored(self, shard_id: int, index: str, span: Span) -> AsyncGenerator[IndexedKey, None]:
        prefix = entries_prefix(index)
        async with aclosing(self._list_internal(shard_id, prefix + span.start, prefix + span.end)) as keys:
            async for key in keys:
                yield decode_entry(key.removeprefix(prefix))


async def in_portions(items: AsyncGenerator[T, None], size: int) -> AsyncGenerator[list[T], None]:
    """The items, so many at a time."""
    portion: list[T] = []
    async for item in items:
        portion.append(item)
        if len(portion) == size:
            yield portion
            portion = []
    if portion:
        yield portion
