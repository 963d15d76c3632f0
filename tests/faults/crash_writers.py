"""Writers that go on until their server is gone."""

from __future__ import annotations

import threading

import grpc
from crash_ledger import Ledger

from linearizability.history import Progress
from metastore.pb import oxia_pb2 as pb
from support.wire import Ended, WireClient

STREAM_METADATA = (("shard-id", "0"), ("namespace", "default"))
SESSION_TIMEOUT_MS = 300_000
ANSWER_WITHIN_S = 30.0
BATCHES_MAX = 20_000
"""A writer that has written so many waits for a fault that never comes."""


class Writer(threading.Thread):
    """Writes a ledger's batches on one stream, so many ahead of their answers."""

    def __init__(self, address: str, ledger: Ledger, window: int, progress: Progress) -> None:
        super().__init__(name=f"writer of {ledger.prefix.decode()}", daemon=True)
        self.failure: BaseException | None = None
        self._address = address
        self._ledger = ledger
        self._window = window
        self._progress = progress
        progress.begin()

    def run(self) -> None:
        try:
            with WireClient(self._address) as wire:
                if self._begin_session(wire):
                    self._write(wire)
        except BaseException as failure:  # the test's own thread raises it again
            self.failure = failure
        finally:
            self._progress.end()

    def _begin_session(self, wire: WireClient) -> bool:
        """False if the server has gone away."""
        if self._ledger.session_id is None:
            request = pb.CreateSessionRequest(shard=0, session_timeout_ms=SESSION_TIMEOUT_MS)
            answer = wire.call("CreateSession", request, timeout_s=ANSWER_WITHIN_S)
            if answer.status.code is grpc.StatusCode.UNAVAILABLE:
                return False
            self._ledger.session_id = answer.only.session_id
        return True

    def _write(self, wire: WireClient) -> None:
        """Returns when the server has gone away."""
        stream = wire.open("WriteStream", metadata=STREAM_METADATA)
        try:
            for _ in range(BATCHES_MAX):
                while self._ledger.unanswered_count < self._window:
                    stream.send(self._ledger.plan().request)
                self._ledger.answered(stream.next(ANSWER_WITHIN_S))
                self._progress.count()
        except Ended as end:
            if end.status.code is not grpc.StatusCode.UNAVAILABLE:
                raise
        else:
            raise AssertionError(f"{BATCHES_MAX} batches are written, and nothing has killed the server")
        finally:
            stream.cancel()
