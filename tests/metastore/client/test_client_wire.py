"""Requests made of arguments, and results made of answers: no server needed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.client import answers, wire
from metastore.client.errors import InvalidRequest, KeyNotFound, ServerFailure, SessionLost, UnexpectedVersion
from metastore.client.values import ABSENT, Comparison, NotificationKind, Version
from metastore.pb import oxia_pb2 as pb


@given(st.binary(max_size=20))
def test_any_key_survives_the_way_to_text_and_back(raw: bytes) -> None:
    assert wire.to_wire(wire.from_wire(raw)) == raw


@given(st.text(max_size=20))
def test_any_proper_text_survives_the_wire(text: str) -> None:
    assert wire.from_wire(wire.to_wire(text)) == text
    assert wire.to_wire(text) == text.encode()


def test_text_without_a_form_in_utf8_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="surrogates"):
        wire.to_wire("a\ud800b")


def test_a_plain_put_sets_nothing_but_key_and_value() -> None:
    put = wire.put_request("k", b"v")
    assert [field.name for field, _ in put.ListFields()] == ["key", "value"]


def test_a_put_carries_every_option() -> None:
    put = wire.put_request(
        "k",
        b"v",
        expected_version=0,
        partition_key="",
        secondary_indexes=[("i", "1"), ("i", "2")],
        identity="",
    )
    assert put == pb.PutRequest(
        key=b"k",
        value=b"v",
        expected_version_id=0,
        partition_key=b"",
        client_identity=b"",
        secondary_indexes=[
            pb.SecondaryIndex(index_name=b"i", secondary_key=b"1"),
            pb.SecondaryIndex(index_name=b"i", secondary_key=b"2"),
        ],
    )
    sequence = wire.put_request("k", b"v", partition_key="p", sequence_deltas=[1, 0, 2**64 - 1])
    assert list(sequence.sequence_key_delta) == [1, 0, 2**64 - 1]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"sequence_deltas": [1]}, "needs a partition key"),
        ({"sequence_deltas": [1], "partition_key": "p", "expected_version": 1}, "cannot expect a version"),
        ({"sequence_deltas": [0, 1], "partition_key": "p"}, "the first sequence delta is 0"),
        ({"sequence_deltas": [1, -1], "partition_key": "p"}, "sequence delta -1 is out of range"),
        ({"sequence_deltas": [1, 2**64], "partition_key": "p"}, "is out of range"),
        ({"expected_version": 2**63}, "expected version 9223372036854775808 is out of range"),
    ],
)
def test_a_put_that_makes_no_sense_is_refused(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint) as refusal:
        wire.put_request("some-key", b"v", **options)
    assert "'some-key'" in str(refusal.value)


def test_a_delete_with_an_impossible_version_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="out of range"):
        wire.delete_request("k", -(2**63) - 1, None)


@pytest.mark.parametrize("comparison", Comparison)
def test_comparisons_have_the_numbers_of_the_protocol(comparison: Comparison) -> None:
    get = wire.get_request("k", comparison, None, include_value=True)
    assert get.comparison_type == pb.KeyComparisonType.Value(comparison.name)
    assert not get.HasField("secondary_index_name")


def test_the_empty_index_name_is_an_index() -> None:
    assert wire.get_request("k", Comparison.EQUAL, "", include_value=True).HasField("secondary_index_name")
    assert wire.KeyRange("a", "b", "").list_request(0).HasField("secondary_index_name")
    assert not wire.KeyRange("a", "b").scan_request(0).HasField("secondary_index_name")


def test_a_range_of_an_index_needs_an_end() -> None:
    with pytest.raises(InvalidRequest, match=r"of index 'i'.*without an end"):
        wire.KeyRange("a", "", "i")
    assert wire.KeyRange("a", "").end == ""


def test_versions_tell_absent_from_empty() -> None:
    plain = answers.version_of(pb.Version(version_id=1, modifications_count=2, created_timestamp=3))
    assert plain == Version(1, 2, 3, 0, None, None)
    assert not plain.ephemeral
    held = answers.version_of(pb.Version(session_id=0, client_identity=b""))
    assert (held.session_id, held.client_identity, held.ephemeral) == (0, "", True)


def put_answer(**fields: Any) -> pb.WriteResponse:
    return pb.WriteResponse(puts=[pb.PutResponse(**fields)])


def test_the_outcomes_of_a_put() -> None:
    stored = put_answer(version=pb.Version(version_id=4), key=b"k-1")
    assert answers.put_result(stored, "k", None, None).key == "k-1"
    assert answers.put_result(put_answer(), "k", None, None).key == "k"
    with pytest.raises(UnexpectedVersion, match="version is not 3") as other:
        answers.put_result(put_answer(status=pb.UNEXPECTED_VERSION_ID), "k", 3, None)
    assert (other.value.key, other.value.expected_version) == ("k", 3)
    with pytest.raises(UnexpectedVersion, match="the key exists"):
        answers.put_result(put_answer(status=pb.UNEXPECTED_VERSION_ID), "k", ABSENT, None)
    with pytest.raises(SessionLost, match="session 9"):
        answers.put_result(put_answer(status=pb.SESSION_DOES_NOT_EXIST), "k", None, 9)


def test_the_outcomes_of_a_delete() -> None:
    def outcome(status: pb.Status.ValueType) -> pb.WriteResponse:
        return pb.WriteResponse(deletes=[pb.DeleteResponse(status=status)])

    answers.check_delete(outcome(pb.OK), "k", None)
    with pytest.raises(KeyNotFound, match="'k'") as missing:
        answers.check_delete(outcome(pb.KEY_NOT_FOUND), "k", None)
    assert missing.value.key == "k"
    with pytest.raises(UnexpectedVersion):
        answers.check_delete(outcome(pb.UNEXPECTED_VERSION_ID), "k", 1)


def test_answers_that_the_protocol_does_not_allow_are_failures_of_the_server() -> None:
    unknown: Any = 77
    with pytest.raises(ServerFailure, match="0 answers"):
        answers.put_result(pb.WriteResponse(), "k", None, None)
    with pytest.raises(ServerFailure, match="status 77"):
        answers.put_result(put_answer(status=unknown), "k", None, None)
    with pytest.raises(ServerFailure, match="0 answers"):
        answers.check_delete(pb.WriteResponse(), "k", None)
    with pytest.raises(ServerFailure, match="status 77"):
        answers.check_delete(pb.WriteResponse(deletes=[pb.DeleteResponse(status=unknown)]), "k", None)
    with pytest.raises(ServerFailure, match="statuses"):
        answers.check_delete_range(pb.WriteResponse(), "a", "b")
    with pytest.raises(ServerFailure, match="0 answers"):
        answers.got_record([], "k", include_value=True)
    with pytest.raises(ServerFailure, match="status 77"):
        answers.got_record([pb.ReadResponse(gets=[pb.GetResponse(status=unknown)])], "k", include_value=True)
    batch = pb.NotificationBatch(
        offset=5, notifications=[pb.NotificationEntry(value=pb.Notification(type=unknown))]
    )
    with pytest.raises(ServerFailure, match="offset 5"):
        answers.notification_batch(batch)


def test_a_get_may_be_answered_in_any_message_of_the_stream() -> None:
    found = answers.got_record(
        [pb.ReadResponse(), pb.ReadResponse(gets=[pb.GetResponse(version=pb.Version(version_id=1))])],
        "k",
        include_value=True,
    )
    assert found is not None
    assert (found.key, found.value, found.version.version_id) == ("k", b"", 1)
    missing = [pb.ReadResponse(gets=[pb.GetResponse(status=pb.KEY_NOT_FOUND)])]
    assert answers.got_record(missing, "k", include_value=True) is None


def test_what_a_get_did_not_find_is_told_in_its_words() -> None:
    def text(comparison: Comparison, index: str | None) -> str:
        return str(answers.nothing_found("k", comparison, index))

    assert text(Comparison.EQUAL, None).startswith("get 'k': no such key: ")
    assert text(Comparison.HIGHER, "town").startswith("get 'k': no key after it in index 'town': ")


def test_index_entries_without_a_record_are_not_scanned() -> None:
    message = pb.RangeScanResponse(
        records=[
            pb.GetResponse(status=pb.KEY_NOT_FOUND, key=b"gone"),
            pb.GetResponse(key=b"here", value=b"v"),
        ]
    )
    assert [record.key for record in answers.scanned_records(message)] == ["here"]


def test_notifications_of_every_kind() -> None:
    entries = [
        pb.NotificationEntry(key=b"a", value=pb.Notification(type=pb.KEY_CREATED, version_id=0)),
        pb.NotificationEntry(key=b"b", value=pb.Notification(type=pb.KEY_MODIFIED, version_id=1)),
        pb.NotificationEntry(key=b"c", value=pb.Notification(type=pb.KEY_DELETED)),
        pb.NotificationEntry(key=b"d", value=pb.Notification(type=pb.KEY_RANGE_DELETED, key_range_last=b"")),
    ]
    batch = answers.notification_batch(
        pb.NotificationBatch(shard=2, offset=5, timestamp=7, notifications=entries)
    )
    assert (batch.shard_id, batch.offset, batch.timestamp_ms) == (2, 5, 7)
    assert [
        (change.kind, change.key, change.version_id, change.range_end) for change in batch.notifications
    ] == [
        (NotificationKind.CREATED, "a", 0, None),
        (NotificationKind.MODIFIED, "b", 1, None),
        (NotificationKind.DELETED, "c", None, None),
        (NotificationKind.RANGE_DELETED, "d", None, ""),
    ]
