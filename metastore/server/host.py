"""What one server process serves: namespaces, their shards, and who listens to them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from metastore.directory import DEFAULT_NAMESPACE, Namespace
from metastore.engine.followers import SequenceFollowers
from metastore.engine.shard import Shard
from metastore.engine.stage import Stage
from metastore.server.errors import namespace_not_found, not_leader, shard_missing
from metastore.server.tidemark.courtesy import Courtesy
from metastore.server.tidemark.turns import Turns
from metastore.watch.hub import WatchHub

Wake = Callable[[], None]


class ShardHost:
    """A shard and its subscribers."""

    def __init__(self, shard_id: int, namespace: Namespace, shard: Shard) -> None:
        self.shard_id = shard_id
        self.namespace = namespace
        self.shard = shard
        self._lock = threading.Lock()
        self._followers: set[Wake] = set()
        self.watches = WatchHub(shard)
        self.sequences = SequenceFollowers()
        self.told_offset = shard.next_offset
        """Everything below has been told to all who follow the shard."""
        shard.rounds.on_round += [self.sequences.on_round, self._on_round]

    def follow(self, wake: Wake) -> None:
        """`wake` is called after each round."""
        with self._lock:
            self._followers.add(wake)

    def unfollow(self, wake: Wake) -> None:
        """Ends `follow`."""
        with self._lock:
            self._followers.discard(wake)

    @property
    def follower_count(self) -> int:
        """Open notification streams."""
        return len(self._followers)

    def close(self, within_s: float) -> None:
        """Ends the watches and closes the shard."""
        self.watches.close()
        self.shard.close(within_s)

    def _on_round(self, stage: Stage) -> None:
        """Comes last: the watches and the followers of sequences have been told of the round before."""
        self.told_offset = stage.next_offset
        if self._followers:
            with self._lock:
                wakes = tuple(self._followers)
            for wake in wakes:
                wake()


class Host:
    """The namespaces of the whole service, and the shards of this process."""

    def __init__(
        self,
        namespaces: list[Namespace],
        shards: dict[int, ShardHost],
        leaders: dict[int, str],
        identity: str = "",
        retention_ms: int = 0,
    ) -> None:
        self.namespaces = {namespace.name: namespace for namespace in namespaces}
        self.shards = shards
        self.leaders = leaders
        """Where each shard is served, for shards of which that is fixed; others are served where they are asked for."""
        self.identity = identity
        """Of the data directory."""
        self.retention_ms = retention_ms
        """How long changes are kept at least."""
        self.turns = Turns("watch-turns")
        """Of the streams of watches."""
        self.bulk_turns = Turns("bulk-turns")
        """Of the answers that are very long."""
        self.courtesy = Courtesy(lambda: sum(each.shard.store.durable.last_version_id for each in shards.values()))

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
