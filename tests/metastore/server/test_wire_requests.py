"""Requests cut by hand mean what protobuf reads in them, whatever bytes a client sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engine.operations import Get, PutOptions, WriteBatch
from metastore.engine.record import varint
from metastore.pb import oxia_pb2 as pb
from metastore.server import wire

BUDGET = settings(max_examples=120, deadline=None, database=None, derandomize=True)

# Lengths on both sides of where a varint gets another byte.
SHORT = st.binary(max_size=6)
LENGTHS = st.sampled_from([0, 1, 126, 127, 128, 129, 16_383, 16_384, 16_390])
TEXT = SHORT | st.builds(lambda size, seed: (seed * size)[:size], LENGTHS, st.binary(min_size=1, max_size=2))
INT64 = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 2)

UNKNOWN_FIELDS = (
    b"\xf8\x06\x01",  # number 111, a varint
    b"\xfa\x06\x03abc",  # number 111, bytes
    b"\xfd\x06abcd",  # number 111, fixed32
    b"\xf9\x06abcdefgh",  # number 111, fixed64
)


def sometimes(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


INDEXES = st.builds(pb.SecondaryIndex, index_name=SHORT, secondary_key=SHORT)
PLAIN_PUTS = st.builds(pb.PutRequest, key=TEXT, value=TEXT)
INDEXED_PUTS = st.builds(
    pb.PutRequest,
    key=TEXT,
    value=TEXT,
    secondary_indexes=st.lists(
        INDEXES | st.builds(pb.SecondaryIndex, index_name=TEXT, secondary_key=TEXT), min_size=1, max_size=3
    ),
)
RICH_PUTS = st.builds(
    pb.PutRequest,
    key=TEXT,
    value=TEXT,
    expected_version_id=sometimes(INT64),
    session_id=sometimes(INT64),
    client_identity=sometimes(SHORT),
    partition_key=sometimes(SHORT),
    sequence_key_delta=st.lists(st.integers(0, (1 << 64) - 1), max_size=3),
    secondary_indexes=st.lists(INDEXES, max_size=3),
    override_version_id=sometimes(INT64),
    override_modifications_count=sometimes(INT64),
)
DELETES = st.builds(pb.DeleteRequest, key=TEXT, expected_version_id=sometimes(INT64), partition_key=sometimes(SHORT))
RANGES = st.builds(pb.DeleteRangeRequest, start_inclusive=TEXT, end_exclusive=TEXT)
GETS = st.builds(
    pb.GetRequest,
    key=TEXT,
    include_value=st.booleans(),
    comparison_type=st.integers(-1, 7) | st.just(0),
    secondary_index_name=sometimes(SHORT),
)


def fields_of(message: Any) -> list[bytes]:
    """The fields of a serialized message, each for itself."""
    data, fields, position = message.SerializeToString(), [], 0
    while position < len(data):
        start = position
        tag, position = number_at(data, position)
        if tag & 7 == 2:
            length, position = number_at(data, position)
            position += length
        else:
            assert tag & 7 == 0, "the requests have no other kinds of fields"
            _, position = number_at(data, position)
        fields.append(data[start:position])
    return fields


def number_at(data: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[position]
        number |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return number, position


def disordered(draw: st.DrawFn, message: Any) -> bytes:
    """A serialized message as its writer may also write it: other orders, unknown and repeated fields."""
    fields = fields_of(message)
    if draw(st.booleans()):
        extra = draw(st.lists(st.sampled_from([*UNKNOWN_FIELDS, *fields]), max_size=2))
        fields = draw(st.permutations([*fields, *extra]))
    return b"".join(fields)


def framed(number: int, body: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(body)) + body


@st.composite
def requests(draw: st.DrawFn, kinds: Sequence[tuple[int, st.SearchStrategy[Any]]]) -> bytes:
    """A request with a shard and some operations, each kind at its number."""
    parts = [
        framed(number, disordered(draw, message))
        for number, messages in kinds
        for message in draw(st.lists(messages, max_size=3))
    ]
    if draw(st.booleans()):
        parts.insert(0, pb.ReadRequest(shard=draw(INT64)).SerializeToString())
    if draw(st.booleans()):
        parts = draw(st.permutations([*parts, draw(st.sampled_from(UNKNOWN_FIELDS))]))
    return b"".join(parts)


SINGLE_PUTS = st.builds(
    lambda shard, put: pb.WriteRequest(shard=shard, puts=[put]).SerializeToString(),
    st.integers(0, 300),
    PLAIN_PUTS | INDEXED_PUTS | RICH_PUTS,
)
"""What many requests are."""
WRITES = requests([(2, PLAIN_PUTS | INDEXED_PUTS | RICH_PUTS), (3, DELETES), (4, RANGES)]) | SINGLE_PUTS
PLAIN_GETS = st.builds(pb.GetRequest, key=TEXT, include_value=st.just(True))
SINGLE_GETS = st.builds(
    lambda shard, get: pb.ReadRequest(shard=shard, gets=[get]).SerializeToString(), st.integers(0, 300), PLAIN_GETS
)
"""What most requests are."""
READS = requests([(2, GETS)]) | requests([(2, PLAIN_GETS)]) | SINGLE_GETS


def meaning_of_write(data: bytes) -> tuple[int | None, WriteBatch]:
    """What protobuf reads in a WriteRequest."""
    request = pb.WriteRequest.FromString(data)
    puts = []
    for put in request.puts:
        options = PutOptions(
            expected_version_id=optional(put, "expected_version_id"),
            session_id=optional(put, "session_id"),
            client_identity=optional(put, "client_identity"),
            partition_key=optional(put, "partition_key"),
            sequence_key_deltas=tuple(put.sequence_key_delta),
            secondary_indexes=tuple((each.index_name, each.secondary_key) for each in put.secondary_indexes),
            override_version_id=optional(put, "override_version_id"),
            override_modifications_count=optional(put, "override_modifications_count"),
        )
        puts.append((put.key, put.value, None if options == PutOptions() else options))
    deletes = [(each.key, optional(each, "expected_version_id")) for each in request.deletes]
    ranges = [(each.start_inclusive, each.end_exclusive) for each in request.delete_ranges]
    return optional(request, "shard"), WriteBatch(puts, deletes, ranges)


def meaning_of_read(data: bytes) -> tuple[int | None, list[Get]]:
    """What protobuf reads in a ReadRequest."""
    request = pb.ReadRequest.FromString(data)
    gets = [
        Get(each.key, each.include_value, each.comparison_type, optional(each, "secondary_index_name"))
        for each in request.gets
    ]
    return optional(request, "shard"), gets


def decoded_read(data: bytes) -> tuple[int | None, list[Get]]:
    """What the server reads in a ReadRequest: bare keys stand for gets of whole records."""
    shard, keys, gets = wire.decode_read(data)
    assert not (keys and gets)
    return shard, [Get(key) for key in keys] or gets


def optional(message: Any, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


@BUDGET
@given(WRITES)
def test_a_write_means_what_protobuf_reads(data: bytes) -> None:
    assert wire.decode_write(data) == meaning_of_write(data)


@BUDGET
@given(READS)
def test_a_read_means_what_protobuf_reads(data: bytes) -> None:
    assert decoded_read(data) == meaning_of_read(data)


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """A request of which a few bytes have changed, or whose end is missing."""
    data = bytearray(draw(whole))
    for _ in range(draw(st.integers(1, 3))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


@BUDGET
@given(damaged(WRITES) | st.binary(max_size=30))
def test_a_damaged_write_is_refused_where_protobuf_refuses_it(data: bytes) -> None:
    try:
        meaning = meaning_of_write(data)
    except DecodeError:
        with pytest.raises(wire.WireError, match="not a WriteRequest"):
            wire.decode_write(data)
    else:
        assert wire.decode_write(data) == meaning


@BUDGET
@given(damaged(READS) | st.binary(max_size=30))
def test_a_damaged_read_is_refused_where_protobuf_refuses_it(data: bytes) -> None:
    try:
        meaning = meaning_of_read(data)
    except DecodeError:
        with pytest.raises(wire.WireError, match="not a ReadRequest"):
            wire.decode_read(data)
    else:
        assert decoded_read(data) == meaning
