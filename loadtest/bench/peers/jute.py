"""The few parts of ZooKeeper's protocol that a load generator needs, as bytes in and bytes out.

A request is its kind and its fields; the client puts length and number in front of it. Numbers are big-endian,
texts and buffers have their length before them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

CREATE, GET, SET, CHILDREN, MULTI, MULTI_READ, ADD_WATCH = 1, 4, 5, 8, 14, 22, 106
EVENT_NUMBER = -1
PERSISTENT_RECURSIVE = 1
ANY_VERSION = -1
ALL_PERMISSIONS = 31
STAT_BYTES = 68
"""What ZooKeeper tells of a node beside its value."""
PASSWORD_BYTES = 16
CONNECTED = struct.pack(">i", 4 + 4 + 8 + 4 + PASSWORD_BYTES + 1)
"""What the answer to a wish for a session begins with: its length."""
MULTI_END = struct.pack(">i?i", -1, True, -1)
EVERYBODY = struct.pack(">ii", 1, ALL_PERMISSIONS)


class Reply(NamedTuple):
    """One frame from the server."""

    number: int
    error: int
    body: bytes


def text(value: bytes) -> bytes:
    """A text or a buffer."""
    return struct.pack(">i", len(value)) + value


def connect_request(timeout_ms: int) -> bytes:
    """Asks for a new session; the answer has no reply's header."""
    return struct.pack(">iqiq", 0, 0, timeout_ms, 0) + text(bytes(PASSWORD_BYTES)) + b"\0"


def session_of(answer: bytes) -> int:
    """The id of the session that was made; 0 if none was."""
    _protocol, _timeout_ms, session = struct.unpack_from(">iiq", answer)
    return int(session)


def create_fields(path: bytes, value: bytes) -> bytes:
    """A lasting node that everybody may use."""
    everybody = EVERYBODY + text(b"world") + text(b"anyone")
    return text(path) + text(value) + everybody + struct.pack(">i", 0)


def set_fields(path: bytes, value: bytes) -> bytes:
    """Overwrites a node, whatever its version."""
    return text(path) + text(value) + struct.pack(">i", ANY_VERSION)


def read_fields(path: bytes) -> bytes:
    """Of a node or its children, without a watch."""
    return text(path) + b"\0"


def watch_fields(path: bytes) -> bytes:
    """A watch that stays, of a node and all below it."""
    return text(path) + struct.pack(">i", PERSISTENT_RECURSIVE)


def request(kind: int, fields: bytes) -> bytes:
    """One request."""
    return struct.pack(">i", kind) + fields


def multi_request(kind: int, each_kind: int, fields: Sequence[bytes]) -> bytes:
    """Several operations of one kind as one request."""
    header = struct.pack(">i?i", each_kind, False, -1)
    return request(kind, b"".join(header + each for each in fields) + MULTI_END)


def framed(body: bytes) -> bytes:
    """With its length."""
    return struct.pack(">i", len(body)) + body


def numbered(number: int, asked: bytes) -> bytes:
    """A request as it is sent."""
    return struct.pack(">ii", len(asked) + 4, number) + asked


def read_frames(buffer: bytearray) -> list[bytes]:
    """Takes the complete frames out of the front of a buffer."""
    frames = []
    place = 0
    while len(buffer) - place >= 4:
        (size,) = struct.unpack_from(">i", buffer, place)
        end = place + 4 + size
        if end > len(buffer):
            break
        frames.append(bytes(buffer[place + 4 : end]))
        place = end
    del buffer[:place]
    return frames


def reply_of(frame: bytes) -> Reply:
    """A reply or an event."""
    number, _zxid, error = struct.unpack_from(">iqi", frame)
    return Reply(number, error, frame[16:])


def value_of(body: bytes) -> bytes:
    """The value in the reply to a read."""
    (size,) = struct.unpack_from(">i", body)
    return body[4 : 4 + max(size, 0)]


def names_of(body: bytes) -> list[bytes]:
    """The names in the reply to a question for children."""
    (count,) = struct.unpack_from(">i", body)
    names, place = [], 4
    for _ in range(count):
        (size,) = struct.unpack_from(">i", body, place)
        names.append(body[place + 4 : place + 4 + size])
        place += 4 + size
    return names


def results_of(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Of several operations: the kind of each, -1 for an error, and a read's value."""
    place = 0
    while True:
        kind, is_end, _error = struct.unpack_from(">i?i", body, place)
        place += 9
        if is_end:
            return
        (size,) = struct.unpack_from(">i", body, place)
        if kind == SET:
            yield kind, b""
            place += STAT_BYTES
        elif kind == -1:
            yield kind, b""
            place += 4
        else:
            # A create tells the path, a read the value and what else there is to tell of the node.
            yield kind, body[place + 4 : place + 4 + size]
            place += 4 + size + (STAT_BYTES if kind == GET else 0)
