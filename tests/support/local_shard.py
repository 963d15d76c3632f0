"""A shard in this process, spoken to in the bytes of the protocol: the engine behind the server's own decoding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from metastore.clock import ManualClock
from metastore.engine.errors import EngineError
from metastore.engine.operations import Range, WriteResult
from metastore.engine.shard import Shard, ShardOptions
from metastore.engine.store import StoreOptions
from metastore.log import LogOptions
from metastore.pb import oxia_pb2
from metastore.server import wire
from metastore.server.calls import records_of, step_by_step
from metastore.server.errors import RpcError, rpc_error

SMALL_STORE = StoreOptions(map_bytes=1 << 20, generation_bytes=8 << 10, lag_bytes_max=64 << 10)
"""So small that generations are fed, and the map grows, in the middle of a test."""
SMALL_LOG = LogOptions(segment_bytes_max=64 << 10, step_bytes_min=16 << 10, reserve_bytes=16 << 10)


T = TypeVar("T")


class LocalShard:
    """One shard under test; what it refuses it raises as RpcError, with the code that a client would get."""

    def __init__(self, directory: Path, sorting: str, clock: ManualClock) -> None:
        self.directory = directory
        self.sorting = sorting
        self.clock = clock
        self.shard = self._open()

    def _open(self) -> Shard:
        options = ShardOptions(key_sorting=self.sorting, store=SMALL_STORE, log=SMALL_LOG)
        return Shard.open(self.directory, options, self.clock)

    def write(self, raw: bytes) -> bytes:
        """A serialized WriteRequest in, a serialized WriteResponse out."""
        return _refusing(lambda: wire.encode_write_result(self.shard.write(wire.decode_write(raw)[1])))

    def write_together(self, raws: Sequence[bytes]) -> Sequence[bytes | RpcError]:
        """Several WriteRequests in one round."""
        answers: dict[int, bytes | RpcError] = {}

        def submit(place: int, raw: bytes) -> None:
            def done(result: WriteResult | None, error: BaseException | None) -> None:
                if result is None:
                    answers[place] = _refusal(error)
                else:
                    answers[place] = wire.encode_write_result(result)

            try:
                self.shard.submit_write(wire.decode_write(raw)[1], done)
            except (EngineError, wire.WireError) as error:
                done(None, error)

        def submit_all() -> None:
            for place, raw in enumerate(raws):
                submit(place, raw)

        self.shard.rounds.between_rounds(submit_all)
        return [answers[place] for place in range(len(raws))]

    def read(self, raw: bytes) -> Sequence[bytes]:
        """A serialized ReadRequest in, serialized ReadResponses out."""
        return _refusing(lambda: self._read(raw))

    def _read(self, raw: bytes) -> Sequence[bytes]:
        _, keys, gets = wire.decode_read(raw)
        if keys:
            return list(step_by_step(keys, lambda step: records_of(self.shard, step)))
        return list(step_by_step(gets, lambda step: list(map(wire.encode_found, step, self.shard.get_many(step)))))

    def list(self, raw: bytes) -> Sequence[bytes]:
        """A serialized ListRequest in, serialized ListResponses out."""
        return _refusing(lambda: self._scan(oxia_pb2.ListRequest.FromString(raw), keys_only=True))

    def range_scan(self, raw: bytes) -> Sequence[bytes]:
        """A serialized RangeScanRequest in, serialized RangeScanResponses out."""
        return _refusing(lambda: self._scan(oxia_pb2.RangeScanRequest.FromString(raw), keys_only=False))

    def _scan(self, request: oxia_pb2.ListRequest | oxia_pb2.RangeScanRequest, keys_only: bool) -> Sequence[bytes]:
        name = request.secondary_index_name if request.HasField("secondary_index_name") else None
        wanted = Range(request.start_inclusive, request.end_exclusive, name, request.include_internal_keys)
        messages: list[bytes] = []
        with self.shard.list_keys(wanted) if keys_only else self.shard.scan(wanted) as scan:
            while chunk := scan.next_chunk():
                messages += wire.join_keys(chunk) if keys_only else wire.join_records(chunk)
        return messages

    def create_session(self, timeout_ms: int, identity: bytes) -> int:
        """A new session's id."""
        return _refusing(lambda: self.shard.create_session(timeout_ms, identity))

    def keep_alive(self, session_id: int) -> None:
        """A heartbeat."""
        _refusing(lambda: self.shard.keep_alive(session_id))

    def close_session(self, session_id: int) -> None:
        """Ends a session."""
        _refusing(lambda: self.shard.close_session(session_id))

    def expire_sessions(self) -> None:
        """Ends the sessions whose time is over."""
        self.shard.expire_sessions()

    def settle(self) -> None:
        """LMDB catches up."""
        self.shard.feeder.feed_all()

    def notifications(self, after_offset: int) -> Sequence[bytes]:
        """Serialized NotificationBatches behind an offset."""
        messages = []
        offset = after_offset + 1
        while batches := self.shard.notifications(offset, 1 << 20):
            messages += [wire.encode_notifications(0, batch) for batch in batches]
            offset = batches[-1].offset + 1
        return messages

    def highest_sequence_key(self, prefix: bytes) -> bytes | None:
        """The newest key of a sequence."""
        return self.shard.highest_sequence_key(prefix)

    def restart(self, clean: bool) -> None:
        """Closes and opens again; uncleanly LMDB is left behind, as by a crash."""
        if clean:
            self.shard.close()
        else:
            self.shard.abandon()
        self.shard = self._open()

    def close(self) -> None:
        """Ends."""
        self.shard.close()


def _refusing(action: Callable[[], T]) -> T:
    try:
        return action()
    except (EngineError, wire.WireError) as error:
        raise _refusal(error) from error


def _refusal(error: BaseException | None) -> RpcError:
    assert error is not None
    known = rpc_error(error)
    assert known is not None, f"an error that no client should see: {error!r}"
    return known
