"""A log that another process writes, read from outside: nothing is opened for writing, repaired or cut.

What is returned is durable: the follower syncs the file before it believes in its end. A frame that is half there is
not seen until it is whole; should it have been torn, it never was.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from metastore.log.directory import list_directory, load_segment
from metastore.log.errors import LogTrimmed
from metastore.log.format import SEGMENT_HEADER_BYTES, Frame
from metastore.log.segment import Place, Segment
from metastore.log.window import Window

PIECE_BYTES = 1 << 20


class LogPlace(NamedTuple):
    """An offset, and where it is to be found: in the file that begins with `segment`, at `position`."""

    segment: int
    offset: int
    position: int


class LogFollower:
    """Looks at the log in a directory. Not for several threads at a time."""

    def __init__(self, directory: Path, known: LogPlace | None = None) -> None:
        """`known` is an end that was found before, by this or another process: from there on it goes faster."""
        self._directory = directory
        self._known = known
        self._segments: dict[int, Segment] = {}

    def end(self) -> LogPlace:
        """The end of what is durable now."""
        segments = self._list()
        newest = segments[-1]
        start = self._known
        if start is None or start.segment != newest.first_offset:
            start = LogPlace(newest.first_offset, newest.first_offset, SEGMENT_HEADER_BYTES)
        fd = os.open(newest.path, os.O_RDONLY)
        try:
            place = _walk(newest, fd, start)
            os.fdatasync(fd)
        finally:
            os.close(fd)
        self._known = place
        return place

    @property
    def first_offset(self) -> int:
        """The oldest offset that is retained."""
        return self._list()[0].first_offset

    def read(self, offset: int, end: LogPlace, bytes_max: int = PIECE_BYTES) -> list[Frame]:
        """Frames from an offset on, about so many bytes, up to an end that was found; LogTrimmed if they are gone."""
        if offset >= end.offset:
            return []
        segments = self._list()
        if offset < segments[0].first_offset:
            raise LogTrimmed(offset, segments[0].first_offset)
        number = max(number for number, each in enumerate(segments) if each.first_offset <= offset)
        segment = segments[number]
        if segment.first_offset == end.segment:
            stop = Place(end.offset, end.position)
        else:
            header = segments[number + 1].header
            stop = Place(header.first_offset, header.previous_end_position)
        if self._known is not None and self._known.segment == segment.first_offset and self._known.offset <= offset:
            segment.index.learn(self._known.offset, self._known.position)
        try:
            frames = segment.read(offset, stop, bytes_max)
        except FileNotFoundError:
            raise LogTrimmed(offset, self.first_offset) from None
        return [_cut(frame, end.offset) for frame in frames if frame.first_offset < end.offset]

    def _list(self) -> list[Segment]:
        paths, _, _ = list_directory(self._directory)
        segments: dict[int, Segment] = {}
        for path in paths:
            first_offset = int(path.stem)
            try:
                segments[first_offset] = self._segments.get(first_offset) or load_segment(path)
            except FileNotFoundError:
                continue  # trimmed meanwhile
        if not segments:
            raise FileNotFoundError(f"there is no log in {self._directory}")
        self._segments = segments
        return [segments[each] for each in sorted(segments)]


def _walk(segment: Segment, fd: int, start: LogPlace) -> LogPlace:
    """The end of the frames that are whole, from a frame's place on."""
    window = Window(fd, os.fstat(fd).st_size, PIECE_BYTES)
    end = Place(start.offset, start.position)
    for _, behind in segment.sound_frames(window, end):
        end = behind
    return LogPlace(segment.first_offset, end.offset, end.position)


def _cut(frame: Frame, end: int) -> Frame:
    """A frame without what lies beyond an end."""
    return frame if frame.end_offset <= end else frame._replace(entries=frame.entries[: end - frame.first_offset])
