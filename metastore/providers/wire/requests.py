"""Requests made of arguments. The hot ones are written by hand, at a third of the price of building messages."""

from __future__ import annotations

from collections.abc import Sequence

from metastore.engine.record import signed_varint, varint
from metastore.interface.values import Comparison, Index, Range
from metastore.pb import oxia_pb2 as pb
from metastore.pb import tidemark_pb2
from metastore.providers.wire.protocol import to_wire

_SHORT = 0x80

COMPARISONS = {
    Comparison.EQUAL: pb.EQUAL,
    Comparison.FLOOR: pb.FLOOR,
    Comparison.CEILING: pb.CEILING,
    Comparison.LOWER: pb.LOWER,
    Comparison.HIGHER: pb.HIGHER,
}


def put_body(
    key: str,
    value: bytes,
    expected: int | None,
    session: tuple[int, str] | None,
    partition_key: str | None,
    sequence_deltas: Sequence[int],
    indexes: Sequence[Index],
) -> bytes:
    """A PutRequest; `session` is an id on the shard, and an identity."""
    body = b"\x0a" + _sized(to_wire(key)) + b"\x12" + _sized(value)
    if expected is not None:
        body += b"\x18" + signed_varint(expected)
    if session is not None:
        session_id, identity = session
        body += b"\x20" + signed_varint(session_id) + b"\x2a" + _sized(to_wire(identity))
    if partition_key is not None:
        body += b"\x32" + _sized(to_wire(partition_key))
    if sequence_deltas:
        body += b"\x3a" + _sized(b"".join(map(varint, sequence_deltas)))
    for name, secondary_key in indexes:
        entry = b"\x0a" + _sized(to_wire(name)) + b"\x12" + _sized(to_wire(secondary_key))
        body += b"\x42" + _sized(entry)
    return body


def delete_body(key: str, expected: int | None, partition_key: str | None) -> bytes:
    """A DeleteRequest."""
    body = b"\x0a" + _sized(to_wire(key))
    if expected is not None:
        body += b"\x10" + signed_varint(expected)
    if partition_key is not None:
        body += b"\x1a" + _sized(to_wire(partition_key))
    return body


def put_entry(body: bytes) -> bytes:
    """An entry of WriteRequest.puts."""
    return b"\x12" + _sized(body)


def delete_entry(body: bytes) -> bytes:
    """An entry of WriteRequest.deletes."""
    return b"\x1a" + _sized(body)


def delete_range_entry(range: Range) -> bytes:
    """An entry of WriteRequest.delete_ranges."""
    return b"\x22" + _sized(b"\x0a" + _sized(to_wire(range.start)) + b"\x12" + _sized(to_wire(range.end)))


def get_entry(key: str, comparison: Comparison, index: str | None, include_value: bool) -> bytes:
    """An entry of ReadRequest.gets."""
    body = b"\x0a" + _sized(to_wire(key))
    if include_value:
        body += b"\x10\x01"
    if comparison is not Comparison.EQUAL:
        body += b"\x18" + varint(COMPARISONS[comparison])
    if index is not None:
        body += b"\x22" + _sized(to_wire(index))
    return b"\x12" + _sized(body)


def list_request(shard_id: int, range: Range) -> bytes:
    """A ListRequest, or a RangeScanRequest, which looks the same."""
    return pb.ListRequest(
        shard=shard_id,
        start_inclusive=to_wire(range.start),
        end_exclusive=to_wire(range.end),
    ).SerializeToString()


def index_scan_request(shard_id: int, range: Range, index: str, keys_only: bool) -> bytes:
    """An IndexScanRequest."""
    return tidemark_pb2.IndexScanRequest(
        shard=shard_id,
        index_name=to_wire(index),
        start_inclusive=to_wire(range.start),
        end_exclusive=to_wire(range.end),
        keys_only=keys_only,
    ).SerializeToString()


def _sized(data: bytes) -> bytes:
    """Behind its length."""
    size = len(data)
    return b"%c%b" % (size, data) if size < _SHORT else varint(size) + data
