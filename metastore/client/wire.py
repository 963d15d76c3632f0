"""Requests as the wire wants them, made of plain arguments; what makes no sense is refused here, by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from google.protobuf.message import Message

from metastore.client.errors import InvalidRequest
from metastore.client.values import Comparison
from metastore.pb import oxia_pb2 as pb

SERVICE = "io.oxia.proto.v1.OxiaClient"

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
UINT64_MAX = (1 << 64) - 1
UINT32_MAX = (1 << 32) - 1

RequestT = TypeVar("RequestT", bound=Message)
AnswerT = TypeVar("AnswerT", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[RequestT, AnswerT]):
    """One method of the service, and the types of its messages."""

    name: str
    request: type[RequestT]
    answer: type[AnswerT]

    @property
    def path(self) -> str:
        return f"/{SERVICE}/{self.name}"


ASSIGNMENTS = Method("GetShardAssignments", pb.ShardAssignmentsRequest, pb.ShardAssignments)
WRITE = Method("Write", pb.WriteRequest, pb.WriteResponse)
READ = Method("Read", pb.ReadRequest, pb.ReadResponse)
LIST = Method("List", pb.ListRequest, pb.ListResponse)
RANGE_SCAN = Method("RangeScan", pb.RangeScanRequest, pb.RangeScanResponse)
SEQUENCE_UPDATES = Method("GetSequenceUpdates", pb.GetSequenceUpdatesRequest, pb.GetSequenceUpdatesResponse)
NOTIFICATIONS = Method("GetNotifications", pb.NotificationsRequest, pb.NotificationBatch)
CREATE_SESSION = Method("CreateSession", pb.CreateSessionRequest, pb.CreateSessionResponse)
KEEP_ALIVE = Method("KeepAlive", pb.SessionHeartbeat, pb.KeepAliveResponse)
CLOSE_SESSION = Method("CloseSession", pb.CloseSessionRequest, pb.CloseSessionResponse)

COMPARISONS = {
    Comparison.EQUAL: pb.EQUAL,
    Comparison.FLOOR: pb.FLOOR,
    Comparison.CEILING: pb.CEILING,
    Comparison.LOWER: pb.LOWER,
    Comparison.HIGHER: pb.HIGHER,
}


def to_wire(text: str) -> bytes:
    """A key or name as it travels; the inverse of `from_wire`, whatever the bytes were."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"{text!r} has no form in UTF-8: leave out its lone surrogates") from error


def from_wire(raw: bytes) -> str:
    """A key or name as callers see it; bytes that are not UTF-8 become surrogate escapes."""
    return raw.decode("utf-8", "surrogateescape")


def optional_to_wire(text: str | None) -> bytes | None:
    """Like `to_wire`, where there may be nothing."""
    return None if text is None else to_wire(text)


def within(name: str, number: int, low: int, high: int) -> int:
    """The number, if it lies in the range that its field can hold."""
    if not low <= number <= high:
        raise InvalidRequest(f"{name} {number} is out of range: it must be from {low} to {high}")
    return number


def put_request(
    key: str,
    value: bytes,
    *,
    expected_version: int | None = None,
    partition_key: str | None = None,
    sequence_deltas: Sequence[int] = (),
    secondary_indexes: Iterable[tuple[str, str]] = (),
    identity: str | None = None,
) -> pb.PutRequest:
    """One put, without its session."""
    if expected_version is not None:
        within(f"put {key!r}: expected version", expected_version, INT64_MIN, INT64_MAX)
    if sequence_deltas:
        check_sequence(key, sequence_deltas, partition_key, expected_version)
    return pb.PutRequest(
        key=to_wire(key),
        value=value,
        expected_version_id=expected_version,
        client_identity=optional_to_wire(identity),
        partition_key=optional_to_wire(partition_key),
        sequence_key_delta=sequence_deltas,
        secondary_indexes=[
            pb.SecondaryIndex(index_name=to_wire(name), secondary_key=to_wire(secondary_key))
            for name, secondary_key in secondary_indexes
        ],
    )


def check_sequence(
    key: str, deltas: Sequence[int], partition_key: str | None, expected_version: int | None
) -> None:
    """Refuses a sequence put that no server accepts."""
    if partition_key is None:
        raise InvalidRequest(
            f"put {key!r}: a sequence needs a partition key, so that all of it is on one shard: give one"
        )
    if expected_version is not None:
        raise InvalidRequest(
            f"put {key!r}: a sequence makes a new key every time and cannot expect a version: "
            "leave out the version, or the deltas"
        )
    for delta in deltas:
        within(f"put {key!r}: sequence delta", delta, 0, UINT64_MAX)
    if deltas[0] == 0:
        raise InvalidRequest(f"put {key!r}: the first sequence delta is 0, so keys would repeat: give more")


def delete_request(key: str, expected_version: int | None, partition_key: str | None) -> pb.DeleteRequest:
    """One delete."""
    if expected_version is not None:
        within(f"delete {key!r}: expected version", expected_version, INT64_MIN, INT64_MAX)
    return pb.DeleteRequest(
        key=to_wire(key), expected_version_id=expected_version, partition_key=optional_to_wire(partition_key)
    )


def delete_range_request(start: str, end: str) -> pb.DeleteRangeRequest:
    """One delete of a range."""
    return pb.DeleteRangeRequest(start_inclusive=to_wire(start), end_exclusive=to_wire(end))


def get_request(key: str, comparison: Comparison, index: str | None, include_value: bool) -> pb.GetRequest:
    """One get."""
    return pb.GetRequest(
        key=to_wire(key),
        include_value=include_value,
        comparison_type=COMPARISONS[comparison],
        secondary_index_name=optional_to_wire(index),
    )


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A range of keys, or with `index` of its secondary keys: from `start` to before `end`."""

    start: str
    end: str
    index: str | None = None
    include_internal: bool = False

    def __post_init__(self) -> None:
        if self.index is not None and not self.end:
            raise InvalidRequest(
                f"range {self}: without an end it selects nothing of an index: give the key to stop before"
            )

    def __str__(self) -> str:
        of = "" if self.index is None else f" of index {self.index!r}"
        return f"[{self.start!r}, {self.end!r}){of}"

    def list_request(self, shard_id: int) -> pb.ListRequest:
        return pb.ListRequest(
            shard=shard_id,
            start_inclusive=to_wire(self.start),
            end_exclusive=to_wire(self.end),
            secondary_index_name=optional_to_wire(self.index),
            include_internal_keys=self.include_internal,
        )

    def scan_request(self, shard_id: int) -> pb.RangeScanRequest:
        return pb.RangeScanRequest(
            shard=shard_id,
            start_inclusive=to_wire(self.start),
            end_exclusive=to_wire(self.end),
            secondary_index_name=optional_to_wire(self.index),
            include_internal_keys=self.include_internal,
        )
