"""Rounds of life and death of one server: audit, write until it is dead, start again."""

from __future__ import annotations

import random
from collections.abc import Sequence

import grpc
from crash_audit import Chronicle, ServerGone, audit, lost_or_wrong
from crash_ledger import Ledger
from crash_server import FaultyServer
from crash_writers import Writer

from linearizability.history import Progress
from metastore.pb import oxia_pb2 as pb
from support.wire import WireClient

WINDOWS = (1, 4, 24)
"""How many batches each of the writers is ahead of its answers."""
ANSWERS_BEFORE_KILL_MAX = 400
NOTIFICATIONS_AGAIN_MAX = 200
"""How many notifications that were seen before are read again after a crash; in the end it is all of them."""
ENDED_WITHIN_S = 60.0
SESSION_ENDS = 0.2
"""The probability that a writer's session is closed between two rounds."""


class Rounds:
    """A server, its writers' ledgers, and all notifications that were ever seen."""

    def __init__(
        self, server: FaultyServer, seed: int, value_bytes_max: int, growth: float, is_trimmed: bool = False
    ) -> None:
        self.server = server
        self.random = random.Random(seed)
        self.ledgers = [Ledger(writer, seed + writer, value_bytes_max, growth) for writer in range(len(WINDOWS))]
        self.chronicle = Chronicle(is_trimmed)
        self.kills = 0
        self.oldest_retained = 0

    def run(self, faults: Sequence[str | None]) -> None:
        """One round for each fault; None kills the server from outside, at a random moment."""
        for fault in faults:
            try:
                self._run(fault)
            except BaseException as error:
                error.add_note(f"round {self.kills}, fault {fault}")
                raise
        self.server.kill()
        self.server.arm(None)
        self.server.start()
        self.oldest_retained = audit(self.server.address, self.ledgers, self.chronicle, start=-1)

    def _run(self, fault: str | None) -> None:
        if self._begin(fault):
            self._write_until_killed(fault)
            self.kills += 1

    def _begin(self, fault: str | None) -> bool:
        """Starts the server and audits it; False if a fault has killed it meanwhile: then again, without one."""
        self.server.kill()
        self.server.arm(fault)
        if self.server.starts():
            try:
                self._audit()
                self._end_sessions()
            except ServerGone:
                self.server.wait_until_killed()
            else:
                return True
        assert fault is not None, "nothing was to kill the server"
        self.kills += 1
        self._begin(None)
        return False

    def _audit(self) -> None:
        start = self.chronicle.last_offset - self.random.randint(0, NOTIFICATIONS_AGAIN_MAX)
        audit(self.server.address, self.ledgers, self.chronicle, max(-1, start))

    def _end_sessions(self) -> None:
        """Closes some sessions that have records. Raises ServerGone."""
        with WireClient(self.server.address) as wire:
            for ledger in self.ledgers:
                session_id = ledger.session_id
                if session_id is not None and ledger.session_keys() and self.random.random() < SESSION_ENDS:
                    ledger.is_session_ending = True
                    request = pb.CloseSessionRequest(shard=0, session_id=session_id)
                    status = wire.call("CloseSession", request).status
                    if status.code is not grpc.StatusCode.OK:
                        raise lost_or_wrong(status)
                    ledger.session_ended()

    def _write_until_killed(self, fault: str | None) -> None:
        progress = Progress()
        writers = [
            Writer(self.server.address, ledger, window, progress)
            for ledger, window in zip(self.ledgers, WINDOWS, strict=True)
        ]
        with WireClient(self.server.address) as wire:
            start = pb.NotificationsRequest(shard=0, start_offset_exclusive=self.chronicle.last_offset)
            subscriber = wire.open("GetNotifications", start)
            for writer in writers:
                writer.start()
            if fault is None:
                progress.wait_for(self.random.randint(1, ANSWERS_BEFORE_KILL_MAX))
                self.server.kill()
            else:
                self.server.wait_until_killed()
            for writer in writers:
                writer.join(ENDED_WITHIN_S)
                assert not writer.is_alive(), "a writer has not noticed that its server is gone"
            self.chronicle.add(subscriber.rest(ENDED_WITHIN_S).messages[1:])
        failures = [writer.failure for writer in writers if writer.failure is not None]
        assert not failures, failures

    @property
    def acknowledged_count(self) -> int:
        return sum(ledger.acknowledged_count for ledger in self.ledgers)

    def report(self) -> str:
        """The counts, in one line."""
        unannounced = sum(ledger.unannounced_count for ledger in self.ledgers)
        lost = sum(ledger.lost_count for ledger in self.ledgers)
        return (
            f"{self.kills} kills, {self.acknowledged_count} batches acknowledged,"
            f" {unannounced} there without an answer, {lost} not there: 0 violations"
        )
