"""One segment file as its readers see it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from metastore.log.errors import LogDamaged
from metastore.log.format import (
    FRAME_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    Frame,
    FrameHeader,
    SegmentHeader,
    decode_entries,
    decode_frame_header,
    is_sound,
)
from metastore.log.index import OffsetIndex
from metastore.log.window import Window


class Place(NamedTuple):
    """Between two frames: the offset that comes next, and where in the file."""

    offset: int
    position: int


class Segment:
    """A file's header and index. It holds no descriptor: many may be retained, and any may be deleted."""

    def __init__(self, path: Path, header: SegmentHeader) -> None:
        self.path = path
        self.header = header
        self.index = OffsetIndex(header.first_offset, SEGMENT_HEADER_BYTES)

    @property
    def first_offset(self) -> int:
        return self.header.first_offset

    def damaged(self, position: int, reason: str) -> LogDamaged:
        return LogDamaged(self.path, position, reason)

    def read(self, offset: int, end: Place, bytes_max: int) -> list[Frame]:
        """Frames from the one that holds `offset` on, none beyond `end`, at least one."""
        assert self.first_offset <= offset < end.offset
        fd = os.open(self.path, os.O_RDONLY)
        try:
            window = Window(fd, end.position)
            next_offset, position = self._find(window, offset)
            window.at(position, min(bytes_max, end.position - position))
            frames: list[Frame] = []
            while next_offset < end.offset:
                header = self._header_at(window, next_offset, position)
                size = header.size_bytes
                bytes_max -= size
                if frames and bytes_max < 0:
                    break
                frames.append(self._frame_at(window, position, header, max(offset, next_offset)))
                next_offset, position = header.end_offset, position + size
                self.index.learn(next_offset, position)
            return frames
        finally:
            os.close(fd)

    def sound_frames(self, window: Window, start: Place) -> Iterator[tuple[FrameHeader, Place]]:
        """Frame after frame from a place between two, up to the first that is not sound; each with the place behind."""
        offset, position = start
        while True:
            buffer, at = window.at(position, FRAME_HEADER_BYTES)
            header = decode_frame_header(buffer, at, self.header.salt)
            if header is None or header.first_offset != offset:
                return
            size = header.size_bytes
            if at + size > len(buffer):
                buffer, at = window.at(position, size)
            if not is_sound(buffer, at, header):
                return
            offset, position = header.end_offset, position + size
            self.index.learn(offset, position)
            yield header, Place(offset, position)

    def _find(self, window: Window, offset: int) -> tuple[int, int]:
        """The first offset and the position of the frame that holds `offset`."""
        next_offset, position = self.index.floor(offset)
        while (header := self._header_at(window, next_offset, position)).end_offset <= offset:
            next_offset, position = header.end_offset, position + header.size_bytes
            self.index.learn(next_offset, position)
        return next_offset, position

    def _header_at(self, window: Window, offset: int, position: int) -> FrameHeader:
        buffer, at = window.at(position, FRAME_HEADER_BYTES)
        header = decode_frame_header(buffer, at, self.header.salt)
        if header is None:
            raise self.damaged(position, f"the frame of offset {offset} is damaged or missing")
        if header.first_offset != offset:
            raise self.damaged(position, f"offset gap: {header.first_offset} stands where {offset} belongs")
        return header

    def _frame_at(self, window: Window, position: int, header: FrameHeader, from_offset: int) -> Frame:
        buffer, at = window.at(position, header.size_bytes)
        if not is_sound(buffer, at, header):
            raise self.damaged(position, f"the frame of offset {header.first_offset} fails its checksum")
        skip = from_offset - header.first_offset
        return Frame(from_offset, header.time_ms, decode_entries(buffer, at, header, skip))
