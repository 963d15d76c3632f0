"""Which shard a key lives on: a hash of 32 bits, of which each shard owns a range."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from metastore.engine.routing import HASH_END, routing_hash
from metastore.interface.errors import NamespaceNotFound, StoreFailed
from metastore.pb import oxia_pb2 as pb


@dataclass(frozen=True, slots=True)
class Shard:
    """One shard: where its leader listens (empty: nowhere now); its first and last hash."""

    shard_id: int
    leader: str
    first_hash: int
    last_hash: int


class ShardMap:
    """The shards of a namespace. Invariant: ascending, and every hash has exactly one owner."""

    def __init__(self, shards: Iterable[Shard]) -> None:
        self.shards = tuple(sorted(shards, key=lambda shard: shard.first_hash))
        expected_hash = 0
        for shard in self.shards:
            if shard.first_hash != expected_hash or shard.last_hash < shard.first_hash:
                raise StoreFailed(
                    f"the server's shard assignments do not fit together at hash {expected_hash}: "
                    "no key can be routed safely; look at the server's configuration"
                )
            expected_hash = shard.last_hash + 1
        if expected_hash != HASH_END:
            raise StoreFailed(
                f"the server's shard assignments end at hash {expected_hash - 1} instead of {HASH_END - 1}: "
                "no key can be routed safely; look at the server's configuration"
            )
        self._first_hashes = [shard.first_hash for shard in self.shards]
        self._by_id = {shard.shard_id: shard for shard in self.shards}
        if len(self._by_id) != len(self.shards):
            raise StoreFailed("the server's shard assignments name a shard twice: look at the server's configuration")

    def owner(self, routing_key: bytes) -> Shard:
        """The shard of a key, or of a partition key where one is given."""
        hash_value = routing_hash(routing_key)
        shard = self.shards[bisect_right(self._first_hashes, hash_value) - 1]
        assert shard.first_hash <= hash_value <= shard.last_hash
        return shard

    def find(self, shard_id: int) -> Shard | None:
        """The shard with this id, if the namespace (still) has it."""
        return self._by_id.get(shard_id)


def shard_map(namespace: str, message: pb.ShardAssignments) -> ShardMap:
    """Reads the assignments of a namespace from what the server sent."""
    if namespace not in message.namespaces:
        raise NamespaceNotFound(
            f"the server sent no shards for namespace {namespace!r}: check its name and the server's configuration"
        )
    assignment = message.namespaces[namespace]
    if assignment.shard_key_router != pb.XXHASH3:
        raise StoreFailed(
            f"namespace {namespace!r} routes its keys by method {assignment.shard_key_router}, "
            f"and this client knows only {pb.XXHASH3} (XXHASH3): use a newer client"
        )
    return ShardMap(
        Shard(
            shard_id=entry.shard,
            leader=entry.leader.decode("utf-8", "replace"),
            first_hash=entry.int32_hash_range.min_hash_inclusive,
            last_hash=entry.int32_hash_range.max_hash_inclusive,
        )
        for entry in assignment.assignments
    )
