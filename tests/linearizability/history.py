"""Concurrent clients of a real server that write down what they asked, when, and what came back."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from linearizability.operations import (
    NO_RECORD,
    Action,
    Answer,
    Conflict,
    Delete,
    Deleted,
    Found,
    Get,
    Missing,
    Operation,
    Put,
    Stored,
)
from metastore.pb import oxia_pb2 as pb
from support.wire import Ended, Stream, WireClient

ANSWER_WITHIN_S = 20.0
SERVER_UP_WITHIN_S = 60.0


class NoAnswer(Exception):
    """The server has gone away: nobody knows what has become of the request."""


class Progress:
    """Counts the operations of all clients, and lets the test wait for a number of them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._done = 0
        self._running = 0
        self._histories: list[list[Operation]] = []
        self.server_up = threading.Event()
        self.server_up.set()

    def begin(self) -> None:
        with self._changed:
            self._running += 1

    def keep(self, history: list[Operation]) -> None:
        """What a client notes is among what is noted."""
        with self._changed:
            self._histories.append(history)

    def end(self) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()

    def count(self) -> None:
        with self._changed:
            self._done += 1
            self._changed.notify_all()

    def noted(self) -> list[Operation]:
        """What all clients have noted so far."""
        with self._changed:
            return [operation for history in self._histories for operation in history]

    def wait_for(self, operations: int) -> None:
        """Returns when so many operations are done, or no client is left to do them."""
        with self._changed:
            self._changed.wait_for(lambda: self._done >= operations or self._running == 0)


@dataclass(frozen=True)
class Plan:
    """What one client does: so many operations on these keys, chosen by this seed."""

    client: int
    seed: int
    keys: Sequence[bytes]
    operations: int
    shard: int = 0
    namespace: str = "default"


class RecordingClient(threading.Thread):
    """One client: one operation after the other; clients with odd numbers write on a stream."""

    def __init__(self, address: str, plan: Plan, progress: Progress) -> None:
        super().__init__(name=f"client {plan.client}", daemon=True)
        self.plan = plan
        self.progress = progress
        self.history: list[Operation] = []
        self.failure: BaseException | None = None
        self._random = random.Random(plan.seed)
        self._wire = WireClient(address)
        self._stream_metadata = (("shard-id", str(plan.shard)), ("namespace", plan.namespace))
        self._stream: Stream | None = None
        self._last_seen: dict[bytes, int] = {}
        progress.begin()
        progress.keep(self.history)

    def run(self) -> None:
        try:
            for number in range(self.plan.operations):
                self._operate(number)
                self.progress.count()
        except BaseException as failure:  # the test's own thread raises it again
            self.failure = failure
        finally:
            self._wire.close()
            self.progress.end()

    def _operate(self, number: int) -> None:
        key = self._random.choice(self.plan.keys)
        action = self._choose(key, b"%d-%d" % (self.plan.client, number))
        invoked = time.monotonic_ns()
        try:
            answer = self._ask(key, action)
        except NoAnswer:
            if not isinstance(action, Get):  # a read without an answer tells nothing
                self.history.append(Operation(self.plan.client, key, action, invoked))
            self._connect_again()
            return
        returned = time.monotonic_ns()
        self.history.append(Operation(self.plan.client, key, action, invoked, returned, answer))
        if isinstance(answer, Stored | Found):
            self._last_seen[key] = answer.version_id
        elif isinstance(answer, Missing | Deleted):
            self._last_seen[key] = NO_RECORD

    def _connect_again(self) -> None:
        """On a new channel: the old one would fail further calls at once until its back-off is over."""
        assert self.progress.server_up.wait(SERVER_UP_WITHIN_S), "the server did not come back"
        self._wire.close()
        self._wire, self._stream = WireClient(self._wire.address), None

    def _choose(self, key: bytes, value: bytes) -> Action:
        last_seen = self._last_seen.get(key, NO_RECORD)
        expected = last_seen if last_seen != NO_RECORD else None
        actions: list[Action] = [Get(), Put(value), Put(value, last_seen), Delete(), Delete(expected)]
        return self._random.choices(actions, [40, 20, 30, 4, 6])[0]

    # ---------------------------------------------------------------- the protocol

    def _ask(self, key: bytes, action: Action) -> Answer:
        if isinstance(action, Get):
            return self._get(key)
        if isinstance(action, Put):
            put = pb.PutRequest(key=key, value=action.value, expected_version_id=action.expected)
            response = self._write(pb.WriteRequest(shard=self.plan.shard, puts=[put])).puts[0]
            if response.status == pb.UNEXPECTED_VERSION_ID:
                return Conflict()
            assert response.status == pb.OK, response
            return Stored(response.version.version_id, response.version.modifications_count)
        delete = pb.DeleteRequest(key=key, expected_version_id=action.expected)
        status = self._write(pb.WriteRequest(shard=self.plan.shard, deletes=[delete])).deletes[0].status
        answers: dict[pb.Status.ValueType, Answer] = {
            pb.OK: Deleted(),
            pb.KEY_NOT_FOUND: Missing(),
            pb.UNEXPECTED_VERSION_ID: Conflict(),
        }
        return answers[status]

    def _get(self, key: bytes) -> Answer:
        request = pb.ReadRequest(shard=self.plan.shard, gets=[pb.GetRequest(key=key, include_value=True)])
        read: pb.ReadResponse = self._unary("Read", request)
        response = read.gets[0]
        if response.status == pb.KEY_NOT_FOUND:
            return Missing()
        assert response.status == pb.OK, response
        return Found(response.value, response.version.version_id, response.version.modifications_count)

    def _write(self, request: pb.WriteRequest) -> pb.WriteResponse:
        response: pb.WriteResponse
        if self.plan.client % 2 == 0:
            response = self._unary("Write", request)
            return response
        if self._stream is None:
            self._stream = self._wire.open("WriteStream", metadata=self._stream_metadata)
        self._stream.send(request)
        try:
            response = self._stream.next(ANSWER_WITHIN_S)
        except Ended as end:
            raise lost_or_wrong(end.status.code, end) from end
        return response

    def _unary(self, method: str, request: pb.WriteRequest | pb.ReadRequest) -> Any:
        """The method's own kind of response."""
        answer = self._wire.call(method, request, timeout_s=ANSWER_WITHIN_S)
        if answer.status.code is not grpc.StatusCode.OK:
            raise lost_or_wrong(answer.status.code, answer.status)
        return answer.only


def lost_or_wrong(code: grpc.StatusCode, what: object) -> Exception:
    """A call may fail because the server is gone; any other failure, or a call that hangs, is wrong."""
    return NoAnswer() if code is grpc.StatusCode.UNAVAILABLE else AssertionError(f"a client got {what}")
