"""Results made of the server's answers; an answer that the protocol does not allow is named as such."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from metastore.client.errors import KeyNotFound, ServerFailure, SessionLost, UnexpectedVersion
from metastore.client.values import (
    ABSENT,
    Comparison,
    Notification,
    NotificationBatch,
    NotificationKind,
    PutResult,
    Record,
    Version,
)
from metastore.client.wire import from_wire
from metastore.pb import oxia_pb2 as pb

NOTIFICATION_KINDS = {
    pb.KEY_CREATED: NotificationKind.CREATED,
    pb.KEY_MODIFIED: NotificationKind.MODIFIED,
    pb.KEY_DELETED: NotificationKind.DELETED,
    pb.KEY_RANGE_DELETED: NotificationKind.RANGE_DELETED,
}

MISSING = {
    Comparison.EQUAL: "no such key",
    Comparison.FLOOR: "no key at or before it",
    Comparison.CEILING: "no key at or after it",
    Comparison.LOWER: "no key before it",
    Comparison.HIGHER: "no key after it",
}


def version_of(message: pb.Version) -> Version:
    return Version(
        version_id=message.version_id,
        modifications_count=message.modifications_count,
        created_ms=message.created_timestamp,
        modified_ms=message.modified_timestamp,
        session_id=message.session_id if message.HasField("session_id") else None,
        client_identity=from_wire(message.client_identity) if message.HasField("client_identity") else None,
    )


def unexpected_version(operation: str, key: str, expected_version: int | None) -> UnexpectedVersion:
    """The failure of a conditional write, told from what was expected."""
    if expected_version == ABSENT:
        text = f"{operation} {key!r}: the key exists, and was expected not to: get it to see what it holds"
    else:
        text = (
            f"{operation} {key!r}: its version is not {expected_version} (any more): "
            "somebody changed or deleted it; get it for its present version, and decide anew"
        )
    return UnexpectedVersion(text, key, expected_version)


def key_not_found(operation: str, key: str, missing: str = "no such key") -> KeyNotFound:
    """`missing` says what there is none of."""
    return KeyNotFound(
        f"{operation} {key!r}: {missing}: check its spelling, the namespace and the partition key", key
    )


def nothing_found(key: str, comparison: Comparison, index: str | None) -> KeyNotFound:
    """The failure of a get, in the words of what was asked for."""
    missing = MISSING[comparison] + ("" if index is None else f" in index {index!r}")
    return key_not_found("get", key, missing)


def put_result(
    message: pb.WriteResponse, key: str, expected_version: int | None, session_id: int | None
) -> PutResult:
    """The outcome of one put."""
    if len(message.puts) != 1:
        raise ServerFailure(f"put {key!r}: the server gave {len(message.puts)} answers to one put: report it")
    answer = message.puts[0]
    if answer.status == pb.OK:
        stored_key = from_wire(answer.key) if answer.HasField("key") else key
        return PutResult(stored_key, version_of(answer.version))
    if answer.status == pb.UNEXPECTED_VERSION_ID:
        raise unexpected_version("put", key, expected_version)
    if answer.status == pb.SESSION_DOES_NOT_EXIST:
        raise SessionLost(
            f"put {key!r}: session {session_id} has expired or was closed: "
            "open a new one and put its records again"
        )
    raise ServerFailure(f"put {key!r}: the server answered with status {answer.status}: use a newer client")


def check_delete(message: pb.WriteResponse, key: str, expected_version: int | None) -> None:
    """Raises unless the one delete was done."""
    if len(message.deletes) != 1:
        raise ServerFailure(
            f"delete {key!r}: the server gave {len(message.deletes)} answers to one delete: report it"
        )
    status = message.deletes[0].status
    if status == pb.KEY_NOT_FOUND:
        raise key_not_found("delete", key)
    if status == pb.UNEXPECTED_VERSION_ID:
        raise unexpected_version("delete", key, expected_version)
    if status != pb.OK:
        raise ServerFailure(f"delete {key!r}: the server answered with status {status}: use a newer client")


def check_delete_range(message: pb.WriteResponse, start: str, end: str) -> None:
    """Raises unless the one range was deleted."""
    statuses = [answer.status for answer in message.delete_ranges]
    if statuses != [pb.OK]:
        raise ServerFailure(
            f"delete range [{start!r}, {end!r}): the server answered with statuses {statuses}: "
            "use a newer client"
        )


def record_of(message: pb.GetResponse, key: str, include_value: bool) -> Record:
    """A record out of an answer with status OK; `key` stands in where the answer leaves it out.

    A server may leave out an empty value altogether; one that was asked for is never None.
    """
    assert message.status == pb.OK
    return Record(
        key=from_wire(message.key) if message.HasField("key") else key,
        value=message.value if include_value else None,
        version=version_of(message.version),
        secondary_key=from_wire(message.secondary_index_key)
        if message.HasField("secondary_index_key")
        else None,
    )


def got_record(messages: Iterable[pb.ReadResponse], key: str, include_value: bool) -> Record | None:
    """The outcome of one get on one shard."""
    answers = [answer for message in messages for answer in message.gets]
    if len(answers) != 1:
        raise ServerFailure(f"get {key!r}: the server gave {len(answers)} answers to one get: report it")
    answer = answers[0]
    if answer.status == pb.KEY_NOT_FOUND:
        return None
    if answer.status != pb.OK:
        raise ServerFailure(
            f"get {key!r}: the server answered with status {answer.status}: use a newer client"
        )
    return record_of(answer, key, include_value)


def listed_keys(message: pb.ListResponse) -> Iterator[str]:
    """The keys of one message of a list."""
    return map(from_wire, message.keys)


def scanned_records(message: pb.RangeScanResponse) -> Iterator[Record]:
    """The records of one message of a scan.

    An Oxia server keeps index entries of ephemeral records that are gone, and sends them as "not found":
    they are no records.
    """
    return (record_of(answer, "", include_value=True) for answer in message.records if answer.status == pb.OK)


def notification_batch(message: pb.NotificationBatch) -> NotificationBatch:
    """One batch of changes. An unknown kind is a failure: to skip it would be to lose a change."""
    notifications = []
    for entry in message.notifications:
        kind = NOTIFICATION_KINDS.get(entry.value.type)
        if kind is None:
            raise ServerFailure(
                f"shard {message.shard} sent a notification of unknown type {entry.value.type} at offset "
                f"{message.offset}: use a newer client"
            )
        change = entry.value
        notifications.append(
            Notification(
                kind=kind,
                key=from_wire(entry.key),
                version_id=change.version_id if change.HasField("version_id") else None,
                range_end=from_wire(change.key_range_last) if change.HasField("key_range_last") else None,
            )
        )
    return NotificationBatch(message.shard, message.offset, message.timestamp, tuple(notifications))
