"""The server's own command line, with shards so small that they feed, grow, roll and trim all the time.

python crash_small_server.py metastore ...
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest import mock

from metastore.commandline import main
from metastore.directory import Namespace, shard_directory
from metastore.engine import feeder
from metastore.engine.shard import Shard, ShardOptions
from metastore.engine.store import StoreOptions
from metastore.log import LogOptions
from metastore.server import process, serve

STORE = StoreOptions(map_bytes=128 << 10, generation_bytes=8 << 10, lag_bytes_max=64 << 10)
LOG = LogOptions(segment_bytes_max=64 << 10, step_bytes_min=8 << 10, step_bytes_max=16 << 10, reserve_bytes=16 << 10)
STEP_ENTRIES, PORTION_STEPS = 8, 2
"""So that a generation goes into LMDB by several commits."""


class SmallProcess(process.ServerProcess):
    """The real process; only the sizes of its shards are others."""

    def _open_shard(self, shard_id: int, namespace: Namespace) -> Shard:
        options = ShardOptions(
            key_sorting=namespace.key_sorting, retention_ms=self._config.retention_ms, store=STORE, log=LOG
        )
        directory = shard_directory(Path(self._config.data_dir), shard_id)
        return Shard.open(directory, options, self._clock, self._faults)


if __name__ == "__main__":
    with (
        mock.patch.object(serve, "ServerProcess", SmallProcess),
        mock.patch.object(feeder, "STEP_ENTRIES", STEP_ENTRIES),
        mock.patch.object(feeder, "PORTION_STEPS", PORTION_STEPS),
    ):
        sys.exit(main(sys.argv[1:]))
