"""What a state machine asks of a shard: messages as bytes, in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ShardRefused(Exception):
    """The shard refused a whole request; `code` is the name of the gRPC status code."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class ShardUnderTest(Protocol):
    """One shard in this process, on a clock that the test moves. Every method may raise ShardRefused."""

    def write(self, raw: bytes) -> bytes:
        """A WriteRequest; returns the WriteResponse once it is durable."""

    def write_together(self, raws: Sequence[bytes]) -> Sequence[bytes | ShardRefused]:
        """Several WriteRequests that wait at the same time, in this order; one refusal does not touch the others."""

    def read(self, raw: bytes) -> Sequence[bytes]:
        """A ReadRequest; returns ReadResponses."""

    def list(self, raw: bytes) -> Sequence[bytes]:
        """A ListRequest; returns ListResponses."""

    def range_scan(self, raw: bytes) -> Sequence[bytes]:
        """A RangeScanRequest; returns RangeScanResponses."""

    def create_session(self, timeout_ms: int, identity: bytes) -> int: ...

    def keep_alive(self, session_id: int) -> None: ...

    def close_session(self, session_id: int) -> None: ...

    def expire(self) -> None:
        """Ends, in one write, the sessions whose time is over by the clock; the test calls it after moving that."""

    def notifications(self, after_offset: int) -> Sequence[bytes]:
        """All stored NotificationBatches after an offset."""

    def highest_sequence_key(self, prefix: bytes) -> bytes | None:
        """What a new watcher of the sequence would be told first."""

    def settle(self) -> None:
        """Lets the index catch up with the log, so that later reads find in it what they found beside it."""

    def restart(self, clean: bool) -> None:
        """Opens the shard again, after closing it or after dropping it as a crash would."""

    def close(self) -> None: ...
