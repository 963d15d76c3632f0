"""Which shard a key lives on."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.directory import SHARDS_MAX
from metastore.engine.routing import HASH_END, hash_ranges, place_of, routing_hash


@settings(deadline=None, database=None, derandomize=True)
@given(st.binary(max_size=40), st.integers(1, SHARDS_MAX))
def test_a_key_is_placed_where_its_hash_belongs(key: bytes, shards: int) -> None:
    low, high = hash_ranges(shards)[place_of(key, shards)]
    assert low <= routing_hash(key) <= high < HASH_END


def test_hashes_are_those_of_other_clients() -> None:
    assert routing_hash(b"") == 0x38D394C2  # the lower half of XXH3-64 of nothing
    assert place_of(b"", 1) == 0
