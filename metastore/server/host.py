"""What one server process serves: namespaces, their shards, and who listens to them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass

from metastore.engine.shard import Shard
from metastore.engine.stage import Stage
from metastore.server.errors import namespace_not_found, not_leader, shard_missing

HASH_END = 1 << 32
DEFAULT_NAMESPACE = "default"

_NAMESPACE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def is_namespace_name(name: str) -> bool:
    """Whether a namespace may be called so."""
    return bool(_NAMESPACE_NAME.fullmatch(name)) and ".." not in name


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace as it is configured, and the shards that it got."""

    name: str
    first_shard: int
    shards: int
    key_sorting: str
    notifications_enabled: bool

    @property
    def shard_ids(self) -> range:
        """Its shards; ids are unique over all namespaces."""
        return range(self.first_shard, self.first_shard + self.shards)


def hash_ranges(shards: int) -> list[tuple[int, int]]:
    """The inclusive hash ranges of a namespace's shards; together they cover 32 bits."""
    width = (HASH_END - 1) // shards + 1
    return [(each * width, min((each + 1) * width, HASH_END) - 1) for each in range(shards)]


Wake = Callable[[], None]
NewKey = Callable[[bytes], None]


class ShardHost:
    """A shard and its subscribers."""

    def __init__(self, shard_id: int, namespace: Namespace, shard: Shard) -> None:
        self.shard_id = shard_id
        self.namespace = namespace
        self.shard = shard
        self._lock = threading.Lock()
        self._followers: set[Wake] = set()
        self._sequence_followers: dict[bytes, set[NewKey]] = {}
        shard.rounds.on_round.append(self._on_round)

    def follow(self, wake: Wake) -> None:
        """`wake` is called after each round."""
        with self._lock:
            self._followers.add(wake)

    def unfollow(self, wake: Wake) -> None:
        """Ends `follow`."""
        with self._lock:
            self._followers.discard(wake)

    def follow_sequence(self, prefix: bytes, new_key: NewKey) -> None:
        """`new_key` is called with the key of each later put to a sequence."""
        with self._lock:
            self._sequence_followers.setdefault(prefix, set()).add(new_key)

    def unfollow_sequence(self, prefix: bytes, new_key: NewKey) -> None:
        """Ends `follow_sequence`."""
        with self._lock:
            followers = self._sequence_followers.get(prefix, set())
            followers.discard(new_key)
            if not followers:
                self._sequence_followers.pop(prefix, None)

    @property
    def follower_count(self) -> int:
        """Open notification streams."""
        return len(self._followers)

    @property
    def sequence_follower_count(self) -> int:
        """Open sequence streams."""
        return sum(map(len, tuple(self._sequence_followers.values())))

    def _on_round(self, stage: Stage) -> None:
        if self._sequence_followers and stage.sequences:
            newest = {(offset, prefix): key for offset, prefix, key in stage.sequences}
            for (_, prefix), key in newest.items():
                with self._lock:
                    followers = tuple(self._sequence_followers.get(prefix, ()))
                for new_key in followers:
                    new_key(key)
        if self._followers:
            with self._lock:
                wakes = tuple(self._followers)
            for wake in wakes:
                wake()


class Host:
    """The namespaces of the whole service, and the shards of this process."""

    def __init__(
        self, namespaces: list[Namespace], shards: dict[int, ShardHost], leaders: dict[int, str]
    ) -> None:
        self.namespaces = {namespace.name: namespace for namespace in namespaces}
        self.shards = shards
        self.leaders = leaders
        """Where each shard is served, for shards of which that is fixed; others are served where they are asked for."""

    def namespace(self, name: bytes) -> Namespace:
        """A namespace by the name that a client gives; an empty one means the default."""
        text = name.decode("utf-8", "replace") or DEFAULT_NAMESPACE
        if text not in self.namespaces:
            raise namespace_not_found()
        return self.namespaces[text]

    def shard(self, shard_id: int | None) -> ShardHost:
        """A shard of this process; refuses all others with the way there, if it is known."""
        if shard_id is None:
            raise shard_missing()
        host = self.shards.get(shard_id)
        if host is None:
            raise not_leader(shard_id, self.leaders.get(shard_id))
        return host

    def neighbours(self, shard: ShardHost) -> list[ShardHost]:
        """The shards of the same namespace in this process, the given one first."""
        others = (each for each in self.shards.values() if each.namespace == shard.namespace)
        return [shard, *(each for each in others if each is not shard)]


