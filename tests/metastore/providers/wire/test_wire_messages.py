"""Requests written by hand are those that protobuf would write, as far as a reader can tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.interface.errors import InvalidRequest, SessionLost, StoreFailed, UnexpectedVersion
from metastore.interface.values import ABSENT, Comparison, Delete, Operation, Put, Range, Version
from metastore.pb import oxia_pb2 as pb
from metastore.pb import tidemark_pb2
from metastore.providers.wire import answers, requests
from metastore.providers.wire.protocol import from_wire, to_wire
from metastore.providers.wire.transactions import transact_request, transact_result

keys = st.text(st.characters(codec="utf-8"), max_size=200)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(
    keys,
    st.binary(max_size=300),
    st.none() | int64,
    st.none() | st.tuples(int64, keys),
    st.none() | keys,
    st.lists(st.integers(0, (1 << 64) - 1), max_size=4),
    st.lists(st.tuples(keys, keys), max_size=3),
)
def test_puts(
    key: str,
    value: bytes,
    expected: int | None,
    session: tuple[int, str] | None,
    partition_key: str | None,
    deltas: list[int],
    indexes: list[tuple[str, str]],
) -> None:
    body = requests.put_body(key, value, expected, session, partition_key, deltas, indexes)
    request = pb.WriteRequest.FromString(requests.put_entry(body))
    assert request == pb.WriteRequest(
        puts=[
            pb.PutRequest(
                key=key.encode(),
                value=value,
                expected_version_id=expected,
                session_id=session[0] if session else None,
                client_identity=session[1].encode() if session else None,
                partition_key=None if partition_key is None else partition_key.encode(),
                sequence_key_delta=deltas,
                secondary_indexes=[
                    pb.SecondaryIndex(index_name=name.encode(), secondary_key=secondary.encode())
                    for name, secondary in indexes
                ],
            )
        ]
    )


@given(keys, st.none() | int64, st.none() | keys)
def test_deletes(key: str, expected: int | None, partition_key: str | None) -> None:
    entry = requests.delete_entry(requests.delete_body(key, expected, partition_key))
    delete = pb.DeleteRequest(
        key=key.encode(),
        expected_version_id=expected,
        partition_key=None if partition_key is None else partition_key.encode(),
    )
    assert pb.WriteRequest.FromString(entry) == pb.WriteRequest(deletes=[delete])


@given(keys, keys)
def test_deletes_of_ranges(start: str, end: str) -> None:
    request = pb.WriteRequest.FromString(requests.delete_range_entry(Range(start, end)))
    expected = pb.DeleteRangeRequest(start_inclusive=start.encode(), end_exclusive=end.encode())
    assert request == pb.WriteRequest(delete_ranges=[expected])


@given(keys, st.sampled_from(Comparison), st.none() | keys, st.booleans())
def test_gets(key: str, comparison: Comparison, index: str | None, include_value: bool) -> None:
    request = pb.ReadRequest.FromString(requests.get_entry(key, comparison, index, include_value))
    assert request == pb.ReadRequest(
        gets=[
            pb.GetRequest(
                key=key.encode(),
                include_value=include_value,
                comparison_type=requests.COMPARISONS[comparison],
                secondary_index_name=None if index is None else index.encode(),
            )
        ]
    )


@given(st.binary(max_size=30))
def test_every_key_has_a_form_for_callers(raw: bytes) -> None:
    assert to_wire(from_wire(raw)) == raw


def test_half_a_character_has_no_form_on_the_wire() -> None:
    with pytest.raises(InvalidRequest, match="surrogates"):
        to_wire("\ud800")


def test_versions_say_whose_they_are() -> None:
    persistent = pb.Version(version_id=3, modifications_count=1, created_timestamp=5, modified_timestamp=7)
    assert answers.version_of(persistent) == Version(3, 1, 5, 7)
    ephemeral = pb.Version(version_id=3, session_id=0, client_identity=b"me")
    assert answers.version_of(ephemeral) == Version(3, 0, 0, 0, 0, "me")


def test_each_status_of_a_put_has_its_error() -> None:
    stored = pb.PutResponse(version=pb.Version(version_id=9), key=b"s-1")
    assert answers.put_result(stored, "s", None).key == "s-1"
    with pytest.raises(UnexpectedVersion, match="expected not to"):
        answers.put_result(pb.PutResponse(status=pb.UNEXPECTED_VERSION_ID), "k", ABSENT)
    with pytest.raises(UnexpectedVersion, match="is not 4") as raised:
        answers.put_result(pb.PutResponse(status=pb.UNEXPECTED_VERSION_ID), "k", 4)
    assert (raised.value.key, raised.value.expected) == ("k", 4)
    with pytest.raises(SessionLost):
        answers.put_result(pb.PutResponse(status=pb.SESSION_DOES_NOT_EXIST), "k", None)
    with pytest.raises(StoreFailed, match="status 1"):
        answers.put_result(pb.PutResponse(status=pb.KEY_NOT_FOUND), "k", None)


def test_each_status_of_a_delete_has_its_outcome() -> None:
    assert answers.delete_result(pb.DeleteResponse(), "k", None) is True
    assert answers.delete_result(pb.DeleteResponse(status=pb.KEY_NOT_FOUND), "k", None) is False
    with pytest.raises(UnexpectedVersion):
        answers.delete_result(pb.DeleteResponse(status=pb.UNEXPECTED_VERSION_ID), "k", 2)
    with pytest.raises(StoreFailed):
        answers.delete_result(pb.DeleteResponse(status=pb.SESSION_DOES_NOT_EXIST), "k", None)
    with pytest.raises(StoreFailed):
        answers.check_delete_range(pb.DeleteRangeResponse(status=pb.KEY_NOT_FOUND), "delete range")


def test_an_empty_value_that_was_left_out_is_still_a_value() -> None:
    answer = pb.GetResponse(version=pb.Version(version_id=1))
    found = answers.got_record(answer, "k", include_value=True)
    assert found is not None
    assert (found.key, found.value) == ("k", b"")
    without = answers.got_record(answer, "k", include_value=False)
    assert without is not None
    assert without.value is None
    assert answers.got_record(pb.GetResponse(status=pb.KEY_NOT_FOUND), "k", True) is None


def test_the_keys_of_sequences_are_the_server_s() -> None:
    operations: list[Operation] = [Put("s", b"", sequence_deltas=(1, 2)), Put("k", b""), Delete("d")]
    request = tidemark_pb2.TransactRequest.FromString(transact_request(3, "p", operations, [], None))
    assert [list(each.put.sequence_key_delta) for each in request.operations] == [[1, 2], [], []]
    assert request.operations[0].put.partition_key == b"p"
    results = [tidemark_pb2.TransactResult(key=key) for key in (b"s-7", None, None)]
    answer = tidemark_pb2.TransactResponse(results=results)
    stored = transact_result(answer, operations)
    assert [result and result.key for result in stored] == ["s-7", "k", None]
    answer.results[0].ClearField("key")
    with pytest.raises(StoreFailed, match="did not tell the key"):
        transact_result(answer, operations)
