"""The calls that answer and end: writes, sessions, and the streamed reads.

A handler gets the messages of one call. What it streams it produces a few messages ahead of its reader and no
further: the transport asks for more when they are passed on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from metastore.engine.operations import Range
from metastore.engine.scan import Scan
from metastore.engine.shard import Shard
from metastore.pb import oxia_pb2
from metastore.server import wire
from metastore.server.errors import RpcError, rpc_error
from metastore.server.host import Host
from metastore.server.transport import Call

AHEAD_MESSAGES_MAX = 4
"""Messages that a stream produces ahead of its reader."""
READ_STEP_GETS = 256
"""Gets of one request that are answered in one go."""

M = TypeVar("M", bound=Message)
T = TypeVar("T")


class Report(Protocol):
    """Where errors go that nobody foresaw."""

    def __call__(self, where: str, error: BaseException) -> None: ...


def parse(kind: type[M], data: bytes) -> M:
    """A message of that kind."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise wire.WireError(f"not a {kind.DESCRIPTOR.name}: {error}") from None


class OneRequest:
    """A call with one request. Subclasses answer in `handle`; what they raise ends the call."""

    def __init__(self, call: Call, host: Host, report: Report) -> None:
        self.call = call
        self.host = host
        self.report = report

    def handle(self, message: bytes) -> None:
        """Answers the request, or begins to."""
        raise NotImplementedError

    def on_message(self, message: bytes) -> None:
        """The request is there."""
        try:
            self.handle(message)
        except Exception as error:
            self.fail(error)

    def on_half_close(self) -> None:
        """Nothing more will come."""

    def on_drained(self) -> None:
        """There is room for more answers."""

    def on_over(self) -> None:
        """The call has ended."""

    def guarded(self, action: Callable[[], T]) -> T | None:
        """Does something; an error of it ends the call."""
        try:
            return action()
        except Exception as error:
            self.fail(error)
            return None

    def fail(self, error: BaseException) -> None:
        """Ends the call with an error."""
        known = rpc_error(error)
        if known is None:
            self.report(self.call.method, error)
            known = RpcError(grpc.StatusCode.INTERNAL, "internal error")
        self.call.finish(known.code, known.message, known.trailing_metadata())

    def cut_off(self, error: RpcError) -> None:
        """Ends the call with an error now, where `fail` would wait until the client takes what was sent before."""
        self.call.cancel(error.code, error.text)

    def answer(self, encode: Callable[[Any], bytes]) -> Callable[[Any, BaseException | None], None]:
        """What to call with the outcome of a write: replies with its encoded result, or fails."""

        def done(result: Any, error: BaseException | None) -> None:
            if error is not None:
                self.fail(error)
            else:
                self.call.reply(encode(result))

        return done


class WriteCall(OneRequest):
    """Write: one request by itself."""

    def handle(self, message: bytes) -> None:
        shard_id, batch = wire.decode_write(message)
        self.host.shard(shard_id).shard.submit_write(batch, self.answer(wire.encode_write_result))


class CreateSessionCall(OneRequest):
    """CreateSession."""

    def handle(self, message: bytes) -> None:
        request = parse(oxia_pb2.CreateSessionRequest, message)
        shard = self.host.shard(request.shard).shard
        done = self.answer(_encode_session)
        shard.submit_create_session(request.session_timeout_ms, request.client_identity, done)


class KeepAliveCall(OneRequest):
    """KeepAlive."""

    def handle(self, message: bytes) -> None:
        request = parse(oxia_pb2.SessionHeartbeat, message)
        self.host.shard(request.shard).shard.keep_alive(request.session_id)
        self.call.reply(b"")


class CloseSessionCall(OneRequest):
    """CloseSession."""

    def handle(self, message: bytes) -> None:
        request = parse(oxia_pb2.CloseSessionRequest, message)
        shard = self.host.shard(request.shard).shard
        shard.submit_close_session(request.session_id, self.answer(_encode_nothing))


def _encode_session(session_id: int) -> bytes:
    return oxia_pb2.CreateSessionResponse(session_id=session_id).SerializeToString()


def _encode_nothing(_: object) -> bytes:
    return b""


class StreamedAnswer(OneRequest):
    """A call whose answers come from an iterator, a few ahead of their reader."""

    def __init__(self, call: Call, host: Host, report: Report) -> None:
        super().__init__(call, host, report)
        self._messages: Iterator[bytes] = iter(())
        self.produced = 0
        """Messages so far."""

    def messages(self, message: bytes) -> Iterator[bytes]:
        """The answers to a request; checks the request before it yields."""
        raise NotImplementedError

    def handle(self, message: bytes) -> None:
        self._messages = self.messages(message)
        self.produce()

    def on_drained(self) -> None:
        self.guarded(self.produce)

    @property
    def has_room(self) -> bool:
        """Whether another message may be produced."""
        return not self.call.is_finished and self.call.unsent_count < AHEAD_MESSAGES_MAX

    def produce(self) -> None:
        """Produces as much as there is room for."""
        while self.has_room and self.produce_one():
            pass

    def produce_one(self) -> bool:
        """Sends the next message; whether there was one. At the end the call is finished."""
        message = next(self._messages, None)
        if message is None:
            self.call.finish()
            return False
        self.produced += 1
        self.call.send(message)
        return True

    def stop(self) -> None:
        """Produces nothing more."""
        close = getattr(self._messages, "close", None)
        if close is not None:
            close()

    def let_go(self) -> None:
        """Frees what the answers come from, in a callback of the call or in its turn; nothing more is produced."""
        self.stop()

    def fail(self, error: BaseException) -> None:
        super().fail(error)
        self.let_go()  # it may be long until the call is over: the error waits behind what is not taken

    def on_over(self) -> None:
        self.let_go()


class ReadCall(StreamedAnswer):
    """Read: the gets of one request, answered in order; nearly always in one message, and then nothing is streamed."""

    def __init__(
        self, call: Call, host: Host, report: Report, on_streaming: Callable[[StreamedAnswer], None] = lambda _: None
    ) -> None:
        super().__init__(call, host, report)
        self._on_streaming = on_streaming

    def handle(self, message: bytes) -> None:
        shard_id, keys, gets = wire.decode_read(message)
        shard = self.host.shard(shard_id).shard
        if len(keys) == 1:
            self.call.reply(wire.encode_records(keys, shard.get_records(keys))[0])
            return
        if keys:
            self._messages = step_by_step(keys, lambda step: records_of(shard, step))
        else:
            self._messages = step_by_step(gets, lambda step: list(map(wire.encode_found, step, shard.get_many(step))))
        first = next(self._messages, None)
        if first is None:
            self.call.finish()
            return
        second = next(self._messages, None)
        if second is None:
            self.call.reply(first)
            return
        self._on_streaming(self)
        self.call.send(first)
        self.call.send(second)
        self.produce()


def step_by_step(gets: list[T], answer: Callable[[list[T]], list[bytes]]) -> Iterator[bytes]:
    """The answers to the gets of one request, some at a time, as messages. `answer` tells as many as it likes."""
    start = 0
    while start < len(gets):
        answers = answer(gets[start : start + READ_STEP_GETS])
        assert answers, "a get has no answer"
        start += len(answers)
        yield from wire.cut(answers)


def records_of(shard: Shard, keys: list[bytes]) -> list[bytes]:
    """The answers to the first of the gets for these keys, or to all."""
    records = shard.get_records(keys)
    return wire.encode_records(keys[: len(records)], records)


class ScanCall(StreamedAnswer):
    """List and RangeScan: a range, streamed from one state of the shard."""

    keys_only: bool
    request_type: type[Any]

    def messages(self, message: bytes) -> Iterator[bytes]:
        request = parse(self.request_type, message)
        shard = self.host.shard(request.shard if request.HasField("shard") else None)
        index_name = request.secondary_index_name if request.HasField("secondary_index_name") else None
        wanted = Range(request.start_inclusive, request.end_exclusive, index_name, request.include_internal_keys)
        return self._answers(shard.shard.list_keys(wanted) if self.keys_only else shard.shard.scan(wanted))

    def _answers(self, scan: Scan) -> Iterator[bytes]:
        join = wire.join_keys if self.keys_only else wire.join_records
        with scan:
            while chunk := scan.next_chunk():
                yield from join(chunk)


class ListCall(ScanCall):
    """List."""

    keys_only = True
    request_type = oxia_pb2.ListRequest


class RangeScanCall(ScanCall):
    """RangeScan."""

    keys_only = False
    request_type = oxia_pb2.RangeScanRequest
