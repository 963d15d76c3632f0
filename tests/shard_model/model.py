"""One shard as a dict of records: every answer is found by looking at all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from metastore.pb import oxia_pb2 as pb
from shard_model import sequences
from shard_model.order import ENCODERS, is_internal, path_escaped
from shard_model.rules import (
    ModelInvalid,
    require_comparison,
    require_session_timeout,
    require_text,
    require_utf8,
)
from shard_model.staging import Record, Session, Staging

Item = TypeVar("Item")
Batches = list[pb.NotificationBatch]
IndexEntry = tuple[bytes, bytes, bytes, bytes]
"""Encoded secondary key, escaped primary key (these two are the order), secondary key, primary key."""


class ShardModel:
    """The specified behaviour of one shard."""

    def __init__(self, sorting: str, notifications: bool = True, shard: int = 0) -> None:
        self.encode = ENCODERS[sorting]
        self.notifications_enabled = notifications
        self.shard = shard
        self.records: dict[bytes, Record] = {}
        self.sessions: dict[int, Session] = {}
        self.last_version_id = -1
        self.batches: Batches = []

    @property
    def last_offset(self) -> int:
        """Every write takes the next offset, from 0 on; a refused one takes none."""
        return len(self.batches) - 1

    # ---------------------------------------------------------------- writing

    def write(self, request: pb.WriteRequest, now_ms: int) -> pb.WriteResponse:
        """One atomic write; raises ModelInvalid with nothing changed."""
        require_text(request)
        staging = self._stage(now_ms)
        response = staging.apply(request)
        self._commit(staging)
        return response

    def create_session(self, timeout_ms: int, identity: bytes, now_ms: int) -> int:
        """A write like any other: it takes an offset and a version id. Ids begin at 1."""
        require_session_timeout(timeout_ms)
        require_utf8(identity, "client_identity")
        staging = self._stage(now_ms)
        staging.next_version_id()
        session_id = self.last_offset + 2
        staging.sessions[session_id] = Session(timeout_ms, identity, now_ms + timeout_ms)
        self._commit(staging)
        return session_id

    def keep_alive(self, session_id: int, now_ms: int) -> None:
        self.sessions[session_id] = self._session(session_id).renewed(now_ms)

    def close_session(self, session_id: int, now_ms: int) -> None:
        self._session(session_id)
        self.expire([session_id], now_ms)

    def due(self, now_ms: int) -> Sequence[int]:
        """The sessions whose time is over."""
        return sorted(id for id, session in self.sessions.items() if session.deadline_ms <= now_ms)

    def expire(self, session_ids: Iterable[int], now_ms: int) -> None:
        """One write ends all of them."""
        staging = self._stage(now_ms)
        for session_id in session_ids:
            staging.end_session(session_id)
        self._commit(staging)

    def restart(self, now_ms: int) -> None:
        """Everything survives, and every session has its full time again."""
        self.sessions = {id: session.renewed(now_ms) for id, session in self.sessions.items()}

    def _session(self, session_id: int) -> Session:
        if session_id not in self.sessions:
            raise ModelInvalid("NOT_FOUND", "oxia: session not found")
        return self.sessions[session_id]

    def _stage(self, now_ms: int) -> Staging:
        return Staging(self.records, self.sessions, self.last_version_id, now_ms, self.encode)

    def _commit(self, staging: Staging) -> None:
        changes = sorted(staging.changes.items())
        entries = [pb.NotificationEntry(key=key, value=notification) for key, notification in changes]
        self.batches.append(
            pb.NotificationBatch(
                shard=self.shard,
                offset=self.last_offset + 1,
                timestamp=staging.now_ms,
                notifications=entries,
            )
        )
        self.records, self.sessions = staging.records, staging.sessions
        self.last_version_id = staging.last_version_id

    # ---------------------------------------------------------------- reading

    def read(self, request: pb.ReadRequest) -> Sequence[pb.GetResponse]:
        require_text(request)
        for get in request.gets:
            require_comparison(get)
        return [
            self._get_by_index(get) if get.HasField("secondary_index_name") else self._get(get) for get in request.gets
        ]

    def _get(self, get: pb.GetRequest) -> pb.GetResponse:
        if get.comparison_type == pb.EQUAL:
            found = get.key if get.key in self.records else None
            return self._answer(found, get.include_value)
        target = self.encode(get.key)
        keys = self._keys(include_internal=False)
        found = {
            pb.FLOOR: last(key for key in keys if self.encode(key) <= target),
            pb.LOWER: last(key for key in keys if self.encode(key) < target),
            pb.CEILING: first(key for key in keys if self.encode(key) >= target),
            pb.HIGHER: first(key for key in keys if self.encode(key) > target),
        }[get.comparison_type]
        return self._answer(found, get.include_value, with_key=True)

    def _get_by_index(self, get: pb.GetRequest) -> pb.GetResponse:
        """A hit gives its smallest primary key, the neighbour below its greatest."""
        target = self.encode(get.key)
        entries = self._entries(get.secondary_index_name)
        exact = first(entry for entry in entries if entry[0] == target)
        lower = last(entry for entry in entries if entry[0] < target)
        higher = first(entry for entry in entries if entry[0] > target)
        found = {
            pb.EQUAL: exact,
            pb.FLOOR: exact or lower,
            pb.LOWER: lower,
            pb.CEILING: exact or higher,
            pb.HIGHER: higher,
        }[get.comparison_type]
        if found is None:
            return pb.GetResponse(status=pb.KEY_NOT_FOUND)
        _, _, secondary, primary = found
        response = self._answer(primary, get.include_value, with_key=True)
        response.secondary_index_key = secondary
        return response

    def list(self, request: pb.ListRequest) -> Sequence[bytes]:
        require_text(request)
        return self._range(request)

    def range_scan(self, request: pb.RangeScanRequest) -> Sequence[pb.GetResponse]:
        require_text(request)
        return [self._answer(key, include_value=True, with_key=True) for key in self._range(request)]

    def notifications(self, after_offset: int) -> Sequence[pb.NotificationBatch]:
        """All batches since."""
        if not self.notifications_enabled:
            raise ModelInvalid("FAILED_PRECONDITION", "oxia: notifications not enabled on namespace")
        return [batch for batch in self.batches if batch.offset > after_offset]

    def highest_sequence_key(self, prefix: bytes) -> bytes | None:
        """What a new watcher of the sequence is told first; None is silence."""
        require_utf8(prefix, "key")
        return sequences.highest_key(prefix, self.records, self.encode)

    def _range(self, request: pb.ListRequest | pb.RangeScanRequest) -> Sequence[bytes]:
        """The primary keys of a range. An empty end is no end; over an index it is the end of nothing."""
        start, end = self.encode(request.start_inclusive), self.encode(request.end_exclusive)
        if request.HasField("secondary_index_name"):
            entries = self._entries(request.secondary_index_name)
            return [primary for secondary, _, _, primary in entries if start <= secondary < end]
        keys = self._keys(request.include_internal_keys)
        return [
            key for key in keys if start <= self.encode(key) and (not request.end_exclusive or self.encode(key) < end)
        ]

    def _keys(self, include_internal: bool) -> Sequence[bytes]:
        keys = [key for key in self.records if include_internal or not is_internal(key)]
        return sorted(keys, key=self.encode)

    def _entries(self, index_name: bytes) -> Sequence[IndexEntry]:
        """One per record and secondary key."""
        return sorted(
            (self.encode(secondary), path_escaped(primary), secondary, primary)
            for primary, record in self.records.items()
            for name, secondary in record.indexes
            if name == index_name
        )

    def _answer(self, key: bytes | None, include_value: bool, with_key: bool = False) -> pb.GetResponse:
        if key is None:
            return pb.GetResponse(status=pb.KEY_NOT_FOUND)
        record = self.records[key]
        return pb.GetResponse(
            status=pb.OK,
            version=record.version(),
            value=record.value if include_value else None,
            key=key if with_key else None,
        )


def first(items: Iterable[Item]) -> Item | None:
    return next(iter(items), None)


def last(items: Iterable[Item]) -> Item | None:
    return first(reversed([*items]))
