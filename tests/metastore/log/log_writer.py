"""A process that writes a log until it is killed, and says on its standard output what it has promised.

    python log_writer.py DIRECTORY

It prints `durable N` when all entries below N are durable, and `trimmed N` when all below N may be gone. What
an entry holds, and how many form a group, follows from the offset: so the test knows what must be there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from metastore.faults import faults_from_environment
from metastore.log import Log, LogOptions

OPTIONS = LogOptions(segment_bytes_max=3000, reserve_bytes=500, step_bytes_min=512, step_bytes_max=1024)
RETAINED = 60
ENTRIES_MAX = 100_000  # a fault that is never reached ends the process, and fails the test


def entry_at(offset: int) -> bytes:
    """Of every size, now and then larger than a sector or a page, here and there blank."""
    size = (offset * 7919) % 97 + (5000 if offset % 41 == 40 else 700 if offset % 11 == 10 else 0)
    return f"{offset}:".encode() + (b"\0" if offset % 3 == 0 else b"=") * size


def group_size_at(offset: int) -> int:
    return 1 + offset % 5


def group_at(offset: int) -> list[bytes]:
    return [entry_at(number) for number in range(offset, offset + group_size_at(offset))]


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def main() -> None:
    log = Log.open(Path(sys.argv[1]), OPTIONS, faults_from_environment(os.environ))
    while log.next_offset < ENTRIES_MAX:
        offset = log.next_offset
        log.append(group_at(offset), offset)
        if offset % 4:
            log.sync()
            say(f"durable {log.next_offset}")
        if offset % 3 == 0 and offset > RETAINED:
            keep = offset - RETAINED
            say(f"trimmed {keep}")
            log.trim(keep, offset)


if __name__ == "__main__":
    main()
