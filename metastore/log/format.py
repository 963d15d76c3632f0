"""The bytes of a segment file: a header, frames, and zeros up to the end of the prepared space.

    segment  = header (48 bytes), frame*, zeros
    frame    = header (40 bytes), payload, trailer (8 bytes); starts at a multiple of 8
    payload  = entry length (u32) per entry, entries, zeros up to a multiple of 8

All integers are little-endian. Three things in it are there for the judgement over a torn tail (`recovery`):

- checksums are seeded with a random salt, one per segment, so that no entry can contain what looks like a
  frame, by accident or by intent;
- a frame's header says how many 512-byte sectors of its payload are blank by nature, and its trailer ends in
  a byte that is never zero: so what never reached the disk can be told from what was zero anyway;
- it says how many entries before it were not yet synced when it was written: all older ones were durable.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

FORMAT_VERSION = 1
ALIGNMENT_BYTES = 8
SECTOR_BYTES = 512  # no disk writes less than this at once
FRAME_BYTES_MAX = 1 << 30
TIME_MS_MAX = (1 << 64) - 1

SEGMENT_MAGIC = b"TmLs"
FRAME_MAGIC = b"\xd7TmF"
TRAILER_MAGIC = b"End\xa5"
assert TRAILER_MAGIC[-1].bit_count() > 1, "one flipped bit must not make the last byte of a frame blank"

_SEGMENT_PREFIX = struct.Struct("<4sI")  # magic, checksum of the fields
_SEGMENT_FIELDS = struct.Struct("<IIQQQQ")
_FRAME_FIELDS = struct.Struct("<4sIQQIII")
_CHECKSUM = struct.Struct("<I")
_FRAME_HEADER = struct.Struct("<4sIQQIIII")  # the fields and their checksum
_TRAILER = struct.Struct("<I4s")  # checksum of the payload, magic
SEGMENT_HEADER_BYTES = _SEGMENT_PREFIX.size + _SEGMENT_FIELDS.size
FRAME_HEADER_BYTES = _FRAME_HEADER.size
TRAILER_BYTES = _TRAILER.size
FRAME_OVERHEAD_BYTES = FRAME_HEADER_BYTES + TRAILER_BYTES
LENGTH_BYTES = 4
SALT_BYTES = 4

_BLANK_SECTOR = bytes(SECTOR_BYTES)
_PADDING = tuple(bytes(count) for count in range(ALIGNMENT_BYTES))
assert SEGMENT_HEADER_BYTES % ALIGNMENT_BYTES == FRAME_OVERHEAD_BYTES % ALIGNMENT_BYTES == 0


class SegmentHeader(NamedTuple):
    """How a segment file begins: what it holds, and how its predecessor ended (zeros if there was none)."""

    salt: int
    first_offset: int
    previous_first_offset: int = 0
    previous_end_position: int = 0
    previous_last_time_ms: int = 0


class FrameHeader(NamedTuple):
    """How a frame begins. `checksum` covers the header, and seeds the payload's."""

    payload_bytes: int
    first_offset: int
    time_ms: int
    unsynced_count: int
    blank_sectors: int
    entry_count: int
    checksum: int

    @property
    def size_bytes(self) -> int:
        return FRAME_OVERHEAD_BYTES + self.payload_bytes

    @property
    def end_offset(self) -> int:
        return self.first_offset + self.entry_count

    @property
    def synced_end(self) -> int:
        """Entries below this offset were durable when the frame was written."""
        return self.first_offset - self.unsynced_count


class Frame(NamedTuple):
    """A group of entries that were written as one, or the rest of it from the offset asked for."""

    first_offset: int
    time_ms: int
    entries: list[bytes]

    @property
    def end_offset(self) -> int:
        return self.first_offset + len(self.entries)


def encode_segment_header(header: SegmentHeader) -> bytes:
    """The first bytes of a segment file."""
    fields = _SEGMENT_FIELDS.pack(FORMAT_VERSION, *header)
    return _SEGMENT_PREFIX.pack(SEGMENT_MAGIC, zlib.crc32(fields)) + fields


def decode_segment_header(data: bytes) -> SegmentHeader:
    """The header at the start of `data`; ValueError says what is wrong with it.

    A later format may change what follows the version, but not that these bytes are checksummed like this:
    so a newer file and a damaged one are never mistaken for each other.
    """
    if len(data) < SEGMENT_HEADER_BYTES:
        raise ValueError(f"the segment header is cut short: {len(data)} of {SEGMENT_HEADER_BYTES} bytes")
    magic, checksum = _SEGMENT_PREFIX.unpack_from(data)
    if magic != SEGMENT_MAGIC:
        raise ValueError("this is not a segment of a log")
    if checksum != zlib.crc32(data[_SEGMENT_PREFIX.size : SEGMENT_HEADER_BYTES]):
        raise ValueError("the segment header fails its checksum")
    version, *fields = _SEGMENT_FIELDS.unpack_from(data, _SEGMENT_PREFIX.size)
    if version != FORMAT_VERSION:
        raise ValueError(f"format version {version} is newer than this program's, which is {FORMAT_VERSION}")
    return SegmentHeader(*fields)


def encode_payload(entries: Sequence[bytes]) -> bytes:
    """The middle of a frame. ValueError if it holds nothing or too much."""
    count = len(entries)
    if count == 0:
        raise ValueError("a frame holds at least one entry")
    lengths = list(map(len, entries))
    used = LENGTH_BYTES * count + sum(lengths)
    if used > FRAME_BYTES_MAX - FRAME_OVERHEAD_BYTES - ALIGNMENT_BYTES:
        raise ValueError(f"{count} entries of {used} bytes exceed the {FRAME_BYTES_MAX} bytes of one frame")
    return b"".join((struct.pack(f"<{count}I", *lengths), *entries, _PADDING[-used % ALIGNMENT_BYTES]))


def encode_frame_ends(
    payload: bytes,
    position: int,
    first_offset: int,
    entry_count: int,
    time_ms: int,
    synced_end: int,
    salt: int,
) -> tuple[bytes, bytes]:
    """Header and trailer for a payload whose frame starts at `position` of its file."""
    unsynced_count = first_offset - synced_end
    blank_sectors = count_blank_sectors(payload, position + FRAME_HEADER_BYTES)
    fields = _FRAME_FIELDS.pack(
        FRAME_MAGIC, len(payload), first_offset, time_ms, unsynced_count, blank_sectors, entry_count
    )
    checksum = zlib.crc32(fields, salt)
    return fields + _CHECKSUM.pack(checksum), _TRAILER.pack(zlib.crc32(payload, checksum), TRAILER_MAGIC)


def decode_frame_header(buffer: bytes, at: int, salt: int) -> FrameHeader | None:
    """The frame header at `buffer[at:]`, or None if none is there that was written for this segment."""
    if len(buffer) - at < FRAME_HEADER_BYTES:
        return None
    fields = _FRAME_HEADER.unpack_from(buffer, at)
    if fields[0] != FRAME_MAGIC or fields[-1] != zlib.crc32(buffer[at : at + _FRAME_FIELDS.size], salt):
        return None
    return FrameHeader._make(fields[1:])


def is_sound(buffer: bytes, at: int, header: FrameHeader) -> bool:
    """Whether payload and trailer behind the header at `buffer[at:]` are as they were written."""
    start = at + FRAME_HEADER_BYTES
    end = start + header.payload_bytes
    if len(buffer) < end + TRAILER_BYTES:
        return False
    payload = memoryview(buffer)[start:end]
    return _TRAILER.unpack_from(buffer, end) == (zlib.crc32(payload, header.checksum), TRAILER_MAGIC)


def decode_entries(buffer: bytes, at: int, header: FrameHeader, skip: int = 0) -> list[bytes]:
    """The entries of the sound frame at `buffer[at:]`, without the first `skip`."""
    start = at + FRAME_HEADER_BYTES
    lengths = struct.unpack_from(f"<{header.entry_count}I", buffer, start)
    bounds = list(accumulate(lengths, initial=start + LENGTH_BYTES * header.entry_count))
    assert 0 <= start + header.payload_bytes - bounds[-1] < ALIGNMENT_BYTES, "lengths belie the payload"
    return [buffer[start:end] for start, end in pairwise(bounds[skip:])]


def count_blank_sectors(data: bytes, position: int) -> int:
    """How many whole sectors of the file are blank in `data`, which stands at `position` of it."""
    if _BLANK_SECTOR not in data:
        return 0
    whole = range(-position % SECTOR_BYTES, len(data) - SECTOR_BYTES + 1, SECTOR_BYTES)
    return sum(data[start : start + SECTOR_BYTES] == _BLANK_SECTOR for start in whole)
