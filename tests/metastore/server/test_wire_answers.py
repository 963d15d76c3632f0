"""Answers put together by hand are the messages that they should be, and of a size that clients can receive."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engine.notifications import Notification, NotificationBatch, NotificationType
from metastore.engine.operations import Comparison, Get, WriteResult
from metastore.engine.record import (
    HAS_EXTRAS,
    HEADER,
    Extras,
    encode_entry,
    encode_times,
    encode_version,
    pack_extras,
    pack_indexes,
)
from metastore.pb import oxia_pb2 as pb
from metastore.server import wire

BUDGET = settings(max_examples=100, deadline=None, database=None, derandomize=True)
CLIENT_RECEIVES_BYTES_MAX = 4 << 20
"""What gRPC's clients take if they are told nothing."""

SHORT = st.binary(max_size=6)
LENGTHS = st.sampled_from([0, 1, 60, 90, 100, 126, 127, 128, 16_200, 16_300, 16_383, 16_384, 20_000])
TEXT = SHORT | LENGTHS.map(lambda size: b"x" * size)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 200)
TIMES = st.integers(0, 1 << 50)

VERSIONS = st.builds(
    pb.Version,
    version_id=INT64,
    modifications_count=INT64,
    created_timestamp=TIMES,
    modified_timestamp=TIMES,
    session_id=st.none() | INT64,
    client_identity=st.none() | TEXT,
)


def encoded(version: pb.Version) -> bytes:
    return encode_version(
        version.version_id,
        version.modifications_count,
        encode_times(version.created_timestamp, version.modified_timestamp),
        version.session_id if version.HasField("session_id") else None,
        version.client_identity if version.HasField("client_identity") else None,
    )


@st.composite
def records(draw: st.DrawFn) -> tuple[pb.GetResponse, bytes]:
    """A record as a client gets it, and as it is stored."""
    version = draw(VERSIONS)
    shown = pb.GetResponse(version=version, value=draw(TEXT), key=draw(TEXT))
    entry = encode_entry(encoded(version), shown.value, shown.key)
    partition, indexes = draw(st.none() | SHORT), tuple(draw(st.lists(st.tuples(SHORT, SHORT), max_size=2)))
    has_extras = version.HasField("session_id") or partition is not None or bool(indexes)
    header = HEADER.pack(
        HAS_EXTRAS if has_extras else 0, version.version_id, version.modifications_count, version.created_timestamp
    )
    if has_extras:
        session = version.session_id if version.HasField("session_id") else None
        header += pack_extras(Extras(session, partition, pack_indexes(indexes)))
    return shown, header + entry


# ---- writes

PUT_OUTCOMES = st.one_of(
    st.integers(1, 3).map(lambda status: pb.PutResponse(status=status)),  # type: ignore[arg-type]
    st.builds(pb.PutResponse, version=VERSIONS, key=st.none() | TEXT),
)
OUTCOMES = st.builds(
    pb.WriteResponse,
    puts=st.lists(PUT_OUTCOMES, max_size=4),
    deletes=st.lists(st.builds(pb.DeleteResponse, status=st.integers(0, 2)), max_size=3),
    delete_ranges=st.lists(st.just(pb.DeleteRangeResponse()), max_size=3),
)


@BUDGET
@given(OUTCOMES)
def test_write_results(expected: pb.WriteResponse) -> None:
    result = WriteResult(
        [
            (put.status, b"" if put.status else encoded(put.version), put.key if put.HasField("key") else None)
            for put in expected.puts
        ],
        [delete.status for delete in expected.deletes],
        len(expected.delete_ranges),
    )
    assert pb.WriteResponse.FromString(wire.encode_write_result(result)) == expected


# ---- reads


@BUDGET
@given(records(), st.booleans())
def test_a_record_found_by_its_own_key(record: tuple[pb.GetResponse, bytes], include_value: bool) -> None:
    shown, stored = record
    answer = wire.encode_found(Get(shown.key, include_value), (stored, None))
    expected = pb.GetResponse(version=shown.version, value=shown.value if include_value else None)
    assert pb.ReadResponse.FromString(answer) == pb.ReadResponse(gets=[expected])


@BUDGET
@given(records(), st.booleans(), st.sampled_from(Comparison), st.none() | TEXT)
def test_a_record_found_on_the_way(
    record: tuple[pb.GetResponse, bytes], include_value: bool, comparison: Comparison, secondary: bytes | None
) -> None:
    shown, stored = record
    index_name = b"index" if secondary is not None or not comparison else None
    get = Get(b"asked for", include_value, comparison, index_name)
    expected = pb.GetResponse(
        version=shown.version,
        value=shown.value if include_value else None,
        key=shown.key,
        secondary_index_key=secondary,
    )
    answer = wire.encode_found(get, (stored, secondary))
    assert pb.ReadResponse.FromString(answer) == pb.ReadResponse(gets=[expected])


@BUDGET
@given(st.lists(st.none() | records(), min_size=1, max_size=5))
def test_whole_records(found: list[tuple[pb.GetResponse, bytes] | None]) -> None:
    keys = [b"k" if each is None else each[0].key for each in found]
    answers = wire.encode_records(keys, [None if each is None else each[1] for each in found])
    expected = [
        pb.GetResponse(status=pb.KEY_NOT_FOUND)
        if each is None
        else pb.GetResponse(version=each[0].version, value=each[0].value)
        for each in found
    ]
    assert pb.ReadResponse.FromString(b"".join(answers)) == pb.ReadResponse(gets=expected)


def test_nothing_found() -> None:
    answer = wire.encode_found(Get(b"k"), None)
    assert pb.ReadResponse.FromString(answer) == pb.ReadResponse(gets=[pb.GetResponse(status=pb.KEY_NOT_FOUND)])


@BUDGET
@given(st.lists(records(), max_size=5))
def test_scanned_records(found: list[tuple[pb.GetResponse, bytes]]) -> None:
    messages = wire.join_records([stored for _, stored in found])
    received = [each for message in messages for each in pb.RangeScanResponse.FromString(message).records]
    assert received == [shown for shown, _ in found]


@BUDGET
@given(st.lists(TEXT, max_size=5))
def test_listed_keys(keys: list[bytes]) -> None:
    messages = wire.join_keys(keys)
    assert [key for message in messages for key in pb.ListResponse.FromString(message).keys] == keys


# ---- sizes

ITEM_SIZES = st.lists(
    st.sampled_from([1, 1000, 700_000, wire.MESSAGE_BYTES - 1, wire.MESSAGE_BYTES, wire.MESSAGE_BYTES_MAX, 5 << 20]),
    max_size=8,
)


@settings(BUDGET, max_examples=60)
@given(ITEM_SIZES)
def test_answers_are_cut_to_what_clients_receive(sizes: list[int]) -> None:
    items = [bytes([place]) * size for place, size in enumerate(sizes)]
    messages = wire.cut(items)
    assert b"".join(messages) == b"".join(items)
    assert all(messages), "an empty message says nothing"
    for message in messages:
        # Only an item that is larger all by itself makes a larger message.
        assert len(message) <= wire.MESSAGE_BYTES_MAX or len(set(message)) == 1
    for message, following in pairwise(messages):
        assert len(message) >= wire.MESSAGE_BYTES or len(message) + len(following) > wire.MESSAGE_BYTES_MAX


def test_what_is_cut_fits_a_client_that_was_told_nothing() -> None:
    assert wire.MESSAGE_BYTES < wire.MESSAGE_BYTES_MAX < CLIENT_RECEIVES_BYTES_MAX
    assert wire.cut([]) == []


# ---- notifications

KINDS = {
    NotificationType.KEY_CREATED: pb.KEY_CREATED,
    NotificationType.KEY_MODIFIED: pb.KEY_MODIFIED,
    NotificationType.KEY_DELETED: pb.KEY_DELETED,
    NotificationType.KEY_RANGE_DELETED: pb.KEY_RANGE_DELETED,
}
NOTIFICATIONS = st.builds(Notification, TEXT, st.sampled_from(NotificationType), st.none() | INT64, st.none() | TEXT)


@BUDGET
@given(st.integers(0, 1 << 40), INT64, TIMES, st.lists(NOTIFICATIONS, max_size=4))
def test_notifications(shard_id: int, offset: int, time_ms: int, notifications: list[Notification]) -> None:
    data = wire.encode_notifications(shard_id, NotificationBatch(offset, time_ms, notifications))
    entries = [
        pb.NotificationEntry(
            key=each.key,
            value=pb.Notification(type=KINDS[each.type], version_id=each.version_id, key_range_last=each.range_end),
        )
        for each in notifications
    ]
    expected = pb.NotificationBatch(shard=shard_id, offset=offset, timestamp=time_ms, notifications=entries)
    assert pb.NotificationBatch.FromString(data) == expected
