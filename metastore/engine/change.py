"""A log entry: the effects of one write request, in the order in which they took place.

    format u8 | time ms i64 | last version id i64                  the head
    kind u8 | key length u32 | value length u32 | key | value      each change

Effects are absolute (this key now has this value, or none), so that replaying them needs no logic and does no harm
when some of them were applied before. `RANGE_DELETED` changes no key: it records that a range was deleted, for the
subscribers; the keys that went are told by silent deletes beside it.

The last three kinds change nothing either. They stand before the change of a record, for those who watch: what the
record was before (while that is kept, see `previous`), or merely that it was there, or was not. The latter two are
written where the next change does not show it: a new record's first put has no modifications, unless its client says
how many it has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

FORMAT = 1
HEAD = struct.Struct("<Bqq")
CHANGE = struct.Struct("<BII")


class Kind(IntEnum):
    """What happened to a key. The numbers are on disk."""

    RECORD_PUT = 1
    RECORD_DELETED = 2
    RECORD_DELETED_SILENTLY = 3
    RANGE_DELETED = 4
    INDEX_PUT = 5
    INDEX_DELETED = 6
    SESSION_PUT = 7
    SESSION_DELETED = 8
    SHADOW_PUT = 9
    SHADOW_DELETED = 10
    RECORD_BEFORE = 11
    RECORD_EXISTED = 12
    RECORD_NEW = 13


class Table(IntEnum):
    """The ordered maps of a shard; the number is the place in a generation."""

    RECORDS = 0
    INDEXES = 1
    SESSIONS = 2
    SHADOWS = 3


PUT_INTO: dict[int, Table] = {
    Kind.RECORD_PUT: Table.RECORDS,
    Kind.INDEX_PUT: Table.INDEXES,
    Kind.SESSION_PUT: Table.SESSIONS,
    Kind.SHADOW_PUT: Table.SHADOWS,
}
DELETED_FROM: dict[int, Table] = {
    Kind.RECORD_DELETED: Table.RECORDS,
    Kind.RECORD_DELETED_SILENTLY: Table.RECORDS,
    Kind.INDEX_DELETED: Table.INDEXES,
    Kind.SESSION_DELETED: Table.SESSIONS,
    Kind.SHADOW_DELETED: Table.SHADOWS,
}


class Entry(NamedTuple):
    """A decoded log entry."""

    time_ms: int
    last_version_id: int
    changes: Iterator[tuple[int, bytes, bytes]]
    """(kind, key, value), each read from the entry as it is asked for."""


class EntryDamaged(Exception):
    """A log entry whose checksum holds says something that this code never wrote."""


def decode(payload: bytes) -> Entry:
    """Reads a log entry."""
    if len(payload) < HEAD.size:
        raise EntryDamaged(f"a log entry of {len(payload)} bytes has no head")
    form, time_ms, last_version_id = HEAD.unpack_from(payload)
    if form != FORMAT:
        raise EntryDamaged(f"a log entry has format {form}; this version reads format {FORMAT}")
    return Entry(time_ms, last_version_id, _changes(payload))


def _changes(payload: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    position, end = HEAD.size, len(payload)
    unpack, size = CHANGE.unpack_from, CHANGE.size
    while position < end:
        kind, key_length, value_length = unpack(payload, position)
        key_start = position + size
        value_start = key_start + key_length
        position = value_start + value_length
        if position > end:
            raise EntryDamaged(f"a change of kind {kind} overruns its log entry")
        yield kind, payload[key_start:value_start], payload[value_start:position]
