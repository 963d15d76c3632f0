"""The hash of a key: one number whose upper half chooses the segment and whose lower half the bucket inside it."""

from __future__ import annotations

import mmh3


def key_hash(key: str | bytes) -> int:
    """MurmurHash3, 32 bits, of the key's bytes; a text's are its UTF-8."""
    return mmh3.hash(key, 0, signed=False)


def segment_hash(hash: int) -> int:
    """Where a key is on the ring: bits 31 to 16."""
    return hash >> 16


def bucket_hash(hash: int) -> int:
    """Where a key is within its segment's entry buckets: bits 15 to 0."""
    return hash & 0xFFFF


def legacy_partition(hash: int, partitions: int) -> int:
    """The partition of a topic of the old kind that a key belongs to."""
    return (hash & 0x7FFFFFFF) % partitions
