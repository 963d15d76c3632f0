"""Between the protocol's bytes and the engine's operations. Pure functions, and hot ones.

Most puts carry a key and a value and nothing else, and most gets a short key: these are cut out of the request by
hand, at a third of the price of a parse. Whatever looks different in the least goes through protobuf. Answers are
put together from bytes that the engine stores in the form of the wire.
"""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import DecodeError

from metastore.engine.notifications import Notification, NotificationBatch
from metastore.engine.operations import Delete, Get, Put, PutOptions, WriteBatch, WriteResult
from metastore.engine.read import Found
from metastore.engine.record import HEADER_SIZE, entry_of, entry_start, parts_of, read_varint, signed_varint, varint
from metastore.pb import envelope_pb2, oxia_pb2

MESSAGE_BYTES = 2 << 20
"""Streamed answers are cut at about this size."""
MESSAGE_BYTES_MAX = 3 << 20
"""What is cut stays below this, so that clients with gRPC's default limit of 4 MiB can read it."""

_KEY_TAG, _VALUE_TAG, _INDEX_TAG = 0x0A, 0x12, 0x42
_NAME_TAG, _SECONDARY_TAG = 0x0A, 0x12
_SHARD_TAG, _GETS_TAG, _PUTS_TAG = 0x08, 0x12, 0x12
_SINGLE_BYTES_MIN = 8
_SHORT = 0x80
_INCLUDE_VALUE = b"\x10\x01"
_NO_OPTIONS = PutOptions()
_VERSION_BYTES_MAX = _SHORT - 2
_PUT_HEADS = tuple(b"\n%c\x12%c" % (size + 2, size) for size in range(_VERSION_BYTES_MAX))
"""What stands before the Version in a PutResponse that has nothing else, by the size of the Version."""
_ORDINARY = 4096
"""What is smaller is put together without counting the bytes of its lengths."""
_FOUND_HEADS = tuple(b"\n" + varint(size) for size in range(_ORDINARY))
_EMPTY_DELETE, _EMPTY_RANGE = b"\x12\x00", b"\x1a\x00"


class WireError(Exception):
    """Bytes that are not the message they should be."""


def decode_write(data: bytes) -> tuple[int | None, WriteBatch]:
    """The shard and the operations of a WriteRequest."""
    try:
        if len(data) > _SINGLE_BYTES_MIN and data[0] == _SHARD_TAG and data[1] < _SHORT and data[2] == _PUTS_TAG:
            length, start = data[3], 4
            if length >= _SHORT:
                length, start = length & 0x7F | data[4] << 7, 5
            if start + length == len(data) and data[start - 1] < _SHORT:  # one put, to the end
                return data[1], WriteBatch([_decode_put(data[start:])], [], [])
        envelope = envelope_pb2.WriteEnvelope.FromString(data)
        puts = [_decode_put(put) for put in envelope.puts]
        deletes = [_decode_delete(delete) for delete in envelope.deletes]
        ranges = [oxia_pb2.DeleteRangeRequest.FromString(each) for each in envelope.delete_ranges]
    except DecodeError as error:
        raise WireError(f"not a WriteRequest: {error}") from None
    shard = envelope.shard if envelope.HasField("shard") else None
    return shard, WriteBatch(puts, deletes, [(each.start_inclusive, each.end_exclusive) for each in ranges])


def _decode_put(data: bytes) -> Put:
    size = len(data)
    if size > 2 and data[0] == _KEY_TAG and data[1] < _SHORT:
        end = 2 + data[1]
        if end + 1 < size and data[end] == _VALUE_TAG:
            length, start = data[end + 1], end + 2
            if length >= _SHORT and start < size:
                length, start = length & 0x7F | data[start] << 7, start + 1
            rest = start + length
            if rest == size and data[start - 1] < _SHORT:
                return data[2:end], data[start:], None
            if rest < size and data[rest] == _INDEX_TAG and data[start - 1] < _SHORT:
                indexes = _cut_indexes(data, rest)
                if indexes is not None:
                    options = PutOptions(None, None, None, None, (), indexes, None, None)
                    return data[2:end], data[start:rest], options
    return _parse_put(data)


def _cut_indexes(data: bytes, position: int) -> tuple[tuple[bytes, bytes], ...] | None:
    """The index entries that a put ends with, or None unless there are only short ones from the position on."""
    indexes: list[tuple[bytes, bytes]] = []
    size = len(data)
    while position + 4 < size:
        tag, length, name_tag, name_size = data[position : position + 4]
        name_end = position + 4 + name_size
        end = position + 2 + length
        if tag != _INDEX_TAG or name_tag != _NAME_TAG or length >= _SHORT or end > size or name_end + 2 > end:
            return None
        secondary_start = name_end + 2
        if data[name_end] != _SECONDARY_TAG or secondary_start + data[name_end + 1] != end:
            return None
        indexes.append((data[position + 4 : name_end], data[secondary_start:end]))
        position = end
    return tuple(indexes) if position == size else None


def _parse_put(data: bytes) -> Put:
    return put_of(oxia_pb2.PutRequest.FromString(data))


def put_of(put: oxia_pb2.PutRequest) -> Put:
    """The put of a message."""
    has = put.HasField
    options = PutOptions(
        put.expected_version_id if has("expected_version_id") else None,
        put.session_id if has("session_id") else None,
        put.client_identity if has("client_identity") else None,
        put.partition_key if has("partition_key") else None,
        tuple(put.sequence_key_delta),
        tuple([(index.index_name, index.secondary_key) for index in put.secondary_indexes]),
        put.override_version_id if has("override_version_id") else None,
        put.override_modifications_count if has("override_modifications_count") else None,
    )
    return put.key, put.value, None if options == _NO_OPTIONS else options


def _decode_delete(data: bytes) -> Delete:
    return delete_of(oxia_pb2.DeleteRequest.FromString(data))


def delete_of(delete: oxia_pb2.DeleteRequest) -> Delete:
    """The delete of a message."""
    return delete.key, delete.expected_version_id if delete.HasField("expected_version_id") else None


def encode_write_result(result: WriteResult) -> bytes:
    """A WriteResponse."""
    parts: list[bytes] = []
    for status, version, key in result.puts:
        size = len(version)
        if status:
            parts.append(b"\n\x02\x08" + varint(status))
        elif key is None and size < _VERSION_BYTES_MAX:
            parts += (_PUT_HEADS[size], version)
        else:
            body = b"\x12" + varint(size) + version
            if key is not None:
                body += b"\x1a" + varint(len(key)) + key
            parts.append(b"\n" + varint(len(body)) + body)
    for status in result.deletes:
        parts.append(b"\x12\x02\x08" + varint(status) if status else _EMPTY_DELETE)
    return b"".join(parts) + _EMPTY_RANGE * result.delete_ranges


def decode_read(data: bytes) -> tuple[int | None, list[bytes], list[Get]]:
    """The shard and the gets of a ReadRequest; only their keys, if all gets ask for whole records by short keys."""
    size = len(data)
    if (  # a shard, and one get that reaches to the end, in which a key reaches to `include_value`
        _SINGLE_BYTES_MIN <= size < _SHORT
        and data[0] == _SHARD_TAG
        and data[1] < _SHORT
        and data[2] == _GETS_TAG
        and data[3] == size - 4
        and data[4] == _KEY_TAG
        and data[5] == size - 8
        and data.endswith(_INCLUDE_VALUE)
    ):
        return data[1], [data[6:-2]], []
    try:
        envelope = envelope_pb2.ReadEnvelope.FromString(data)
        encoded = envelope.gets
        keys = [
            get[2:-2]
            for get in encoded
            if get.endswith(_INCLUDE_VALUE) and get[0] == _KEY_TAG and get[1] == len(get) - 4 < _SHORT
        ]
        gets = [] if len(keys) == len(encoded) else [_decode_get(get) for get in encoded]
    except DecodeError as error:
        raise WireError(f"not a ReadRequest: {error}") from None
    return envelope.shard if envelope.HasField("shard") else None, [] if gets else keys, gets


def _decode_get(data: bytes) -> Get:
    size = len(data)
    if size > 1 and data[0] == _KEY_TAG and data[1] < _SHORT:
        end = 2 + data[1]
        if end == size:
            return Get(data[2:], False)
        if end + 2 == size and data[end:] == _INCLUDE_VALUE:
            return Get(data[2:end], True)
    get = oxia_pb2.GetRequest.FromString(data)
    name = get.secondary_index_name if get.HasField("secondary_index_name") else None
    return Get(get.key, get.include_value, get.comparison_type, name)


def encode_records(keys: list[bytes], records: list[bytes | None]) -> list[bytes]:
    """Entries of ReadResponse.gets: the records of these keys, with their values.

    Where the value ends in an ordinary record follows from the lengths: it need not be parsed.
    """
    answers: list[bytes] = []
    for key, record in zip(keys, records, strict=True):
        if record is None or len(record) >= _ORDINARY or len(key) >= _SHORT:
            answers.append(encode_found(Get(key), None if record is None else (record, None)))
        else:
            start = entry_start(record) if record[0] else HEADER_SIZE
            start += 2 if len(record) - start < _SHORT + 2 else 3
            body = record[start : -2 - len(key)]
            answers.append(_FOUND_HEADS[len(body)] + body)
    return answers


def encode_found(get: Get, found: Found | None) -> bytes:
    """One entry of ReadResponse.gets."""
    if found is None:
        return b"\n\x02\x08\x01"
    record, secondary_key = found
    if not get.comparison and get.index_name is None:
        body = _body_of_equal(get, record)
    else:
        version, value, key = parts_of(record)
        body = version + value + key if get.include_value else version + key
        if secondary_key is not None:
            body += b"*" + varint(len(secondary_key)) + secondary_key
    return b"\n" + varint(len(body)) + body


def _body_of_equal(get: Get, record: bytes) -> bytes:
    """A GetResponse without the key, by arithmetic on lengths instead of a parse, if the record is an ordinary one."""
    size, key_size = len(record) - HEADER_SIZE, len(get.key)
    if record[0] or key_size >= _SHORT or size > 16386:
        version, value, _ = parts_of(record)
        return version + value if get.include_value else version
    start = HEADER_SIZE + (2 if size <= 129 else 3)
    if get.include_value:
        return record[start : -2 - key_size]
    length, position = read_varint(record, start + 1)
    return record[start : position + length]


def join_records(records: Iterable[bytes]) -> list[bytes]:
    """RangeScanResponse messages with the entries of stored records."""
    return cut([record[HEADER_SIZE:] if not record[0] else entry_of(record) for record in records])


def join_keys(keys: Iterable[bytes]) -> list[bytes]:
    """ListResponse messages."""
    return cut([b"\n" + varint(len(key)) + key for key in keys])


def cut(items: list[bytes]) -> list[bytes]:
    """Joins encoded items to messages that clients can receive."""
    total = sum(map(len, items))
    if total <= MESSAGE_BYTES:
        return [b"".join(items)] if items else []
    messages: list[bytes] = []
    pending: list[bytes] = []
    size = 0
    for item in items:
        if pending and size + len(item) > MESSAGE_BYTES_MAX:
            messages.append(b"".join(pending))
            pending, size = [], 0
        pending.append(item)
        size += len(item)
        if size >= MESSAGE_BYTES:
            messages.append(b"".join(pending))
            pending, size = [], 0
    if pending:
        messages.append(b"".join(pending))
    return messages


def encode_notifications(shard_id: int, batch: NotificationBatch) -> bytes:
    """A NotificationBatch message."""
    head = oxia_pb2.NotificationBatch(shard=shard_id, offset=batch.offset, timestamp=batch.time_ms)
    return head.SerializeToString() + b"".join(map(_encode_notification, batch.notifications))


def _encode_notification(notification: Notification) -> bytes:
    key, what, version_id, range_end = notification
    body = b"\x08" + varint(what) if what else b""
    if version_id is not None:
        body += b"\x10" + signed_varint(version_id)
    if range_end is not None:
        body += b"\x1a" + varint(len(range_end)) + range_end
    entry = b"\n" + varint(len(key)) + key + b"\x12" + varint(len(body)) + body
    return b'"' + varint(len(entry)) + entry
