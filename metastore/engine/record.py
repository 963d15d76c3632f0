"""A stored record: a small header for the engine, then the bytes that clients get.

The greatest part of a read is copying bytes, so a record is stored as it goes over the wire. Its layout:

    flags u8 | version id i64 | modifications i64 | created ms i64      the header, little endian
    length u32 | extras                                                 only if flags has HAS_EXTRAS
    0x0a, length, {version 0x12, value 0x1a, key 0x22}                  one entry of RangeScanResponse.records

A range scan joins the last parts of its records; a get cuts the frame off in front and the key off behind.
The extras hold what the engine needs to undo a record: its session, its partition key, its index entries.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct("<Bqqq")
HEADER_SIZE = HEADER.size
CREATED_START = HEADER_SIZE - 8
"""Where a record's header has the time of its creation, in the form that the wire has too."""
HAS_EXTRAS = 1
_HEADER_START = struct.Struct("<Bqq")
_LENGTH = struct.Struct("<I")
LENGTH_BYTES = _LENGTH.size
"""Of the extras, in front of them."""
_EXTRAS_START = struct.Struct("<IqI")
_INDEX_HEAD = struct.Struct("<II")
_ONE_INDEX_HEAD = struct.Struct("<IqIII")
_FIXED64 = struct.Struct("<Q")

_UINT64 = (1 << 64) - 1
_TWO_BYTES = 1 << 14
_SMALL = tuple(bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(_TWO_BYTES))
_CONTINUED = tuple(bytes((n & 127 | 128, n >> 7 | 128)) for n in range(_TWO_BYTES))

_ORDINARY = 4096
"""Records that are smaller, and were overwritten less often, are joined from tables of tags with numbers."""
_ENTRY_OVERHEAD_MAX = 64
"""Of a record without an identity: its Version, tags and lengths."""
_ENTRY_HEADS = tuple(b"\n%b\x12" % size for size in _SMALL[:_ORDINARY])
_VALUE_HEADS = tuple(b"\x1a" + size for size in _SMALL[:_ORDINARY])
_KEY_HEADS = tuple(b'"' + size for size in _SMALL[:_ORDINARY])
_MODIFICATIONS = (b"\x19", *(b"\x10%b\x19" % number for number in _SMALL[1:_ORDINARY]))
"""Field 2 of a Version, absent if it is 0, and the tag of field 3."""


def varint(number: int) -> bytes:
    """The wire form of a number that is not negative."""
    if number < _TWO_BYTES:
        return _SMALL[number]
    return _CONTINUED[number & 0x3FFF] + varint(number >> 14)


def signed_varint(number: int) -> bytes:
    """The wire form of an int64, which may be negative."""
    return varint(number if number >= 0 else number & _UINT64)


class Extras(NamedTuple):
    """What a record has beside its value."""

    session_id: int | None
    partition_key: bytes | None
    indexes: bytes
    """The index entries as `pack_indexes` made them."""


NO_EXTRAS = Extras(None, None, b"")


def pack_indexes(indexes: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """One byte string for the (index name, secondary key) pairs, duplicates dropped, their order kept."""
    if len(indexes) == 1:
        name, secondary = indexes[0]
        return _INDEX_HEAD.pack(len(name), len(secondary)) + name + secondary
    parts: list[bytes] = []
    for name, secondary in dict.fromkeys(indexes):
        parts += (_INDEX_HEAD.pack(len(name), len(secondary)), name, secondary)
    return b"".join(parts)


def unpack_indexes(packed: bytes) -> dict[tuple[bytes, bytes], None]:
    """The (index name, secondary key) pairs, in their order."""
    pairs: dict[tuple[bytes, bytes], None] = {}
    position, end = 0, len(packed)
    while position < end:
        name_length, secondary_length = _INDEX_HEAD.unpack_from(packed, position)
        name_end = position + _INDEX_HEAD.size + name_length
        start, position = position + _INDEX_HEAD.size, name_end + secondary_length
        pairs[packed[start:name_end], packed[name_end:position]] = None
    assert position == end, "index entries overrun their record"
    return pairs


def pack_extras(extras: Extras) -> bytes:
    """The bytes between the header and the entry, their length included."""
    partition = extras.partition_key
    size = 0 if partition is None else len(partition) + 1
    body = (partition or b"") + extras.indexes
    body_size = _EXTRAS_START.size - _LENGTH.size + len(body)
    return _EXTRAS_START.pack(body_size, extras.session_id or 0, size) + body


def pack_index_extras(indexes: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """What `pack_extras` makes of a record that has index entries and nothing else."""
    if len(indexes) != 1:
        return pack_extras(Extras(None, None, pack_indexes(indexes)))
    name, secondary = indexes[0]
    name_size, secondary_size = len(name), len(secondary)
    body_size = _ONE_INDEX_HEAD.size - _LENGTH.size + name_size + secondary_size
    return _ONE_INDEX_HEAD.pack(body_size, 0, 0, name_size, secondary_size) + name + secondary


def extras_of(record: bytes) -> Extras:
    """The extras of a stored record."""
    return unpack_extras(record, HEADER_SIZE) if record[0] & HAS_EXTRAS else NO_EXTRAS


def unpack_extras(data: bytes, position: int = 0) -> Extras:
    """What `pack_extras` packed, at a position of the data."""
    length, session_id, size = _EXTRAS_START.unpack_from(data, position)
    end = position + _LENGTH.size + length
    position += _EXTRAS_START.size
    if not size:
        return Extras(session_id or None, None, data[position:end])
    after_partition = position + size - 1
    return Extras(session_id or None, data[position:after_partition], data[after_partition:end])


def fixed64(number: int) -> bytes:
    """A time as records and Versions have it, without a tag."""
    return _FIXED64.pack(number)


def encode_times(created_ms: int, modified_ms: int) -> bytes:
    """Fields 3 and 4 of a Version."""
    return b"\x19" + _FIXED64.pack(created_ms) + b"!" + _FIXED64.pack(modified_ms)


def encode_version(
    version_id: int, modifications: int, times: bytes, session_id: int | None, identity: bytes | None
) -> bytes:
    """A Version message; `times` as `encode_times` made them."""
    head = b"\x08" + signed_varint(version_id) if version_id else b""
    if modifications:
        head += b"\x10" + signed_varint(modifications)
    if session_id is not None:
        times += b"(" + signed_varint(session_id)
    if identity is not None:
        times += b"2" + varint(len(identity)) + identity
    return head + times


def encode_entry(version: bytes, value: bytes, key: bytes) -> bytes:
    """An entry of RangeScanResponse.records."""
    body = b"\x12%b%b\x1a%b%b\"%b%b" % (
        varint(len(version)), version, varint(len(value)), value, varint(len(key)), key,
    )  # fmt: skip
    return b"\n" + varint(len(body)) + body


def encode_record(
    version_id: int, modifications: int, created: bytes, modified: bytes, packed: bytes, value: bytes, key: bytes
) -> tuple[bytes, bytes]:
    """The Version and the whole record of a put without session and identity; the times as `fixed64` made them.

    Nearly all puts come by here, so the ordinary ones are a join of what is at hand.
    """
    value_size, key_size = len(value), len(key)
    is_small = value_size + key_size < _ORDINARY - _ENTRY_OVERHEAD_MAX
    if not (is_small and version_id >= _TWO_BYTES and 0 <= modifications < _ORDINARY):
        version = encode_version(version_id, modifications, b"\x19%b!%b" % (created, modified), None, None)
        start = _HEADER_START.pack(HAS_EXTRAS if packed else 0, version_id, modifications)
        return version, b"".join((start, created, packed, encode_entry(version, value, key)))
    version = b"".join((
        b"\x08", _CONTINUED[version_id & 0x3FFF], varint(version_id >> 14),
        _MODIFICATIONS[modifications], created, b"!", modified,
    ))  # fmt: skip
    version_size = len(version)
    value_head, key_head = _VALUE_HEADS[value_size], _KEY_HEADS[key_size]
    size = 2 + version_size + len(value_head) + value_size + len(key_head) + key_size
    record = b"".join((
        _HEADER_START.pack(HAS_EXTRAS if packed else 0, version_id, modifications), created, packed,
        _ENTRY_HEADS[size], _SMALL[version_size], version, value_head, value, key_head, key,
    ))  # fmt: skip
    return version, record


def entry_start(record: bytes) -> int:
    """Where a stored record's entry of RangeScanResponse.records begins."""
    if record[0]:
        return HEADER_SIZE + _LENGTH.size + _LENGTH.unpack_from(record, HEADER_SIZE)[0]  # type: ignore[no-any-return]
    return HEADER_SIZE


def entry_of(record: bytes) -> bytes:
    """A stored record's entry of RangeScanResponse.records."""
    return record[entry_start(record) :]


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at a position, and the position behind it."""
    number = shift = 0
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, position
        shift += 7


class RecordParts(NamedTuple):
    """The parts of an entry, each with its tag and length, as they stand in a GetResponse."""

    version: bytes
    value: bytes
    key: bytes


def parts_of(record: bytes) -> RecordParts:
    """Cuts a stored record's entry into its parts."""
    entry = entry_of(record)
    _, start = read_varint(entry, 1)
    length, position = read_varint(entry, start + 1)
    value_start = position + length
    length, position = read_varint(entry, value_start + 1)
    key_start = position + length
    return RecordParts(entry[start:value_start], entry[value_start:key_start], entry[key_start:])


def version_of(record: bytes) -> bytes:
    """The Version message of a stored record."""
    part = parts_of(record).version
    _, position = read_varint(part, 1)
    return part[position:]


def value_of(record: bytes) -> bytes:
    """The value of a stored record."""
    part = parts_of(record).value
    _, position = read_varint(part, 1)
    return part[position:]


def key_of(record: bytes) -> bytes:
    """The key of a stored record, as its client wrote it."""
    part = parts_of(record).key
    _, position = read_varint(part, 1)
    return part[position:]


def version_id_of(record: bytes) -> int:
    """The version id of a stored record."""
    return HEADER.unpack_from(record)[1]  # type: ignore[no-any-return]


def modifications_of(record: bytes) -> int:
    """How often a stored record was overwritten."""
    return HEADER.unpack_from(record)[2]  # type: ignore[no-any-return]
