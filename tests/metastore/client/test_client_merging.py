"""Merging: the answers of several shards look like those of one shard that holds everything."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.client.errors import InvalidRequest
from metastore.client.merging import ServerOrder
from metastore.client.values import Comparison, Record, Version

SORTINGS = ("hierarchical", "natural")
VERSION = Version(0, 0, 0, 0)

keys = st.text(st.sampled_from("/ab!\x7fé\U0001f600"), max_size=6)
scattered_keys = st.lists(st.tuples(keys, st.integers(0, 3)), unique_by=lambda pair: pair[0], max_size=20)


def spread(items: list[tuple[str, int]]) -> list[list[str]]:
    return [[key for key, shard in items if shard == number] for number in range(4)]


def test_the_order_is_the_servers_and_not_that_of_other_clients() -> None:
    order = ServerOrder("hierarchical")
    assert list(order.merged([["b/a"], ["a/b/c"]], str, None)) == ["b/a", "a/b/c"]
    assert list(order.merged([["zz"], ["a", "a/b"]], str, None)) == ["a", "zz", "a/b"]
    assert list(ServerOrder("natural").merged([["zz"], ["a", "a/b"]], str, None)) == ["a", "a/b", "zz"]


@pytest.mark.parametrize("sorting", SORTINGS)
@given(scattered_keys)
def test_merged_shards_are_like_one(sorting: str, items: list[tuple[str, int]]) -> None:
    order = ServerOrder(sorting)
    shards = [sorted(shard, key=order.position) for shard in spread(items)]
    everything = sorted((key for key, _ in items), key=order.position)
    assert list(order.merged(shards, lambda key: key, None)) == everything


def test_merging_takes_from_the_shards_only_what_is_asked_for() -> None:
    endless = [(f"{number:09}" for number in itertools.count(start, 2)) for start in (0, 1)]
    merged = ServerOrder("natural").merged(endless, lambda key: key, None)
    assert list(itertools.islice(merged, 4)) == ["000000000", "000000001", "000000002", "000000003"]


def test_by_an_index_one_shard_follows_the_other() -> None:
    merged = ServerOrder("natural").merged([["z", "a"], ["m"]], lambda key: key, "name")
    assert list(merged) == ["z", "a", "m"]


def test_an_unknown_sorting_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="alphabetical"):
        ServerOrder("alphabetical")


def one_shard(order: ServerOrder, present: list[Record], asked: str, comparison: Comparison) -> Record | None:
    """What a shard with these records answers to a get: found by looking at all of them."""

    def asked_of(record: Record) -> str:
        return record.key if record.secondary_key is None else record.secondary_key

    ascending = sorted(present, key=order._place)
    position = order.position(asked)
    exact = [record for record in ascending if asked_of(record) == asked]
    below = [record for record in ascending if order.position(asked_of(record)) < position]
    above = [record for record in ascending if order.position(asked_of(record)) > position]
    candidates = {
        Comparison.EQUAL: exact[:1],
        Comparison.FLOOR: exact[:1] or below[-1:],
        Comparison.CEILING: exact[:1] or above[:1],
        Comparison.LOWER: below[-1:],
        Comparison.HIGHER: above[:1],
    }[comparison]
    return candidates[0] if candidates else None


@pytest.mark.parametrize("sorting", SORTINGS)
@given(scattered_keys, keys, st.sampled_from(Comparison))
def test_the_nearest_key_of_several_shards_is_that_of_one(
    sorting: str, items: list[tuple[str, int]], asked: str, comparison: Comparison
) -> None:
    order = ServerOrder(sorting)
    shards = [[Record(key, b"", VERSION) for key in shard] for shard in spread(items)]
    answers = [one_shard(order, shard, asked, comparison) for shard in shards]
    found = order.nearest([one for one in answers if one is not None], asked, comparison)
    assert found == one_shard(order, list(itertools.chain(*shards)), asked, comparison)


@pytest.mark.parametrize("sorting", SORTINGS)
@given(
    st.lists(
        st.tuples(keys, st.sampled_from(["x", "y", "y/z"]), st.integers(0, 3)), unique=True, max_size=15
    ),
    st.sampled_from(["w", "x", "y", "y/a", "y/z", "z"]),
    st.sampled_from(Comparison),
)
def test_the_nearest_secondary_key_of_several_shards_is_that_of_one(
    sorting: str, items: list[tuple[str, str, int]], asked: str, comparison: Comparison
) -> None:
    order = ServerOrder(sorting)
    primaries = {key: shard for key, _, shard in items}  # a primary key lives on one shard
    records = [(Record(key, b"", VERSION, secondary), primaries[key]) for key, secondary, _ in items]
    shards = [[record for record, shard in dict.fromkeys(records) if shard == number] for number in range(4)]
    answers = [one_shard(order, shard, asked, comparison) for shard in shards]
    found = order.nearest([one for one in answers if one is not None], asked, comparison)
    assert found == one_shard(order, list(itertools.chain(*shards)), asked, comparison)


def test_records_that_share_a_secondary_key_are_ordered_by_their_escaped_keys() -> None:
    order = ServerOrder("hierarchical")
    records = [Record(key, b"", VERSION, "s") for key in ("p0", "p/4", "a$b", "a!b")]
    assert sorted(records, key=order._place) == [records[i] for i in (2, 3, 1, 0)]
    assert order.nearest(records, "s", Comparison.EQUAL) == records[2]
    assert order.nearest(records, "t", Comparison.FLOOR) == records[0]
