"""The newest segment as the appender sees it: a write position, and blank space prepared behind it.

Overwriting blocks that exist costs an `fdatasync` far less than growing a file does, and it cannot run out of
space. So space is claimed ahead, in steps, and only claiming it can fail. At all times, if the disk allows,
`reserve_bytes` more than asked for are prepared: they are what is left to `from_reserve` appends when the
disk is full. An OSError for want of space leaves things as they were.
"""

from __future__ import annotations

import os
from pathlib import Path

from metastore.faults import Faults
from metastore.files import unfinished_path
from metastore.log.errors import is_no_space
from metastore.log.format import SEGMENT_HEADER_BYTES, SegmentHeader, encode_segment_header
from metastore.log.options import LogOptions
from metastore.log.segment import Segment
from metastore.log.window import write_exactly

_BLANK = bytes(1024 * 1024)


class Tail:
    """One open file. The next frame goes to `position`; blank space reaches up to `prepared_end`."""

    def __init__(
        self, segment: Segment, fd: int, position: int, options: LogOptions, faults: Faults, step_bytes: int
    ) -> None:
        self.segment = segment
        self.fd = fd
        self.position = position
        self.prepared_end = os.fstat(fd).st_size
        self.step_bytes = step_bytes
        self.is_open = True
        self._options = options
        self._faults = faults

    @classmethod
    def create(
        cls,
        path: Path,
        header: SegmentHeader,
        room_bytes: int,
        options: LogOptions,
        faults: Faults,
        step_bytes: int,
    ) -> Tail:
        """A new segment with room for `room_bytes`; its directory is yet to be synced."""
        unfinished = unfinished_path(path)
        fd = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            write_exactly(fd, encode_segment_header(header), 0)
            tail = cls(Segment(path, header), fd, SEGMENT_HEADER_BYTES, options, faults, step_bytes)
            tail.prepare(room_bytes)
            os.fsync(fd)
            unfinished.rename(path)
        except BaseException:
            os.close(fd)
            unfinished.unlink()
            raise
        return tail

    @property
    def holds_frames(self) -> bool:
        return self.position > SEGMENT_HEADER_BYTES

    @property
    def free_bytes(self) -> int:
        """What is prepared, reserve included."""
        return self.prepared_end - self.position

    def prepare(self, room_bytes: int) -> None:
        """Sees to it that `room_bytes` and the reserve fit behind the position."""
        reserve = self._options.reserve_bytes
        needed = self.position + room_bytes + reserve
        if needed <= self.prepared_end:
            return
        step_end = min(self.prepared_end + self.step_bytes, self._options.segment_bytes_max + reserve)
        try:
            self._fill(max(needed, step_end))
        except OSError as error:
            # Near the brim a long stride is tried in vain; a short one may do.
            self.step_bytes = self._options.step_bytes_min
            if not is_no_space(error) or needed >= step_end:
                raise
            self._fill(needed)
        else:
            self.step_bytes = min(2 * self.step_bytes, self._options.step_bytes_max)

    def prepare_if_possible(self) -> None:
        """Restores the reserve if the disk allows; without it reads and what space is left go on."""
        try:
            self.prepare(0)
        except OSError as error:
            if not is_no_space(error):
                raise

    def _fill(self, end: int) -> None:
        try:
            self._faults.reach("log.extend")
            for start in range(self.prepared_end, end, len(_BLANK)):
                write_exactly(self.fd, _BLANK[: end - start], start)
        except OSError:
            os.ftruncate(self.fd, self.prepared_end)
            raise
        self.prepared_end = end

    def write(self, header: bytes, payload: bytes, trailer: bytes) -> None:
        """Puts a frame at the position: into prepared space, in one call."""
        size = len(header) + len(payload) + len(trailer)
        assert size <= self.free_bytes, "no room was made for this frame"
        written = os.pwritev(self.fd, (header, payload, trailer), self.position)
        if written < size:
            write_exactly(self.fd, b"".join((header, payload, trailer))[written:], self.position + written)
        self.position += size

    def sync(self) -> None:
        os.fdatasync(self.fd)

    def give_back(self) -> None:
        """Cuts the space off that no frame will need any more."""
        os.ftruncate(self.fd, self.position)
        self.prepared_end = self.position

    def close(self) -> None:
        self.is_open = False
        os.close(self.fd)
