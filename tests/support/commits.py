"""Tells of every commit of a store in memory, as it takes effect and before anybody else does anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from metastore.providers.memory import MemoryData

Heard = Callable[[Sequence[str]], None]
"""Is given the keys that were written or removed."""


def listen_to_commits(data: MemoryData, heard: Heard) -> None:
    """From now on, for as long as there are these data."""
    commit = data._commit

    def commit_and_tell(shard: Any, changes: Sequence[tuple[str, Any]], time_ms: int) -> None:
        commit(shard, changes, time_ms)
        heard([key for key, _ in changes])

    vars(data)["_commit"] = commit_and_tell
