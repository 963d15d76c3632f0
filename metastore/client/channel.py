"""The way to the shards: their assignments, deadlines, and a second try for what was certainly not done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self

import grpc

from metastore.client.errors import (
    ClientError,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidRequest,
    NotReady,
    ServerFailure,
)
from metastore.client.failures import Action, error_of
from metastore.client.routing import Shard, ShardMap, shard_map
from metastore.client.transport import StreamedCall, Transport, checked_address
from metastore.client.wire import ASSIGNMENTS, AnswerT, Method, RequestT, to_wire
from metastore.clock import Clock
from metastore.pb import oxia_pb2 as pb

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0

Pause = Callable[[float], None]


class Patience:
    """How long one request may take, and when to make it again if nothing was done."""

    def __init__(self, clock: Clock, pause: Pause, timeout_s: float) -> None:
        self._clock = clock
        self._pause = pause
        self._deadline_s = clock.monotonic_s() + timeout_s
        self._next_pause_s = FIRST_PAUSE_S

    def remaining_s(self) -> float:
        return max(0.0, self._deadline_s - self._clock.monotonic_s())

    def absorb(self, error: ClientError) -> None:
        """Waits a little if the request can be made again in time; else raises the error."""
        if not isinstance(error, NotReady) or self._next_pause_s >= self.remaining_s():
            raise error
        self._pause(self._next_pause_s)
        self._next_pause_s = min(2 * self._next_pause_s, LONGEST_PAUSE_S)


class Connection:
    """The shards of one namespace and their leaders. Safe for use by several threads."""

    def __init__(
        self,
        transport: Transport,
        address: str,
        namespace: str,
        request_timeout_s: float,
        clock: Clock,
        pause: Pause = time.sleep,
    ) -> None:
        if request_timeout_s <= 0:
            raise InvalidRequest(
                f"a request timeout of {request_timeout_s} s leaves no time: give more than 0"
            )
        self.clock = clock
        self.request_timeout_s = request_timeout_s
        self._transport = transport
        self._address = checked_address(address)
        self._namespace = namespace
        self._pause = pause
        self._shards: ShardMap | None = None

    def close(self) -> None:
        self._transport.close()

    def shards(self) -> tuple[Shard, ...]:
        """All shards, ascending by the hashes they own."""
        return self._assignments(self._patience(None)).shards

    def owner(self, routing_key: str) -> int:
        """The id of the shard of a key, or of a partition key."""
        return self._assignments(self._patience(None)).owner(to_wire(routing_key)).shard_id

    def unary(
        self,
        shard_id: int,
        method: Method[RequestT, AnswerT],
        request: RequestT,
        action: Action,
        timeout_s: float | None = None,
    ) -> AnswerT:
        """One request to a shard's leader, one answer."""
        patience = self._patience(timeout_s)
        while True:
            leader = self._leader(shard_id, patience)
            try:
                return self._transport.unary(leader, method, request, patience.remaining_s())
            except grpc.RpcError as failed:
                self._recover(error_of(failed, action.at(leader)), patience)

    def stream(
        self,
        shard_id: int,
        method: Method[RequestT, AnswerT],
        request: RequestT,
        action: Action,
        *,
        timeout_s: float | None = None,
        first_within_s: float | None = None,
    ) -> AnswerStream[AnswerT]:
        """One request to a shard's leader, many answers. It is sent at once, before anybody asks for them.

        All answers must come within `timeout_s`, or at least the first within `first_within_s`, where given.
        """
        patience = self._patience(timeout_s)

        def begin() -> tuple[str, StreamedCall[AnswerT]]:
            leader = self._leader(shard_id, patience)
            deadline_s = None if timeout_s is None else patience.remaining_s()
            return leader, self._transport.stream(leader, method, request, deadline_s)

        def recover(error: ClientError) -> None:
            self._recover(error, patience)

        return AnswerStream(begin, recover, action, first_within_s)

    def _patience(self, timeout_s: float | None) -> Patience:
        return Patience(self.clock, self._pause, self.request_timeout_s if timeout_s is None else timeout_s)

    def _recover(self, error: ClientError, patience: Patience) -> None:
        """Returns if the failed request should be made again; what proved wrong is forgotten in any case."""
        if isinstance(error, NotReady | ConnectionFailed):
            self._shards = None
        patience.absorb(error)

    def _leader(self, shard_id: int, patience: Patience) -> str:
        while True:
            shard = self._assignments(patience).find(shard_id)
            if shard is not None and shard.leader:
                return shard.leader
            what = "no leader" if shard else "gone from the assignments"
            self._recover(NotReady(f"shard {shard_id}: {what} at present: try again in a moment"), patience)

    def _assignments(self, patience: Patience) -> ShardMap:
        shards = self._shards
        if shards is None:
            shards = self._shards = self._fetch_assignments(patience)
        return shards

    def _fetch_assignments(self, patience: Patience) -> ShardMap:
        """Takes the first message and hangs up: a later change shows itself when a leader says it is none."""
        action = Action(f"shard assignments of namespace {self._namespace!r}", self._address)
        request = pb.ShardAssignmentsRequest(namespace=to_wire(self._namespace))
        while True:
            call = self._transport.stream(self._address, ASSIGNMENTS, request, patience.remaining_s())
            try:
                return shard_map(self._namespace, next(call))
            except StopIteration:
                raise ServerFailure(
                    f"{action.text} at {self._address}: the server sent none: look at its log"
                ) from None
            except grpc.RpcError as failed:
                patience.absorb(error_of(failed, action))
            finally:
                call.cancel()


class AnswerStream(Generic[AnswerT]):
    """The answers to one streamed request. Iterated by one thread; may be closed by another.

    With `first_within_s` only the first answer has a deadline: the pace of the others is the reader's.
    """

    def __init__(
        self,
        begin: Callable[[], tuple[str, StreamedCall[AnswerT]]],
        recover: Callable[[ClientError], None],
        action: Action,
        first_within_s: float | None,
    ) -> None:
        self._begin = begin
        self._recover = recover
        self._action = action
        self._answered = False
        self._closed = threading.Event()
        self._too_late = threading.Event()
        self._leader, self._call = begin()
        self._alarm: threading.Timer | None = None
        if first_within_s is not None:
            self._alarm = threading.Timer(first_within_s, self._give_up)
            self._alarm.daemon = True
            self._alarm.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> AnswerT:
        while not self._closed.is_set():
            try:
                answer = next(self._call)
            except grpc.RpcError as failed:
                self._after(failed)
            except StopIteration:
                self.close()
            else:
                self._answered = True
                self._stop_alarm()
                return answer
        raise StopIteration

    def close(self) -> None:
        """Ends the request; whoever waits for an answer gets no more."""
        self._closed.set()
        self._stop_alarm()
        self._call.cancel()

    def _after(self, failed: grpc.RpcError) -> None:
        """Returns if the stream was closed, or another call is under way; else raises what went wrong."""
        if self._closed.is_set():
            return
        try:
            if self._too_late.is_set():
                raise self._no_answer() from failed
            error = error_of(failed, self._action.at(self._leader))
            if self._answered:
                raise error from failed
            self._recover(error)
            self._leader, self._call = self._begin()
        except ClientError:
            self.close()
            raise
        if self._too_late.is_set() or self._closed.is_set():  # said while there was no call to cancel
            self._call.cancel()

    def _give_up(self) -> None:
        self._too_late.set()
        self._call.cancel()

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _no_answer(self) -> DeadlineExceeded:
        return DeadlineExceeded(
            f"{self._action.text} at {self._leader}: no answer in time: "
            "check that the server is healthy, or allow more time"
        )
