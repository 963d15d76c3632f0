"""The rules of a write: a copy of the state that becomes the state when the whole request has succeeded."""

from __future__ import annotations

from dataclasses import dataclass, replace

from metastore.pb import oxia_pb2 as pb
from shard_model import sequences
from shard_model.order import Encoder, is_internal
from shard_model.rules import invalid_argument


@dataclass(frozen=True)
class Record:
    """One stored record."""

    value: bytes
    version_id: int
    modifications_count: int
    created_ms: int
    modified_ms: int
    session_id: int | None = None
    client_identity: bytes | None = None
    indexes: frozenset[tuple[bytes, bytes]] = frozenset()

    def version(self) -> pb.Version:
        return pb.Version(
            version_id=self.version_id,
            modifications_count=self.modifications_count,
            created_timestamp=self.created_ms,
            modified_timestamp=self.modified_ms,
            session_id=self.session_id,
            client_identity=self.client_identity,
        )


@dataclass(frozen=True)
class Session:
    """A client's promise to be alive; `deadline_ms` is when it is broken."""

    timeout_ms: int
    identity: bytes
    deadline_ms: int

    def renewed(self, now_ms: int) -> Session:
        return replace(self, deadline_ms=now_ms + self.timeout_ms)


class Staging:
    """What one write makes of records, sessions and the version counter, and what it has to tell."""

    def __init__(
        self,
        records: dict[bytes, Record],
        sessions: dict[int, Session],
        last_version_id: int,
        now_ms: int,
        encode: Encoder,
    ) -> None:
        self.records = dict(records)
        self.sessions = dict(sessions)
        self.last_version_id = last_version_id
        self.now_ms = now_ms
        self.encode = encode
        self.changes: dict[bytes, pb.Notification] = {}

    def apply(self, request: pb.WriteRequest) -> pb.WriteResponse:
        """All puts, then all deletes, then all ranges; each sees what the ones before it did."""
        return pb.WriteResponse(
            puts=[self.put(put) for put in request.puts],
            deletes=[self.delete(delete) for delete in request.deletes],
            delete_ranges=[self.delete_range(delete) for delete in request.delete_ranges],
        )

    def put(self, put: pb.PutRequest) -> pb.PutResponse:
        key, old = put.key, self.records.get(put.key)
        if put.sequence_key_delta:
            if not put.HasField("partition_key"):
                raise invalid_argument(f"the sequence put on {put.key!r} needs a partition key")
            if put.HasField("expected_version_id"):
                return pb.PutResponse(status=pb.UNEXPECTED_VERSION_ID)
            key, old = sequences.next_key(put.key, put.sequence_key_delta, self.records), None
            assert key not in self.records, "a sequence put always makes a new record"
        if put.HasField("expected_version_id") and put.expected_version_id != (old.version_id if old else -1):
            return pb.PutResponse(status=pb.UNEXPECTED_VERSION_ID)
        if put.HasField("session_id") and put.session_id not in self.sessions:
            return pb.PutResponse(status=pb.SESSION_DOES_NOT_EXIST)
        record = self._successor(put, old)
        self.records[key] = record
        kind = pb.KEY_CREATED if record.modifications_count <= 0 else pb.KEY_MODIFIED
        self._tell(key, pb.Notification(type=kind, version_id=record.version_id))
        return pb.PutResponse(
            status=pb.OK,
            version=record.version(),
            key=key if put.sequence_key_delta else None,
        )

    def _successor(self, put: pb.PutRequest, old: Record | None) -> Record:
        """The record that a put leaves; all but the time of creation and the count comes from the request."""
        count = 0 if old is None else old.modifications_count + 1
        overridden = put.HasField("override_version_id")
        return Record(
            value=put.value,
            version_id=put.override_version_id if overridden else self.next_version_id(),
            modifications_count=(
                put.override_modifications_count if put.HasField("override_modifications_count") else count
            ),
            created_ms=self.now_ms if old is None else old.created_ms,
            modified_ms=self.now_ms,
            session_id=put.session_id if put.HasField("session_id") else None,
            client_identity=put.client_identity if put.HasField("client_identity") else None,
            indexes=frozenset((index.index_name, index.secondary_key) for index in put.secondary_indexes),
        )

    def next_version_id(self) -> int:
        self.last_version_id += 1
        return self.last_version_id

    def delete(self, delete: pb.DeleteRequest) -> pb.DeleteResponse:
        record = self.records.get(delete.key)
        expected = delete.expected_version_id if delete.HasField("expected_version_id") else None
        if record is None:
            missing = expected is None or expected == -1
            return pb.DeleteResponse(status=pb.KEY_NOT_FOUND if missing else pb.UNEXPECTED_VERSION_ID)
        if expected is not None and expected != record.version_id:
            return pb.DeleteResponse(status=pb.UNEXPECTED_VERSION_ID)
        self.remove(delete.key)
        return pb.DeleteResponse(status=pb.OK)

    def delete_range(self, delete: pb.DeleteRangeRequest) -> pb.DeleteRangeResponse:
        """An empty end is the end of nothing: no key is below it."""
        start, end = delete.start_inclusive, delete.end_exclusive
        if end:
            for key in list(self.records):
                if not is_internal(key) and self.encode(start) <= self.encode(key) < self.encode(end):
                    del self.records[key]
        self._tell(start, pb.Notification(type=pb.KEY_RANGE_DELETED, key_range_last=end))
        return pb.DeleteRangeResponse(status=pb.OK)

    def end_session(self, session_id: int) -> None:
        """The session goes, and every record that is still its own."""
        del self.sessions[session_id]
        for key, record in list(self.records.items()):
            if record.session_id == session_id:
                self.remove(key)

    def remove(self, key: bytes) -> None:
        del self.records[key]
        self._tell(key, pb.Notification(type=pb.KEY_DELETED))

    def _tell(self, key: bytes, notification: pb.Notification) -> None:
        """One entry per key: what happened last. Nobody is told of internal keys."""
        if not is_internal(key):
            self.changes[key] = notification
