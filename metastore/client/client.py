"""The operations of a namespace: one call each, on the shard that the key lives on, or on all of them."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from types import TracebackType
from typing import Self, TypeVar

from metastore.client import answers, wire
from metastore.client.channel import AnswerStream, Connection, Pause
from metastore.client.failures import Action
from metastore.client.merging import ServerOrder
from metastore.client.security import Security
from metastore.client.session import DEFAULT_TIMEOUT_MS, Session
from metastore.client.streams import NotificationStream, SequenceUpdates
from metastore.client.transport import Transport
from metastore.client.values import Comparison, PutResult, Record
from metastore.client.wire import AnswerT
from metastore.clock import Clock, SystemClock
from metastore.pb import oxia_pb2 as pb

ItemT = TypeVar("ItemT")

DEFAULT_ADDRESS = "localhost:6648"
DEFAULT_NAMESPACE = "default"
DEFAULT_REQUEST_TIMEOUT_S = 30.0


class Client:
    """A client of one namespace. It connects with the first operation, and may be used by several threads.

    `key_sorting` must be the namespace's, which the server does not tell: it decides how the answers of
    several shards are put together.

    Every operation that names a key or a range may name a `partition_key`, which then decides the shard
    instead.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        security: Security | None = None,
        request_timeout_s: float = DEFAULT_REQUEST_TIMEOUT_S,
        key_sorting: str = "hierarchical",
        clock: Clock | None = None,
        pause: Pause = time.sleep,
    ) -> None:
        self._order = ServerOrder(key_sorting)
        self._connection = Connection(
            Transport(security or Security()),
            address,
            namespace,
            request_timeout_s,
            clock or SystemClock(),
            pause,
        )
        self._sessions: list[Session] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees the connections and ends what is under way. Sessions still open are left to expire."""
        for session in self._sessions:
            session.abandon()
        self._connection.close()

    def shard_ids(self) -> tuple[int, ...]:
        """The namespace's shards, as `notifications` tells them apart."""
        return tuple(shard.shard_id for shard in self._connection.shards())

    def put(
        self,
        key: str,
        value: bytes,
        *,
        expected_version: int | None = None,
        partition_key: str | None = None,
        sequence_deltas: Sequence[int] = (),
        secondary_indexes: Iterable[tuple[str, str]] = (),
        session: Session | None = None,
        identity: str | None = None,
    ) -> PutResult:
        """Stores a record: a new one, or in place of the one there is.

        `expected_version` makes it conditional: on that version id, or with ABSENT on there being no
        record. `sequence_deltas` makes `key` the prefix of a generated one: each delta is added to the
        number in its place of the sequence's greatest key. `secondary_indexes` are (index name, secondary
        key) pairs; they replace all that the record had. With a `session` the record is ephemeral, and
        bears the session's identity.
        """
        if session is not None and identity is None:
            identity = session.identity
        put = wire.put_request(
            key,
            value,
            expected_version=expected_version,
            partition_key=partition_key,
            sequence_deltas=sequence_deltas,
            secondary_indexes=secondary_indexes,
            identity=identity,
        )
        shard_id = self._owner(key, partition_key)
        session_id = None
        if session is not None:
            session_id = put.session_id = session.open_on(shard_id)
        message = self._write(pb.WriteRequest(shard=shard_id, puts=[put]), f"put {key!r}")
        return answers.put_result(message, key, expected_version, session_id)

    def get(
        self,
        key: str,
        *,
        comparison: Comparison = Comparison.EQUAL,
        index: str | None = None,
        partition_key: str | None = None,
        include_value: bool = True,
    ) -> Record:
        """The record with this key, or the nearest; by an index, with this secondary key, or the nearest.

        Only a plain get, or one with a partition key, knows its shard; any other asks them all.
        """
        get = wire.get_request(key, comparison, index, include_value)
        scattered = partition_key is None and (index is not None or comparison is not Comparison.EQUAL)
        shard_ids = self._shards_of(None) if scattered else (self._owner(key, partition_key),)
        with ExitStack() as streams:
            asked = [streams.enter_context(self._read(shard_id, get, key)) for shard_id in shard_ids]
            found = [answers.got_record(stream, key, include_value) for stream in asked]
        record = self._order.nearest([one for one in found if one is not None], key, comparison)
        if record is None:
            raise answers.nothing_found(key, comparison, index)
        return record

    def delete(
        self, key: str, *, expected_version: int | None = None, partition_key: str | None = None
    ) -> None:
        """Deletes a record; with `expected_version`, only if that is its version id."""
        delete = wire.delete_request(key, expected_version, partition_key)
        shard_id = self._owner(key, partition_key)
        message = self._write(pb.WriteRequest(shard=shard_id, deletes=[delete]), f"delete {key!r}")
        answers.check_delete(message, key, expected_version)

    def delete_range(self, start: str, end: str, *, partition_key: str | None = None) -> None:
        """Deletes the records from `start` to before `end`, on one shard after another."""
        delete_range = wire.delete_range_request(start, end)
        for shard_id in self._shards_of(partition_key):
            request = pb.WriteRequest(shard=shard_id, delete_ranges=[delete_range])
            message = self._write(request, f"delete range [{start!r}, {end!r}) on shard {shard_id}")
            answers.check_delete_range(message, start, end)

    def list(
        self,
        start: str = "",
        end: str = "",
        *,
        index: str | None = None,
        partition_key: str | None = None,
        include_internal: bool = False,
    ) -> Generator[str, None, None]:
        """The keys from `start` to before `end` (if empty, to the last), in order, as they arrive.

        With `index`, the range is one of its secondary keys, and the (primary) keys come in their order,
        but one shard after another, because the answers do not hold them.
        """
        key_range = wire.KeyRange(start, end, index, include_internal)
        streams = [
            self._connection.stream(
                shard_id,
                wire.LIST,
                key_range.list_request(shard_id),
                Action(f"list {key_range}"),
                first_within_s=self._connection.request_timeout_s,
            )
            for shard_id in self._shards_of(partition_key)
        ]
        keys = [chain.from_iterable(map(answers.listed_keys, stream)) for stream in streams]
        return _together(streams, self._order.merged(keys, lambda key: key, index))

    def range_scan(
        self,
        start: str = "",
        end: str = "",
        *,
        index: str | None = None,
        partition_key: str | None = None,
        include_internal: bool = False,
    ) -> Generator[Record, None, None]:
        """Like `list`, but the records themselves."""
        key_range = wire.KeyRange(start, end, index, include_internal)
        streams = [
            self._connection.stream(
                shard_id,
                wire.RANGE_SCAN,
                key_range.scan_request(shard_id),
                Action(f"scan {key_range}"),
                first_within_s=self._connection.request_timeout_s,
            )
            for shard_id in self._shards_of(partition_key)
        ]
        records = [chain.from_iterable(map(answers.scanned_records, stream)) for stream in streams]
        return _together(streams, self._order.merged(records, lambda record: record.key, index))

    def session(self, timeout_ms: int = DEFAULT_TIMEOUT_MS, *, identity: str = "") -> Session:
        """A session for ephemeral puts; a shard knows of it from the first one there."""
        session = Session(self._connection, timeout_ms, identity)
        self._sessions = [*(earlier for earlier in self._sessions if not earlier.ended), session]
        return session

    def notifications(self, after: Mapping[int, int] | None = None) -> NotificationStream:
        """The changes of all shards from now on, or after the offset given for a shard (-1: all kept)."""
        return NotificationStream(self._connection, after or {})

    def sequence_updates(self, prefix: str, *, partition_key: str) -> SequenceUpdates:
        """The greatest key of a sequence now, and whenever there is another."""
        return SequenceUpdates(self._connection, prefix, partition_key)

    def _owner(self, key: str, partition_key: str | None) -> int:
        return self._connection.owner(key if partition_key is None else partition_key)

    def _shards_of(self, partition_key: str | None) -> tuple[int, ...]:
        """The shards over which a range of keys is spread."""
        return self.shard_ids() if partition_key is None else (self._connection.owner(partition_key),)

    def _write(self, request: pb.WriteRequest, what: str) -> pb.WriteResponse:
        return self._connection.unary(request.shard, wire.WRITE, request, Action(what, writes=True))

    def _read(self, shard_id: int, get: pb.GetRequest, key: str) -> AnswerStream[pb.ReadResponse]:
        request = pb.ReadRequest(shard=shard_id, gets=[get])
        timeout_s = self._connection.request_timeout_s
        return self._connection.stream(
            shard_id, wire.READ, request, Action(f"get {key!r}"), timeout_s=timeout_s
        )


def _together(
    streams: Sequence[AnswerStream[AnswerT]], items: Iterator[ItemT]
) -> Generator[ItemT, None, None]:
    """The items; all streams end with the iteration, however it ends."""
    try:
        yield from items
    finally:
        for stream in streams:
            stream.close()
