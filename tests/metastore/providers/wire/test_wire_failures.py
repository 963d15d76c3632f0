"""A failed call judged: what became of its request, and which error its caller gets."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from metastore.interface import errors
from metastore.interface.errors import StoreError
from metastore.providers.wire.channels import can_be_dialled
from metastore.providers.wire.failures import Failure, Fate, failure_of, judged, reason_in, reason_of


def details(reason: str, domain: str = "oxia.io", **metadata: str) -> bytes:
    """A google.rpc.Status with an ErrorInfo, serialized."""
    status = status_pb2.Status()
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain, metadata=metadata))
    serialized: bytes = status.SerializeToString()
    return serialized


@pytest.mark.parametrize(
    ("code", "reason", "fate", "kind"),
    [
        (grpc.StatusCode.ABORTED, "NODE_IS_NOT_LEADER", Fate.NOT_DONE, errors.Unavailable),
        (grpc.StatusCode.UNAVAILABLE, "NOT_INITIALIZED", Fate.NOT_DONE, errors.Unavailable),
        (grpc.StatusCode.UNAVAILABLE, "RESOURCE_UNAVAILABLE", Fate.UNKNOWN, errors.Unavailable),
        (grpc.StatusCode.NOT_FOUND, "NAMESPACE_NOT_FOUND", Fate.REFUSED, errors.NamespaceNotFound),
        (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", Fate.REFUSED, errors.SessionLost),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_SESSION_TIMEOUT", Fate.REFUSED, errors.InvalidRequest),
        (grpc.StatusCode.FAILED_PRECONDITION, "NOTIFICATIONS_NOT_ENABLED", Fate.REFUSED, errors.Unsupported),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "STORE_FULL", Fate.REFUSED, errors.StoreFull),
        (grpc.StatusCode.UNAVAILABLE, "", Fate.UNKNOWN, errors.Unavailable),
        (grpc.StatusCode.UNAVAILABLE, "A_REASON_OF_TOMORROW", Fate.UNKNOWN, errors.Unavailable),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", Fate.UNKNOWN, errors.Unavailable),
        (grpc.StatusCode.UNAUTHENTICATED, "", Fate.REFUSED, errors.AccessDenied),
        (grpc.StatusCode.PERMISSION_DENIED, "", Fate.REFUSED, errors.AccessDenied),
        (grpc.StatusCode.INVALID_ARGUMENT, "", Fate.REFUSED, errors.InvalidRequest),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "", Fate.REFUSED, errors.LimitExceeded),
        (grpc.StatusCode.UNKNOWN, "", Fate.UNKNOWN, errors.StoreFailed),
        (grpc.StatusCode.INTERNAL, "", Fate.UNKNOWN, errors.StoreFailed),
        (grpc.StatusCode.INTERNAL, "UNPARSABLE", Fate.REFUSED, errors.StoreFailed),
    ],
)
def test_the_reason_decides_and_else_the_code(
    code: grpc.StatusCode, reason: str, fate: Fate, kind: type[StoreError]
) -> None:
    failure = judged(code, "oxia: some text", reason, {})
    assert (failure.fate, failure.kind) == (fate, kind)
    error = failure.refusal("get '/a' at db:6648")
    assert type(error) is kind
    assert str(error).startswith("get '/a' at db:6648: ")


def test_an_oxia_server_refuses_a_batch_by_text_alone() -> None:
    text = "oxia db: failed to apply batch: oxia: sequential key operation missing some sequence deltas"
    failure = judged(grpc.StatusCode.UNKNOWN, text, "", {})
    assert (failure.fate, failure.kind) == (Fate.REFUSED, errors.InvalidRequest)
    assert text in str(failure.refusal("put 's'"))


@pytest.mark.parametrize("text", ["Received RST_STREAM with error code 2", "Stream removed (Socket closed)"])
def test_a_lost_connection_is_one_whatever_its_code(text: str) -> None:
    assert judged(grpc.StatusCode.INTERNAL, text, "", {}).is_passing
    assert judged(grpc.StatusCode.UNKNOWN, text, "", {}).kind is errors.Unavailable


def test_only_what_passes_is_asked_again() -> None:
    assert judged(grpc.StatusCode.ABORTED, "", "NODE_IS_NOT_LEADER", {}).is_passing
    assert judged(grpc.StatusCode.UNAVAILABLE, "", "", {}).is_passing
    assert not judged(grpc.StatusCode.INTERNAL, "", "", {}).is_passing
    assert not judged(grpc.StatusCode.RESOURCE_EXHAUSTED, "", "STORE_FULL", {}).is_passing


def test_what_the_server_lacks_is_named() -> None:
    failure = judged(
        grpc.StatusCode.UNAVAILABLE, "oxia: resource unavailable", "RESOURCE_UNAVAILABLE", {"cause": "9 points held"}
    )
    assert "oxia: resource unavailable: 9 points held: try again later" in str(failure.refusal("HoldPoint"))


def test_who_took_nothing_is_not_sent_to_look_at_the_server() -> None:
    text = "oxia: resource unavailable: the reader took nothing for 60 s"
    failure = judged(grpc.StatusCode.UNAVAILABLE, text, "", {})
    assert failure.is_passing
    assert str(failure.refusal("RangeScan")) == f"RangeScan: {text}: try again later"


def test_who_is_not_let_in_is_so_with_everything() -> None:
    assert judged(grpc.StatusCode.UNAUTHENTICATED, "", "", {}).concerns_everybody
    assert not judged(grpc.StatusCode.INVALID_ARGUMENT, "", "", {}).concerns_everybody


def test_a_write_without_an_answer_has_an_unknown_outcome() -> None:
    error = judged(grpc.StatusCode.UNAVAILABLE, "Socket closed", "", {}).lost("put '/a' at db:6648")
    assert isinstance(error, errors.OutcomeUnknown)
    assert "Socket closed" in str(error)
    assert "may or may not" in str(error)


def test_the_leader_is_taken_from_the_details() -> None:
    trailers = grpc.aio.Metadata(
        ("other-bin", b"x"),
        ("grpc-status-details-bin", details("NODE_IS_NOT_LEADER", shard="3", leader="db:6649")),
    )
    failed = grpc.aio.AioRpcError(grpc.StatusCode.ABORTED, grpc.aio.Metadata(), trailers, "oxia: node is not leader")
    assert failure_of(failed).leader == "db:6649"
    assert failure_of(failed).fate is Fate.NOT_DONE
    bare = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), None)
    assert failure_of(bare) == Failure(
        Fate.UNKNOWN, errors.Unavailable, "UNAVAILABLE", "check the address, the server, and TLS on both sides"
    )


def test_the_reason_is_one_of_a_known_domain() -> None:
    assert reason_of([("grpc-status-details-bin", details("STORE_FULL", "tidemark.metastore"))])[0] == "STORE_FULL"
    assert reason_of([("grpc-status-details-bin", details("REASON", "example.org"))]) == ("", {})
    assert reason_of([]) == ("", {})


@given(st.binary(max_size=60))
def test_no_trailer_breaks_the_reading(raw: bytes) -> None:
    assert isinstance(reason_in(raw)[0], str)


@given(st.integers(0, 80), st.binary(min_size=1, max_size=3))
def test_no_damaged_trailer_breaks_the_reading(position: int, damage: bytes) -> None:
    raw = details("NODE_IS_NOT_LEADER", leader="db:1")
    assert isinstance(reason_in(raw[:position] + damage + raw[position + len(damage) :])[0], str)


@pytest.mark.parametrize("address", ["localhost:6648", "[::1]:1", "db.example.org:65535", "tls://db:6648"])
def test_leaders_that_can_be_dialled(address: str) -> None:
    assert can_be_dialled(address)


@pytest.mark.parametrize(
    "address",
    ["", "db", "db:", ":6648", "db:0", "db:65536", "db:x", "db:٣", "http://db:1", "db:1/path", "a b:1", "tls://"],
)
def test_leaders_that_cannot(address: str) -> None:
    assert not can_be_dialled(address)
