"""The process that owns a data directory, and does with it as it is told: `python -m support.shard_writer DIR SORTING`.

It reads commands from its standard input and answers each with a line: `put KEY VALUE`, `delete KEY`, `feed STEPS`
(LMDB catches up, by so many of its smallest steps at the most), `previous` (the log keeps what records were), `trim`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path

from metastore.clock import ManualClock
from metastore.directory import DataDirectory, NamespaceConfig, shard_directory
from metastore.engine import feeder
from metastore.engine.operations import PutOptions, WriteBatch
from metastore.engine.shard import Shard, ShardOptions
from support.local_shard import SMALL_LOG, SMALL_STORE

INDEX = b"by-value"


def main(path: Path, sorting: str) -> None:
    """Serves commands until there are no more."""
    feeder.STEP_ENTRIES, feeder.PORTION_STEPS = 2, 1
    feeder.INTERVAL_S = 3600.0
    clock = ManualClock()
    directory = DataDirectory(path)
    (namespace,) = directory.namespaces((NamespaceConfig("default", 1, sorting, True),))
    options = ShardOptions(sorting, retention_ms=1, store=SMALL_STORE, log=SMALL_LOG)
    with Shard.open(shard_directory(path, namespace.first_shard), options, clock) as shard:
        print("ready", flush=True)
        for line in sys.stdin:
            words = line.split()
            clock.advance_ms(1000)
            _do(shard, words[0], [word.encode() for word in words[1:]])
            print("done", flush=True)


def _do(shard: Shard, what: str, words: list[bytes]) -> None:
    if what == "put":
        shard.write(WriteBatch(puts=[(words[0], words[1], PutOptions(secondary_indexes=((INDEX, words[1][:1]),)))]))
    elif what == "delete":
        shard.write(WriteBatch(deletes=[(words[0], None)]))
    elif what == "previous":
        shard.rounds.between_rounds(shard.keep_previous)
    elif what == "trim":
        shard.trim_log()
    else:
        shard.feeder.feed_all(_after(int(words[0])))


def _after(steps: int) -> Callable[[], bool]:
    """Whether so many steps were taken."""
    taken = count()
    return lambda: next(taken) >= steps


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
