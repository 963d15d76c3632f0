"""Routing: the hash, and shards that own every hash exactly once."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.engine.routing import HASH_END, routing_hash
from metastore.interface.errors import NamespaceNotFound, StoreFailed
from metastore.pb import oxia_pb2 as pb
from metastore.providers.wire.routing import Shard, ShardMap, shard_map

LAST_HASH = HASH_END - 1


def evenly(count: int) -> list[Shard]:
    """Shards as a server cuts them."""
    width = LAST_HASH // count + 1
    return [
        Shard(number, f"host:{number}", number * width, min((number + 1) * width - 1, LAST_HASH))
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"foo", 125730186), (b"bar", 2687685474), (b"baz", 862947621), (b"", 953390274)],
)
def test_the_hash_is_that_of_other_clients(key: bytes, expected: int) -> None:
    assert routing_hash(key) == expected


@given(st.integers(1, 40), st.binary(max_size=40), st.randoms())
def test_a_key_belongs_to_the_shard_whose_range_holds_its_hash(count: int, key: bytes, order: Random) -> None:
    shards = evenly(count)
    order.shuffle(shards)
    owner = ShardMap(shards).owner(key)
    holders = [shard for shard in shards if shard.first_hash <= routing_hash(key) <= shard.last_hash]
    assert holders == [owner]


def test_shards_are_found_by_id() -> None:
    shards = ShardMap(evenly(4))
    found = shards.find(2)
    assert found is not None
    assert found.leader == "host:2"
    assert shards.find(4) is None


@pytest.mark.parametrize(
    "shards",
    [
        pytest.param([], id="none"),
        pytest.param([Shard(0, "a:1", 0, LAST_HASH - 1)], id="the last hash is missing"),
        pytest.param([Shard(0, "a:1", 1, LAST_HASH)], id="the first hash is missing"),
        pytest.param([Shard(0, "a:1", 0, 10), Shard(1, "a:1", 12, LAST_HASH)], id="gap"),
        pytest.param([Shard(0, "a:1", 0, 10), Shard(1, "a:1", 10, LAST_HASH)], id="overlap"),
        pytest.param([Shard(0, "a:1", 0, 10), Shard(0, "a:1", 11, LAST_HASH)], id="one id twice"),
        pytest.param([Shard(0, "a:1", 0, LAST_HASH), Shard(1, "a:1", LAST_HASH + 1, LAST_HASH)], id="empty range"),
    ],
)
def test_assignments_that_do_not_fit_together_are_refused(shards: list[Shard]) -> None:
    with pytest.raises(StoreFailed, match="shard assignments"):
        ShardMap(shards)


def test_assignments_are_read_for_the_namespace_asked_for() -> None:
    message = pb.ShardAssignments()
    whole = pb.Int32HashRange(min_hash_inclusive=0, max_hash_inclusive=LAST_HASH)
    message.namespaces["here"].shard_key_router = pb.XXHASH3
    message.namespaces["here"].assignments.add(shard=7, leader=b"tls://db:6648", int32_hash_range=whole)
    assert shard_map("here", message).shards == (Shard(7, "tls://db:6648", 0, LAST_HASH),)
    with pytest.raises(NamespaceNotFound, match="'there'"):
        shard_map("there", message)


def test_an_unknown_routing_is_refused() -> None:
    message = pb.ShardAssignments()
    whole = pb.Int32HashRange(min_hash_inclusive=0, max_hash_inclusive=LAST_HASH)
    message.namespaces["default"].assignments.add(shard=0, leader=b"db:6648", int32_hash_range=whole)
    with pytest.raises(StoreFailed, match="routes its keys"):
        shard_map("default", message)
