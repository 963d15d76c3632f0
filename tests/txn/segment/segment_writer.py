"""A process that appends to a segment's log until it is killed, and says what was confirmed to it.

    python segment_writer.py PLACE TERM      (TIDEMARK_FAULT may say where it is to kill itself)

The place is a directory for local logs, or the URL of a store. It prints `opened`, then `ack GROUP FIRST` for each
group that is confirmed, and `trim POSITION` before it trims. With `hold` behind all that, it only holds the log.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from metastore.faults import NO_FAULTS, Faults, faults_from_environment
from metastore.interface import open_store
from metastore.log import LogOptions
from txn.model.position import Position
from txn.segment.log import LocalLogOptions, LocalLogs, SegmentLog, SegmentLogs, StoredLogOptions, StoredLogs

SEGMENT = "segment://killed"
FILES = LogOptions(segment_bytes_max=4_000, step_bytes_min=1_024, step_bytes_max=2_048, reserve_bytes=0)
WRITERS = 4
TRIM_GROUPS = 16
"""It trims after so many groups, and keeps half as many."""


@asynccontextmanager
async def logs_at(place: str, faults: Faults = NO_FAULTS) -> AsyncIterator[SegmentLogs]:
    """The logs in that place, with files or records that are small."""
    if "://" not in place:
        yield LocalLogs(Path(place), options=LocalLogOptions(FILES), faults=faults)
        return
    async with await open_store(place) as store:
        yield StoredLogs(store, options=StoredLogOptions(chunk_bytes_max=500), faults=faults)


def group_entries(term: int, group: int) -> list[bytes]:
    """The entries of a group: each names its group, its place in it, and how many there are."""
    count = 1 + group % 4
    return [b"%d %d %d %d %s" % (term, group, place, count, b"x" * (group % 300)) for place in range(count)]


def say(*words: object) -> None:
    """A line at once: a thread may kill the process at any instant."""
    os.write(sys.stdout.fileno(), f"{' '.join(map(str, words))}\n".encode())


async def write(log: SegmentLog, numbers: list[int]) -> None:
    """One of several writers: each group has a number of its own."""
    while True:
        group = numbers[0] = numbers[0] + 1
        first = await log.append(group_entries(log.term, group))
        say("ack", group, first)
        if group % TRIM_GROUPS == 0 and first.entry > 10 * TRIM_GROUPS // 4:
            before = Position(log.term, first.entry - 10 * TRIM_GROUPS // 8)
            say("trim", before)
            await log.trim(before)


async def main() -> None:
    async with logs_at(sys.argv[1], faults_from_environment(os.environ)) as logs:
        await use(await logs.open(SEGMENT, int(sys.argv[2])))


async def use(log: SegmentLog) -> None:
    say("opened")
    if "hold" in sys.argv:
        await log.wait_appended(None)
    numbers = [0]
    await asyncio.gather(*[write(log, numbers) for _ in range(WRITERS)])


if __name__ == "__main__":
    asyncio.run(main())
