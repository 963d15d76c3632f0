"""What the tests of the log share: small files, faults that can be switched, ways to look at the result."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from metastore.faults import NO_FAULTS, Faults
from metastore.log import Frame, Log, LogOptions

TIME_MS = 1_700_000_000_000


def small_options(
    segment_bytes_max: int = 1024, reserve_bytes: int = 0, step_bytes: int = 512, sync: bool = True
) -> LogOptions:
    """Segments and steps that a few entries fill, and the same salts in every run."""
    return LogOptions(
        segment_bytes_max=segment_bytes_max,
        sync=sync,
        reserve_bytes=reserve_bytes,
        step_bytes_min=step_bytes,
        step_bytes_max=4 * step_bytes,
        random_bytes=random.Random(7).randbytes,
    )


ONE_SEGMENT = small_options(segment_bytes_max=1 << 24)


class SwitchedFault(Faults):
    """Lets one point fail for as long as an error number is set, and counts how often any was reached."""

    def __init__(self, point: str = "") -> None:
        self.point = point
        self.error_number = 0
        self.reached: list[str] = []

    def reach(self, point: str) -> None:
        self.reached.append(point)
        if point == self.point and self.error_number:
            raise OSError(self.error_number, os.strerror(self.error_number))


def full_disk() -> SwitchedFault:
    """Extending files fails from the start."""
    fault = SwitchedFault("log.extend")
    fault.error_number = errno.ENOSPC
    return fault


@contextmanager
def opened(
    directory: Path,
    options: LogOptions = ONE_SEGMENT,
    faults: Faults = NO_FAULTS,
    first_offset: int = 0,
    durable_floor: int = 0,
) -> Iterator[Log]:
    log = Log.open(directory, options, faults, first_offset, durable_floor=durable_floor)
    try:
        yield log
    finally:
        log.close()


def append_synced(log: Log, *groups: Sequence[bytes]) -> None:
    for entries in groups:
        log.append(entries, TIME_MS)
        log.sync()


def all_frames(log: Log, bytes_max: int = 1 << 20) -> list[Frame]:
    """Everything that can be read, in as many reads as it takes."""
    frames: list[Frame] = []
    offset = log.first_offset
    while more := log.read(offset, bytes_max):
        frames += more
        offset = more[-1].end_offset
    assert offset == log.durable_end
    return frames


def all_entries(log: Log, bytes_max: int = 1 << 20) -> list[bytes]:
    return [entry for frame in all_frames(log, bytes_max) for entry in frame.entries]


def segment_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def only_file(directory: Path) -> Path:
    (path,) = segment_files(directory)
    return path


def numbered(first: int, count: int, size: int = 20) -> list[bytes]:
    """Entries that can be told apart; none contains a zero byte."""
    return [f"entry {number}:".encode().ljust(size, b".") for number in range(first, first + count)]
