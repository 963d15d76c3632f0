"""The new keys of a sequence, for one task that follows it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from metastore.providers.local.shards import OpenShard
from metastore.providers.local.threads import LoopInbox

SEQUENCE_KEYS_MAX = 64
"""New keys that wait for a slow reader; beyond that the oldest are left out."""


class SequenceWatch:
    """What is told to one task."""

    def __init__(self, shard: OpenShard, prefix: bytes, inbox: LoopInbox) -> None:
        self._shard = shard
        self._prefix = prefix
        self._inbox = inbox
        self._keys: deque[bytes] = deque(maxlen=SEQUENCE_KEYS_MAX)
        self._news = asyncio.Event()
        self._error: BaseException | None = None
        self._follower = self._on_key

    async def keys(self) -> AsyncGenerator[str, None]:
        """The greatest key, if there is one, then each new one."""
        rounds = self._shard.shard.rounds
        try:
            # Between two rounds, so that no key is both the greatest and a new one.
            greatest = await self._shard.in_thread(lambda: rounds.between_rounds(self._begin))
            if greatest is not None:
                yield greatest.decode()
            while True:
                if self._keys:
                    yield self._keys.popleft().decode()
                else:
                    self._news.clear()
                    if self._error is not None:
                        raise self._error
                    await self._news.wait()
        finally:
            self._shard.sequences.unfollow(self._prefix, self._follower)

    def _begin(self) -> bytes | None:
        self._shard.sequences.follow(self._prefix, self._follower)
        return self._shard.shard.highest_sequence_key(self._prefix)

    def fail(self, error: BaseException) -> None:
        """Nothing more comes, for this reason."""
        self._error = error
        self._news.set()

    def _on_key(self, key: bytes) -> None:
        """Called by the driver of a round."""
        self._inbox.post(self._note, key)

    def _note(self, key: bytes) -> None:
        self._keys.append(key)
        self._news.set()
