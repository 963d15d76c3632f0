"""Reads over a view: gets with their comparisons, and scans by primary key and by index. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable

from metastore.engine import limits
from metastore.engine.change import Table
from metastore.engine.errors import InvalidRequest
from metastore.engine.index_keys import decode_entry, equal_bounds, index_bounds
from metastore.engine.keys import KeyOrder
from metastore.engine.operations import Comparison, Get
from metastore.engine.overlay import View
from metastore.engine.tree import Item

Found = tuple[bytes, "bytes | None"]
"""The record that a get found, and the secondary key by which it did, if it was by an index."""


def get_many(view: View, order: KeyOrder, requests: Iterable[Get]) -> list[Found | None]:
    """The records that gets ask for, in their order; of fewer gets if the records are large, of one in any case."""
    found: list[Found | None] = []
    size = 0
    for request in requests:
        if request.comparison == 0 and request.index_name is None:
            record = view.record(order.encode(request.key))
            found.append(None if record is None else (record, None))
        else:
            found.append(_get(view, order, request))
        size += len(found[-1][0]) if found[-1] else 0
        if size >= limits.SCAN_CHUNK_BYTES:
            break
    return found


def _get(view: View, order: KeyOrder, request: Get) -> Found | None:
    """The record of a get that is no plain one."""
    if request.index_name is not None:
        return _get_by_index(view, order, request, request.index_name)
    encoded = order.encode(request.key)
    items = _nearest(view, Table.RECORDS, request.comparison, (b"", order.user_end), (encoded, encoded + b"\0"))
    return (items[0][1], None) if items else None


def _get_by_index(view: View, order: KeyOrder, request: Get, name: bytes) -> Found | None:
    whole = index_bounds(name)
    equal = equal_bounds(order, name, request.key)
    comparison = request.comparison
    if comparison in (Comparison.EQUAL, Comparison.FLOOR):
        items, _ = view.ascending(Table.INDEXES, *equal, 1)
        if not items and comparison == Comparison.FLOOR:
            items = _nearest(view, Table.INDEXES, Comparison.LOWER, whole, equal)
    else:
        items = _nearest(view, Table.INDEXES, comparison, whole, equal)
    if not items:
        return None
    entry, primary = items[0]
    record = view.get(Table.RECORDS, order.encode(primary))
    assert record is not None, "an index entry has no record"
    _, secondary, _ = decode_entry(order, entry)
    return record, secondary


def _nearest(
    view: View, table: Table, comparison: int, whole: tuple[bytes, bytes], equal: tuple[bytes, bytes]
) -> list[Item]:
    """At most one item of a table: the one nearest to the range `equal`, on the side that is asked for."""
    low, high = whole
    if comparison == Comparison.FLOOR:
        return view.descending(table, low, min(equal[1], high), 1)
    if comparison == Comparison.LOWER:
        return view.descending(table, low, min(equal[0], high), 1)
    if comparison == Comparison.CEILING:
        start = equal[0]
    elif comparison == Comparison.HIGHER:
        start = equal[1]
    else:
        names = ", ".join(f"{known.name} {known.value}" for known in Comparison)
        raise InvalidRequest(f"unknown comparison type {comparison}: one of {names}")
    return view.ascending(table, start, high, 1)[0] if start < high else []
