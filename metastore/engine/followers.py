"""Who is told of the new keys of a shard's sequences."""

from __future__ import annotations

import threading
from collections.abc import Callable

from metastore.engine.stage import Stage

NewKey = Callable[[bytes], None]


class SequenceFollowers:
    """The followers of the sequences of one shard; `on_round` belongs into the list of that name of its rounds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._followers: dict[bytes, set[NewKey]] = {}

    def __len__(self) -> int:
        return sum(map(len, tuple(self._followers.values())))

    def follow(self, prefix: bytes, new_key: NewKey) -> None:
        """`new_key` is called, by the driver of a round, with the key of each later put to a sequence."""
        with self._lock:
            self._followers.setdefault(prefix, set()).add(new_key)

    def unfollow(self, prefix: bytes, new_key: NewKey) -> None:
        """Ends `follow`."""
        with self._lock:
            followers = self._followers.get(prefix, set())
            followers.discard(new_key)
            if not followers:
                self._followers.pop(prefix, None)

    def on_round(self, stage: Stage) -> None:
        """Tells the news of a durable round: of each request the newest key of a sequence."""
        if not self._followers or not stage.sequences:
            return
        newest = {(offset, prefix): key for offset, prefix, key in stage.sequences}
        for (_, prefix), key in newest.items():
            with self._lock:
                followers = tuple(self._followers.get(prefix, ()))
            for new_key in followers:
                new_key(key)
