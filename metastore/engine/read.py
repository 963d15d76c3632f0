"""Reads over a view: gets with their comparisons, and scans by primary key and by index. Pure functions."""

from __future__ import annotations

from typing import NamedTuple

from metastore.engine.change import Table
from metastore.engine.errors import InvalidRequest
from metastore.engine.index_keys import decode_entry, equal_bounds, index_bounds
from metastore.engine.keys import KeyOrder
from metastore.engine.operations import Comparison, Get
from metastore.engine.overlay import View
from metastore.engine.tree import Item


class Found(NamedTuple):
    """A record that a get found."""

    record: bytes
    secondary_key: bytes | None
    """The secondary key by which it was found, if it was by an index."""


def get(view: View, order: KeyOrder, request: Get) -> Found | None:
    """The record that a get asks for."""
    if request.index_name is not None:
        return _get_by_index(view, order, request, request.index_name)
    encoded = order.encode(request.key)
    if request.comparison == Comparison.EQUAL:
        record = view.get(Table.RECORDS, encoded)
        return None if record is None else Found(record, None)
    items = _nearest(view, Table.RECORDS, request.comparison, (b"", order.user_end), (encoded, encoded + b"\0"))
    return Found(items[0][1], None) if items else None


def _get_by_index(view: View, order: KeyOrder, request: Get, name: bytes) -> Found | None:
    whole = index_bounds(name)
    equal = equal_bounds(order, name, request.key)
    comparison = request.comparison
    if comparison in (Comparison.EQUAL, Comparison.FLOOR):
        items = view.ascending(Table.INDEXES, *equal, 1)
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
    return Found(record, secondary)


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
    return view.ascending(table, start, high, 1) if start < high else []
