"""A look at a log without opening it: nothing is repaired, created or cut."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from metastore.log.directory import chain_fault, list_directory, load_segment
from metastore.log.errors import LogDamaged
from metastore.log.format import Frame
from metastore.log.recovery import find_end, find_written_end, judge_rest
from metastore.log.segment import Place, Segment
from metastore.log.window import Window

INSPECTION_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class SegmentReport:
    """What one file holds. `problem` says why `open`, or a read, would refuse it."""

    path: Path
    size_bytes: int
    problem: str | None
    segment: Segment | None = None
    end_offset: int = 0
    written_bytes: int = 0  # up to the end of the last sound frame
    frame_count: int = 0
    last_time_ms: int = 0
    torn_bytes: int = 0  # what the next opening would cut off

    @property
    def first_offset(self) -> int:
        return self.segment.first_offset if self.segment is not None else 0

    def frames(self) -> Iterator[Frame]:
        """Its sound frames."""
        offset, end = self.first_offset, Place(self.end_offset, self.written_bytes)
        while self.segment is not None and offset < end.offset:
            for frame in self.segment.read(offset, end, INSPECTION_PIECE_BYTES):
                yield frame
                offset = frame.end_offset


def inspect(directory: Path) -> Iterator[SegmentReport]:
    """A report for every file that belongs, or claims to belong, to the log in `directory`; oldest first."""
    paths, _unfinished, foreign = list_directory(directory)
    for path in foreign:
        yield SegmentReport(path, path.stat().st_size, "a foreign file in the directory of a log")
    loaded = [_load(path) for path in paths]
    for number, item in enumerate(loaded):
        if isinstance(item, LogDamaged):
            yield SegmentReport(item.path, item.path.stat().st_size, str(item))
        else:
            yield _examine(item, loaded[number + 1 :])


def _load(path: Path) -> Segment | LogDamaged:
    try:
        return load_segment(path)
    except LogDamaged as damage:
        return damage


def _examine(segment: Segment, later: Sequence[Segment | LogDamaged]) -> SegmentReport:
    fd = os.open(segment.path, os.O_RDONLY)
    try:
        size = os.fstat(fd).st_size
        window = Window(fd, size, INSPECTION_PIECE_BYTES)
        end = find_end(segment, window)
        torn_bytes = 0
        if later:
            problem = _chain_problem(segment, end.place, later[0])
        else:
            written_end = find_written_end(window, end.place.position)
            problem = judge_rest(segment, window, end.place, written_end)
            torn_bytes = written_end - end.place.position if problem is None else 0
    finally:
        os.close(fd)
    if problem is not None:
        problem = str(segment.damaged(end.place.position, problem))
    return SegmentReport(
        segment.path,
        size,
        problem,
        segment,
        end_offset=end.place.offset,
        written_bytes=end.place.position,
        frame_count=end.frame_count,
        last_time_ms=end.last_time_ms,
        torn_bytes=torn_bytes,
    )


def _chain_problem(segment: Segment, end: Place, successor: Segment | LogDamaged) -> str | None:
    """Whether an older segment goes on where the next one begins."""
    if isinstance(successor, LogDamaged):
        return None
    fault = chain_fault(segment, successor)
    if fault is not None:
        return str(fault)
    if end != Place(successor.first_offset, successor.header.previous_end_position):
        return f"the frame of offset {end.offset} is damaged or missing"
    return None
