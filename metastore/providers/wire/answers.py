"""Results made of the server's answers; an answer that the protocol does not allow is named as such."""

from __future__ import annotations

from typing import Protocol

from metastore.interface.checks import shown
from metastore.interface.errors import SessionLost, StoreError, StoreFailed, UnexpectedVersion
from metastore.interface.values import ABSENT, PutResult, Record, Version
from metastore.pb import oxia_pb2 as pb
from metastore.providers.wire.protocol import from_wire

OK = pb.OK


class StatusAnswer(Protocol):
    """The answer to a delete or to the delete of a range."""

    @property
    def status(self) -> pb.Status.ValueType: ...


def version_of(message: pb.Version) -> Version:
    """A version as callers see it."""
    if message.HasField("session_id"):
        return Version(
            message.version_id,
            message.modifications_count,
            message.created_timestamp,
            message.modified_timestamp,
            message.session_id,
            from_wire(message.client_identity) if message.HasField("client_identity") else None,
        )
    return Version(
        message.version_id, message.modifications_count, message.created_timestamp, message.modified_timestamp
    )


def unexpected_version(operation: str, key: str, expected: int | None) -> UnexpectedVersion:
    """The failure of a conditional write, told from what was expected."""
    if expected == ABSENT:
        text = f"{operation} {shown(key)}: the record exists, and was expected not to: get it to see what it holds"
    else:
        text = (
            f"{operation} {shown(key)}: its version is not {expected} (any more): "
            "somebody changed or deleted it; get it for its present version, and decide anew"
        )
    return UnexpectedVersion(text, key, expected)


def put_result(answer: pb.PutResponse, key: str, expected: int | None) -> PutResult:
    """The outcome of a put."""
    status = answer.status
    if status == OK:
        stored_key = from_wire(answer.key) if answer.HasField("key") else key
        return PutResult(stored_key, version_of(answer.version))
    if status == pb.UNEXPECTED_VERSION_ID:
        raise unexpected_version("put", key, expected)
    if status == pb.SESSION_DOES_NOT_EXIST:
        raise SessionLost(
            f"put {shown(key)}: its session has expired or was closed: open a new one and put its records again"
        )
    raise unknown_status(f"put {shown(key)}", status)


def delete_result(answer: StatusAnswer, key: str, expected: int | None) -> bool:
    """Whether there was something to delete."""
    status = answer.status
    if status == OK:
        return True
    if status == pb.KEY_NOT_FOUND:
        return False
    if status == pb.UNEXPECTED_VERSION_ID:
        raise unexpected_version("delete", key, expected)
    raise unknown_status(f"delete {shown(key)}", status)


def check_delete_range(answer: StatusAnswer, what: str) -> None:
    """Raises unless the range was deleted."""
    if answer.status != OK:
        raise unknown_status(what, answer.status)


def got_record(answer: pb.GetResponse, key: str, include_value: bool) -> Record | None:
    """The outcome of a get on one shard."""
    if answer.status == pb.KEY_NOT_FOUND:
        return None
    if answer.status != OK:
        raise unknown_status(f"get {shown(key)}", answer.status)
    return record_of(answer, key, include_value)


def record_of(message: pb.GetResponse, key: str = "", include_value: bool = True) -> Record:
    """A record; `key` stands in where the answer leaves it out. A server may leave out an empty value."""
    return Record(
        from_wire(message.key) if message.HasField("key") else key,
        message.value if include_value else None,
        version_of(message.version),
        from_wire(message.secondary_index_key) if message.HasField("secondary_index_key") else None,
    )


def unknown_status(what: str, status: int) -> StoreError:
    """The server says what this version does not know."""
    return StoreFailed(f"{what}: the server answered with status {status}: use a newer version of this library")
