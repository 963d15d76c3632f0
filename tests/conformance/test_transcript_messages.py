"""Recorded JSON and the messages of the protocol mean the same, in both directions."""

from __future__ import annotations

from typing import Any

import pytest

from metastore.pb import oxia_pb2
from support.transcripts.messages import BadRecording, request_bytes, text_bytes, tree_of


def parsed(form: dict[str, Any], **variables: Any) -> oxia_pb2.WriteRequest:
    return oxia_pb2.WriteRequest.FromString(request_bytes(oxia_pb2.WriteRequest, form, variables))


def test_a_request_has_the_fields_of_its_form() -> None:
    form = {
        "shard": 0,
        "puts": [
            {
                "key": "k",
                "value": {"hex": "ff"},
                "expected_version_id": {"$ref": "v0", "plus": 1},
                "sequence_key_delta": [1, 2],
                "secondary_indexes": [{"index_name": "i", "secondary_key": "s"}],
            }
        ],
        "deletes": [{"key": {"repeat": ["d", 3]}}],
    }
    index = oxia_pb2.SecondaryIndex(index_name=b"i", secondary_key=b"s")
    put = oxia_pb2.PutRequest(
        key=b"k",
        value=b"\xff",
        expected_version_id=8,
        sequence_key_delta=[1, 2],
        secondary_indexes=[index],
    )
    wanted = oxia_pb2.WriteRequest(shard=0, puts=[put], deletes=[oxia_pb2.DeleteRequest(key=b"ddd")])
    assert parsed(form, v0=7) == wanted


def test_presence_is_kept() -> None:
    assert parsed({"shard": 0}).HasField("shard")
    assert not parsed({}).HasField("shard")


def test_an_enum_may_be_a_name_or_a_number_that_has_none() -> None:
    named = {"gets": [{"key": "a", "comparison_type": "HIGHER"}, {"key": "b", "comparison_type": 9}]}
    request = oxia_pb2.ReadRequest.FromString(request_bytes(oxia_pb2.ReadRequest, named, {}))
    assert [get.comparison_type for get in request.gets] == [4, 9]


def test_raw_bytes_are_sent_as_they_are() -> None:
    assert request_bytes(oxia_pb2.WriteRequest, {"raw_hex": "0a01ff"}, {}) == b"\x0a\x01\xff"


@pytest.mark.parametrize("form", [{"nope": 1}, {"puts": [{"nope": 1}]}, {"puts": [{"key": {"$ref": "x"}}]}])
def test_a_form_that_means_nothing_is_refused(form: dict[str, Any]) -> None:
    with pytest.raises(BadRecording):
        parsed(form)


@pytest.mark.parametrize("form", [3, None, {"hex": 1}, {"base64": "eA=="}])
def test_what_is_no_text_is_refused(form: object) -> None:
    with pytest.raises(BadRecording):
        text_bytes(form)


def test_a_tree_has_zeros_but_nothing_that_is_absent() -> None:
    response = oxia_pb2.WriteResponse(
        puts=[
            oxia_pb2.PutResponse(status=oxia_pb2.Status.OK, version=oxia_pb2.Version(session_id=0)),
            oxia_pb2.PutResponse(status=oxia_pb2.Status.SESSION_DOES_NOT_EXIST),
        ]
    )
    zeros = {"version_id": 0, "modifications_count": 0, "created_timestamp": 0, "modified_timestamp": 0}
    assert tree_of(response) == {
        "puts": [
            {"status": "OK", "version": {**zeros, "session_id": 0}},
            {"status": "SESSION_DOES_NOT_EXIST"},
        ]
    }


def test_a_tree_tells_an_empty_value_from_none() -> None:
    assert tree_of(oxia_pb2.GetResponse(value=b"")) == {"status": "OK", "value": b""}
    assert tree_of(oxia_pb2.GetResponse()) == {"status": "OK"}


def test_a_tree_of_a_map_is_keyed_by_its_keys() -> None:
    assignments = oxia_pb2.ShardAssignments()
    assignments.namespaces["default"].assignments.add(shard=3, leader=b"h:1")
    assert tree_of(assignments) == {
        "namespaces": {
            "default": {
                "assignments": [{"shard": 3, "leader": b"h:1"}],
                "shard_key_router": "UNKNOWN",
            }
        }
    }
