"""A sliding view of a file: walking over many small frames costs few reads."""

from __future__ import annotations

import os
from collections.abc import Iterator

WINDOW_BYTES = 64 * 1024


class Window:
    """Reads a file up to `end` in pieces of `piece_bytes`, or as large as what is asked for."""

    def __init__(self, fd: int, end: int, piece_bytes: int = WINDOW_BYTES) -> None:
        self.end = end
        self.fd = fd
        self._piece_bytes = piece_bytes
        self._buffer = b""
        self._start = 0

    def at(self, position: int, length: int) -> tuple[bytes, int]:
        """A buffer, and where in it `position` is; `length` bytes follow unless the file ends before."""
        at = position - self._start
        if at < 0 or at + length > len(self._buffer):
            wanted = min(max(length, self._piece_bytes), self.end - position)
            self._buffer = read_exactly(self.fd, wanted, position) if wanted > 0 else b""
            self._start = position
            at = 0
        return self._buffer, at

    def padded(self, position: int, length: int) -> bytes:
        """Exactly `length` bytes; behind the end of the file everything is blank."""
        buffer, at = self.at(position, length)
        return buffer[at : at + length].ljust(length, b"\0")

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """The bytes from `start` to `end` with their positions, one piece after the other."""
        for position in range(start, end, self._piece_bytes):
            yield position, read_exactly(self.fd, min(self._piece_bytes, end - position), position)


def read_exactly(fd: int, length: int, position: int) -> bytes:
    """`length` bytes from `position`, fewer only if the file ends before."""
    data = os.pread(fd, length, position)
    if len(data) == length or not data:
        return data
    parts = [data]
    missing = length - len(data)
    while missing and (data := os.pread(fd, missing, position + length - missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


def write_exactly(fd: int, data: bytes, position: int) -> None:
    """All of `data` at `position`: the kernel may take it in several bites."""
    written = os.pwrite(fd, data, position)
    while written < len(data):
        written += os.pwrite(fd, memoryview(data)[written:], position + written)
