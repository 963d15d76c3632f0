"""Indexes of a plain Oxia: found exactly, whatever the secondary keys, among entries in the order of its server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engine.index_keys import path_escape
from metastore.engine.keys import key_order
from metastore.interface.errors import Unsupported
from metastore.interface.values import Comparison, Range, Record, Version
from metastore.providers.merging import StoreOrder
from metastore.providers.wire.plain_entries import decode_entry, entries_prefix, stored_index_name
from metastore.providers.wire.plain_index import PlainIndexes

T = TypeVar("T")

SORTINGS = ("hierarchical", "natural")
secondary_keys = st.text(st.sampled_from("/ab0\0\x01%é"), max_size=6)
primaries = st.sampled_from(["p", "p/1", "q", "q%"])
entries = st.lists(st.tuples(secondary_keys, primaries), max_size=12, unique=True)


class Server:
    """The keys of one shard as an Oxia server has them, in its order, with others beside the entries of the index."""

    def __init__(self, sorting: str, found: list[tuple[str, str]], gone: Sequence[str] = ()) -> None:
        self._encode = key_order(sorting).encode
        self._gone = set(gone)
        keys = {entries_prefix("i") + each.encode() + b"\x01" + path_escape(key.encode()) for each, key in found}
        strangers = [(name, secondary) for name in ("h", "i2", "j/k") for secondary in ("a", "a/b", "a/b/a/b", "//")]
        keys |= {entries_prefix(name) + secondary.encode() + b"\x01x" for name, secondary in strangers}
        keys |= {b"__oxia/session/0001/a%2Fb", b"__oxia/term", b"__oxia/notifications/0000"}
        self._keys = sorted(keys, key=self._encode)
        self.spans: list[tuple[bytes, bytes]] = []
        self.hint: str | None = None

    async def list_internal(self, shard_id: int, start: bytes, end: bytes) -> AsyncGenerator[bytes, None]:
        assert not start.endswith(b"//")
        assert not end.endswith(b"//")
        if end:
            self.spans.append((start, end))
        for key in self._keys:
            if self._encode(start) <= self._encode(key) and (not end or self._encode(key) < self._encode(end)):
                yield key

    async def get_many(self, shard_id: int, keys: Sequence[str], include_value: bool) -> list[Record | None]:
        return [None if key in self._gone else Record(key, b"", Version(0, 0, 0, 0)) for key in keys]

    async def get_lower(self, shard_id: int, index: str, key: str) -> str | None:
        return self.hint


def indexes(sorting: str, server: Server) -> PlainIndexes:
    order = StoreOrder(sorting)
    return PlainIndexes(order, sorting == "hierarchical", server.list_internal, server.get_many, server.get_lower)


async def collected(items: AsyncGenerator[T, None]) -> list[T]:
    return [item async for item in items]


@pytest.mark.parametrize("sorting", SORTINGS)
@settings(deadline=None)
@given(found=entries, start=secondary_keys, end=secondary_keys)
def test_a_range_has_just_its_entries_in_order(
    sorting: str, found: list[tuple[str, str]], start: str, end: str
) -> None:
    order = StoreOrder(sorting)
    if end and order.position(end) < order.position(start):
        start, end = end, start
    server = Server(sorting, found)
    told = asyncio.run(collected(indexes(sorting, server).entries(0, Range(start, end), "i")))
    low, high = order.position(start), order.position(end)
    from_start_on = [each for each in found if low <= order.position(each[0])]
    expected = [each for each in from_start_on if not end or order.position(each[0]) < high]
    assert told == sorted(expected, key=lambda each: order.place_in_index(*each))
    levels = [(first.count(b"/"), last.count(b"/")) for first, last in server.spans]
    assert sorting == "natural" or all(first == last for first, last in levels), "no range leads across levels"


@pytest.mark.parametrize("sorting", SORTINGS)
@settings(deadline=None)
@given(
    found=entries,
    key=secondary_keys,
    comparison=st.sampled_from(Comparison),
    hint=st.none() | secondary_keys,
    gone=st.lists(primaries, max_size=2),
)
def test_the_nearest_entry_with_a_record_is_found(
    sorting: str,
    found: list[tuple[str, str]],
    key: str,
    comparison: Comparison,
    hint: str | None,
    gone: list[str],
) -> None:
    order = StoreOrder(sorting)
    server = Server(sorting, found, gone)
    server.hint = hint
    record = asyncio.run(indexes(sorting, server).nearest(0, "i", key, comparison))
    there = sorted((each for each in found if each[1] not in gone), key=lambda each: order.place_in_index(*each))
    place = order.position(key)
    exact = [each for each in there if each[0] == key]
    below = [each for each in there if order.position(each[0]) < place]
    above = [each for each in there if order.position(each[0]) > place]
    expected = {
        Comparison.EQUAL: exact[:1],
        Comparison.FLOOR: exact[:1] or below[-1:],
        Comparison.LOWER: below[-1:],
        Comparison.CEILING: exact[:1] or above[:1],
        Comparison.HIGHER: above[:1],
    }[comparison]
    assert ([] if record is None else [(record.secondary_key, record.key)]) == expected


@given(secondary_keys, st.text(st.characters(codec="utf-8"), max_size=8))
def test_an_entry_says_what_it_is_of(secondary_key: str, key: str) -> None:
    tail = secondary_key.encode() + b"\x01" + path_escape(key.encode())
    assert decode_entry(tail) == (secondary_key, key)


@given(st.text("ab/%", max_size=6), st.text("ab/%", max_size=6))
def test_two_indexes_have_two_names(one: str, other: str) -> None:
    assert (stored_index_name(one) == stored_index_name(other)) == (one == other)
    assert b"/" not in stored_index_name(one)


def test_ordinary_indexes_have_the_names_that_other_clients_call_them() -> None:
    assert stored_index_name("ops-by-segment") == b"ops-by-segment"


def test_a_server_that_hides_its_entries_is_not_believed() -> None:
    async def nothing(shard_id: int, start: bytes, end: bytes) -> AsyncGenerator[bytes, None]:
        keys: list[bytes] = []
        for key in keys:
            yield key

    async def scenario() -> None:
        server = Server("natural", [])
        hiding = PlainIndexes(StoreOrder("natural"), False, nothing, server.get_many, server.get_lower)
        with pytest.raises(Unsupported, match="too old"):
            await hiding.check(0)
        await indexes("natural", server).check(0)

    asyncio.run(scenario())
