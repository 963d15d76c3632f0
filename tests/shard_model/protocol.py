"""What a state machine asks of a shard: messages as bytes, in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from metastore.server.errors import RpcError


class ShardUnderTest(Protocol):
    """One shard in this process, on a clock that the test moves. What it refuses it raises as an RpcError."""

    def write(self, raw: bytes) -> bytes:
        """A WriteRequest; returns the WriteResponse once it is durable."""

    def write_together(self, raws: Sequence[bytes]) -> Sequence[bytes | RpcError]:
        """Several WriteRequests that wait at the same time, in this order; a refusal touches no other."""

    def read(self, raw: bytes) -> Sequence[bytes]:
        """A ReadRequest; returns ReadResponses."""

    def list(self, raw: bytes) -> Sequence[bytes]:
        """A ListRequest; returns ListResponses."""

    def range_scan(self, raw: bytes) -> Sequence[bytes]:
        """A RangeScanRequest; returns RangeScanResponses."""

    def create_session(self, timeout_ms: int, identity: bytes) -> int: ...

    def keep_alive(self, session_id: int) -> None: ...

    def close_session(self, session_id: int) -> None: ...

    def expire_sessions(self) -> None:
        """Ends, in one write, the sessions whose time is over; the test calls it after moving the clock."""

    def notifications(self, after_offset: int) -> Sequence[bytes]:
        """All stored NotificationBatches after an offset."""

    def highest_sequence_key(self, prefix: bytes) -> bytes | None:
        """What a new watcher of the sequence would be told first."""

    def settle(self) -> None:
        """Lets the index catch up with the log, so that later reads find in it what they found beside it."""

    def restart(self, clean: bool) -> None:
        """Opens the shard again, after closing it or after dropping it as a crash would."""

    def close(self) -> None: ...
