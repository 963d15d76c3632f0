"""Which shard a key lives on: a hash of 32 bits, of which each shard owns a range. The same for servers and clients."""

from __future__ import annotations

from xxhash import xxh3_64_intdigest

HASH_END = 1 << 32


def routing_hash(routing_key: bytes) -> int:
    """The low 32 bits of XXH3-64 with seed 0, of the partition key where there is one, else of the key."""
    return xxh3_64_intdigest(routing_key) & (HASH_END - 1)


def hash_ranges(shards: int) -> list[tuple[int, int]]:
    """The inclusive hash ranges of a namespace's shards; together they cover 32 bits."""
    width = _width(shards)
    return [(each * width, min((each + 1) * width, HASH_END) - 1) for each in range(shards)]


def place_of(routing_key: bytes, shards: int) -> int:
    """Which of a namespace's shards, counted from 0, owns a key."""
    return routing_hash(routing_key) // _width(shards)


def _width(shards: int) -> int:
    return (HASH_END - 1) // shards + 1
