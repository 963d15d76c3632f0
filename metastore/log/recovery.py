"""The judgement over the end of the newest segment: what is sound, what was never finished, what was changed.

A write that was cut off leaves sectors as they were before: blank. So a frame that is not sound is *torn* if
something of it is blank that was not written blank, and if nothing behind it proves that it had been durable.
Then no reader ever saw it, nobody was told that it was written, and it is cut off. In all other cases bits
that were once on the disk have changed, and the log is *damaged*: cutting could lose what was promised.

A torn header cannot say how long its frame is. It counts as torn if a sector of it is blank, or if nothing at
all follows it (a file cut short by hand, at any byte, is judged like one cut short by a crash).
"""

from __future__ import annotations

import os
from typing import NamedTuple

from metastore.log.format import (
    ALIGNMENT_BYTES,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    SECTOR_BYTES,
    SEGMENT_HEADER_BYTES,
    FrameHeader,
    count_blank_sectors,
    decode_frame_header,
)
from metastore.log.segment import Place, Segment
from metastore.log.window import Window, read_exactly, write_exactly

PIECE_BYTES = 1024 * 1024


class End(NamedTuple):
    """Where the sound frames of a segment end; the rest is what the last of them says."""

    place: Place
    synced_end: int
    last_time_ms: int
    frame_count: int


def find_end(segment: Segment, window: Window) -> End:
    """Checks frame after frame, up to the first place where no sound one follows."""
    place = Place(segment.first_offset, SEGMENT_HEADER_BYTES)
    synced_end, last_time_ms, frame_count = place.offset, segment.header.previous_last_time_ms, 0
    for header, behind in segment.sound_frames(window, place):
        place = behind
        synced_end, last_time_ms, frame_count = header.synced_end, header.time_ms, frame_count + 1
    return End(place, synced_end, last_time_ms, frame_count)


def find_written_end(window: Window, start: int) -> int:
    """Behind the last byte that is not blank; `start` if all is blank from there on."""
    written_end = start
    for position, piece in window.pieces(start, window.end):
        if piece != bytes(len(piece)):
            written_end = position + len(piece.rstrip(b"\0"))
    return written_end


def judge_rest(segment: Segment, window: Window, place: Place, written_end: int) -> str | None:
    """None if behind the sound frames stands nothing that was ever acknowledged; else what is wrong."""
    if written_end == place.position:
        return None
    salt = segment.header.salt
    buffer, at = window.at(place.position, FRAME_HEADER_BYTES)
    header = decode_frame_header(buffer, at, salt)
    if header is not None and header.first_offset != place.offset:
        return f"offset gap: {header.first_offset} stands where {place.offset} belongs"
    witness = find_witness(window, salt, place, written_end)
    if witness is not None:
        return f"the frame of offset {place.offset} is damaged: byte {witness} shows that it had been durable"
    if header is None:
        if is_header_torn(window, place.position, written_end):
            return None
        return f"the frame header of offset {place.offset} is damaged: no sector of it is missing"
    if is_payload_torn(window, place.position, header):
        return None
    return f"the frame of offset {place.offset} fails its checksum, and no sector of it is missing"


def find_witness(window: Window, salt: int, place: Place, written_end: int) -> int | None:
    """Where a frame begins that was written after everything up to, and with, `place` had been synced."""
    overlap = FRAME_HEADER_BYTES - 1
    for start, piece in window.pieces(place.position, written_end):
        piece += read_exactly(window.fd, overlap, start + len(piece))
        at = piece.find(FRAME_MAGIC)
        while at >= 0:
            if (start + at) % ALIGNMENT_BYTES == 0:
                header = decode_frame_header(piece, at, salt)
                if header is not None and header.synced_end > place.offset:
                    return start + at
            at = piece.find(FRAME_MAGIC, at + 1)
    return None


def is_header_torn(window: Window, position: int, written_end: int) -> bool:
    """Whether a part of an unreadable frame header never reached the disk."""
    if written_end <= position + FRAME_HEADER_BYTES:
        return True
    header = window.padded(position, FRAME_HEADER_BYTES)
    boundary = SECTOR_BYTES - position % SECTOR_BYTES
    return any(part and not any(part) for part in (header[:boundary], header[boundary:]))


def is_payload_torn(window: Window, position: int, header: FrameHeader) -> bool:
    """Whether a part of a frame behind its sound header never reached the disk.

    The last byte of a frame is never written blank, and its header counts the sectors that were.
    """
    behind_header = position + FRAME_HEADER_BYTES
    rest = window.padded(behind_header, header.size_bytes - FRAME_HEADER_BYTES)
    return rest[-1] == 0 or count_blank_sectors(rest, behind_header) > header.blank_sectors


def recover_end(segment: Segment, fd: int, durable_floor: int) -> End:
    """The end of the newest segment, with everything before it durable and everything behind it blank."""
    window = Window(fd, os.fstat(fd).st_size, PIECE_BYTES)
    end = find_end(segment, window)
    written_end = find_written_end(window, end.place.position)
    reason = judge_rest(segment, window, end.place, written_end)
    if reason is None and end.place.offset < durable_floor:
        reason = f"the log ends at offset {end.place.offset}, but entries below {durable_floor} were durable"
    if reason is not None:
        raise segment.damaged(end.place.position, reason)
    blank_out(fd, end.place.position, written_end)
    write_again(fd, segment.index.floor(max(end.synced_end, segment.first_offset))[1], end.place.position)
    os.fdatasync(fd)
    return end


def blank_out(fd: int, start: int, end: int) -> None:
    """Overwrites the torn rest, so that it can never be mistaken for anything later."""
    for position in range(start, end, PIECE_BYTES):
        write_exactly(fd, bytes(min(PIECE_BYTES, end - position)), position)


def write_again(fd: int, start: int, end: int) -> None:
    """Writes the frames whose sync no later frame confirms once more, unchanged.

    If their sync failed, the kernel shows them from memory but has given up bringing them to the disk: only
    what is written anew is synced anew.
    """
    for position in range(start, end, PIECE_BYTES):
        write_exactly(fd, read_exactly(fd, min(PIECE_BYTES, end - position), position), position)
