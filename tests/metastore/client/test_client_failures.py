"""Failed calls as errors of the tree, and what a client may bring to prove who it is."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_store import error_details

from metastore.client import errors
from metastore.client.errors import ClientError, InvalidRequest
from metastore.client.failures import OUTCOME_UNKNOWN, Action, error_of, reason_in, reason_of
from metastore.client.security import Security
from metastore.client.transport import checked_address

PUT = Action("put '/a'", "db:6648", writes=True)
GET = Action("get '/a'", "db:6648")


class Trailer:
    def __init__(self, key: str, value: bytes) -> None:
        self.key = key
        self.value = value


class FailedCall(grpc.RpcError):
    """What grpcio raises, as far as it is looked at."""

    def __init__(self, code: grpc.StatusCode, details: str, reason: str) -> None:
        self._code, self._details, self._reason = code, details, reason

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[Trailer, ...]:  # type: ignore[override]
        if not self._reason:
            return ()
        return (Trailer("grpc-status-details-bin", error_details(self._reason)),)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (grpc.StatusCode.ABORTED, "NODE_IS_NOT_LEADER", errors.NotReady),
        (grpc.StatusCode.UNAVAILABLE, "NOT_INITIALIZED", errors.NotReady),
        (grpc.StatusCode.UNAVAILABLE, "RESOURCE_UNAVAILABLE", errors.Unavailable),
        (grpc.StatusCode.NOT_FOUND, "NAMESPACE_NOT_FOUND", errors.NamespaceNotFound),
        (grpc.StatusCode.NOT_FOUND, "SESSION_NOT_FOUND", errors.SessionLost),
        (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_SESSION_TIMEOUT", errors.InvalidRequest),
        (grpc.StatusCode.FAILED_PRECONDITION, "NOTIFICATIONS_NOT_ENABLED", errors.NotificationsDisabled),
        (grpc.StatusCode.UNAVAILABLE, "", errors.ConnectionFailed),
        (grpc.StatusCode.UNAVAILABLE, "A_REASON_OF_TOMORROW", errors.ConnectionFailed),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "", errors.DeadlineExceeded),
        (grpc.StatusCode.UNAUTHENTICATED, "", errors.AccessDenied),
        (grpc.StatusCode.PERMISSION_DENIED, "", errors.AccessDenied),
        (grpc.StatusCode.INVALID_ARGUMENT, "", errors.InvalidRequest),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "", errors.LimitReached),
        (grpc.StatusCode.UNKNOWN, "", errors.ServerFailure),
        (grpc.StatusCode.UNIMPLEMENTED, "", errors.ServerFailure),
    ],
)
def test_the_reason_decides_and_else_the_code(
    code: grpc.StatusCode, reason: str, kind: type[ClientError]
) -> None:
    error = error_of(FailedCall(code, "oxia: some text", reason), GET)
    assert type(error) is kind
    assert str(error).startswith("get '/a' at db:6648: ")
    if kind is not errors.DeadlineExceeded:
        assert "oxia: some text" in str(error)


def test_every_kind_of_failure_of_a_call_has_its_place_below_client_error() -> None:
    kinds = {value for value in vars(errors).values() if isinstance(value, type)}
    assert all(issubclass(kind, ClientError) for kind in kinds)
    assert issubclass(errors.NotReady, errors.Unavailable)


def test_a_write_without_an_answer_says_that_its_outcome_is_unknown() -> None:
    lost = FailedCall(grpc.StatusCode.UNAVAILABLE, "Socket closed", "")
    assert str(error_of(lost, PUT)).endswith(OUTCOME_UNKNOWN)
    assert OUTCOME_UNKNOWN not in str(error_of(lost, GET))
    refused = FailedCall(grpc.StatusCode.INVALID_ARGUMENT, "no", "")
    assert OUTCOME_UNKNOWN not in str(error_of(refused, PUT))
    elsewhere = FailedCall(grpc.StatusCode.UNAVAILABLE, "not yet", "NOT_INITIALIZED")
    assert OUTCOME_UNKNOWN not in str(error_of(elsewhere, PUT))


def test_the_reason_is_found_among_the_trailers() -> None:
    details = error_details("NODE_IS_NOT_LEADER")
    assert reason_of([("other-bin", b"x"), ("grpc-status-details-bin", details)]) == "NODE_IS_NOT_LEADER"
    assert reason_of([("grpc-status-details-bin", error_details("REASON", domain="example.org"))]) == ""
    assert reason_of([]) == ""


@given(st.binary(max_size=60))
def test_no_trailer_breaks_the_reading(raw: bytes) -> None:
    assert isinstance(reason_in(raw), str)


@given(st.integers(0, 80), st.binary(min_size=1, max_size=3))
def test_no_damaged_trailer_breaks_the_reading(position: int, damage: bytes) -> None:
    details = error_details("NODE_IS_NOT_LEADER")
    assert isinstance(reason_in(details[:position] + damage + details[position + len(damage) :]), str)


@pytest.mark.parametrize(
    "address", ["localhost:6648", "[::1]:1", "db.example.org:65535", "tls://db:6648", "127.0.0.1:80"]
)
def test_addresses_that_can_be_dialled(address: str) -> None:
    assert checked_address(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "db",
        "db:",
        ":6648",
        "db:0",
        "db:65536",
        "db:x",
        "db:٣",
        "http://db:1",
        "db:1/path",
        "a b:1",
        "tls://",
    ],
)
def test_addresses_that_cannot(address: str) -> None:
    with pytest.raises(InvalidRequest, match="HOST:PORT"):
        checked_address(address)


def test_a_token_becomes_a_header_and_stays_out_of_sight() -> None:
    security = Security(token="s3cret")
    assert security.metadata() == (("authorization", "Bearer s3cret"),)
    assert "s3cret" not in repr(security)
    assert Security().metadata() == ()


def test_a_token_file_is_read_for_every_call(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    security = Security(token_file=path)
    assert security.metadata() == (("authorization", "Bearer first"),)
    path.write_text("second")
    assert security.metadata() == (("authorization", "Bearer second"),)
    path.unlink()
    with pytest.raises(InvalidRequest, match="cannot read the token file"):
        security.metadata()


@pytest.mark.parametrize("token", ["", "two words", "línea", "a\nb"])
def test_what_no_header_carries_is_no_token(token: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no bearer token"):
        Security(token=token)
    path = tmp_path / "token"
    path.write_text(token)
    with pytest.raises(InvalidRequest, match="no bearer token") as refusal:
        Security(token_file=path).metadata()
    assert not token or token not in str(refusal.value)


def test_contradicting_ways_to_prove_oneself_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="two tokens"):
        Security(token="a", token_file=tmp_path / "b")
    with pytest.raises(InvalidRequest, match="give both"):
        Security(cert_file=tmp_path / "cert")


def test_naming_a_file_of_tls_switches_it_on(tmp_path: Path) -> None:
    assert Security(ca_file=tmp_path / "ca").uses_tls
    assert Security(cert_file=tmp_path / "cert", key_file=tmp_path / "key").uses_tls
    assert not Security(token="t").uses_tls
    with pytest.raises(InvalidRequest, match="cannot read the CA certificates file"):
        Security(ca_file=tmp_path / "ca").channel_credentials()
