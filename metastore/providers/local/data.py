"""An open data directory: this process's, with the shards of one namespace. Everything here blocks."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

from metastore.directory import DataDirectory, shard_directory
from metastore.engine.shard import Shard
from metastore.interface import Environment
from metastore.providers.local.settings import Settings

FEED_AT_CLOSE_S = 2.0
"""For LMDB to catch up, when the store is closed; the log has what is missing."""


class OpenDirectory:
    """A data directory and the open shards of one of its namespaces."""

    def __init__(self, settings: Settings, environment: Environment) -> None:
        self.retention_ms = settings.options.retention_ms
        self.clock = environment.clock
        self.shards: list[tuple[int, Shard]] = []
        with ExitStack() as undo:
            directory = DataDirectory(settings.path, environment.random)
            undo.callback(directory.close)
            wanted = settings.shape(directory.namespace(settings.namespace))
            namespaces = {each.name: each for each in directory.namespaces((wanted,))}
            self.identity = directory.identity
            self.namespace = namespaces[settings.namespace]
            options = replace(settings.options, key_sorting=self.namespace.key_sorting)
            undo.callback(self._close_shards)
            for shard_id in self.namespace.shard_ids:
                path = shard_directory(settings.path, shard_id)
                self.shards.append((shard_id, Shard.open(path, options, environment.clock, environment.faults)))
            self._release = undo.pop_all()

    def _close_shards(self) -> None:
        end_s = self.clock.monotonic_s() + FEED_AT_CLOSE_S
        for _, shard in self.shards:
            shard.close(max(0.0, end_s - self.clock.monotonic_s()))

    def close(self) -> None:
        """Lets another process have the directory; within a bounded time."""
        self._release.close()
