"""The few parts of HTTP/2 and gRPC framing that a load generator needs, as bytes in and bytes out.

Requests all have the same headers, so their header block is told once in full and then by references into
the server's table. Of the answers no header is read: a server that is told to keep no table writes equal
headers as equal bytes, so trailers are as good as those of an answer that is known to be right, or they are
not.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
REFUSED_STREAM = (7).to_bytes(4, "big")
"""With it a server resets a stream that it has done nothing of."""
DATA, HEADERS, RESET, SETTINGS, PING, GO_AWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACKNOWLEDGED = END_STREAM = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HEADER_TABLE_SIZE, CONCURRENT_STREAMS_MAX, INITIAL_WINDOW, FRAME_BYTES_MAX = 1, 3, 4, 5
DEFAULT_WINDOW = 65_535
DEFAULT_FRAME_BYTES_MAX = 16_384
WINDOW_MAX = 2**31 - 1
STREAMS_MAX = 2**31 - 1
"""Of a server that names no bound."""
FRAME_HEADER_BYTES = 9
MESSAGE_HEADER_BYTES = 5
SHORT_BYTES_MAX = 126
STATIC_TABLE_ENTRIES = 61
TABLE_ENTRIES_MAX = 40
"""So many of our short entries fit a server's table, and a reference to any is one byte."""
ADD_TO_TABLE, REFERENCE = 0x40, 0x80


class Frame(NamedTuple):
    """One frame as received."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """One frame to be sent."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def settings_frame(values: dict[int, int]) -> bytes:
    """Our settings."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", *item) for item in values.items()))


def read_settings(payload: bytes) -> dict[int, int]:
    """The other side's settings."""
    return dict(struct.iter_unpack(">HI", payload))


def window_update(stream: int, increment: int) -> bytes:
    """Allows the other side to send so many bytes more."""
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", increment))


def read_frames(data: bytes) -> tuple[list[Frame], bytes]:
    """The complete frames at the front of some bytes, and the rest."""
    frames = []
    place = 0
    while len(data) - place >= FRAME_HEADER_BYTES:
        start = place + FRAME_HEADER_BYTES
        end = start + int.from_bytes(data[place : place + 3], "big")
        if end > len(data):
            break
        kind, flags, stream = struct.unpack_from(">BBI", data, place + 3)
        frames.append(Frame(kind, flags, stream & WINDOW_MAX, data[start:end]))
        place = end
    return frames, data[place:]


def message(body: bytes) -> bytes:
    """A gRPC message, uncompressed."""
    return struct.pack(">BI", 0, len(body)) + body


def read_messages(buffer: bytearray) -> list[bytes]:
    """Takes the complete gRPC messages out of the front of a buffer."""
    messages = []
    place = 0
    while len(buffer) - place >= MESSAGE_HEADER_BYTES:
        compressed, size = struct.unpack_from(">BI", buffer, place)
        if compressed:
            raise ValueError("a compressed message, though none was offered")
        end = place + MESSAGE_HEADER_BYTES + size
        if end > len(buffer):
            break
        with memoryview(buffer) as view:
            messages.append(bytes(view[place + MESSAGE_HEADER_BYTES : end]))
        place = end
    del buffer[:place]
    return messages


def introducing_block(fields: Sequence[tuple[str, str]]) -> bytes:
    """Headers in full, each to be added to the table of the side that reads them."""
    return b"".join(bytes([ADD_TO_TABLE]) + _short_text(name) + _short_text(value) for name, value in fields)


def referring_block(count: int, later: int = 0) -> bytes:
    """The same headers once more: references to entries of the table, the oldest first; `later` came after them."""
    newest = STATIC_TABLE_ENTRIES + 1 + later
    return bytes(REFERENCE | (newest + place) for place in reversed(range(count)))


def _short_text(text: str) -> bytes:
    data = text.encode("ascii")
    assert len(data) <= SHORT_BYTES_MAX, text
    return bytes([len(data)]) + data
