"""A bare client of the protocol: messages or raw bytes in, answers with their whole status out."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from metastore.pb import oxia_pb2

CURRENT_SERVICE = "io.oxia.proto.v1.OxiaClient"
OLDER_SERVICE = "io.streamnative.oxia.proto.OxiaClient"
SERVICES = (CURRENT_SERVICE, OLDER_SERVICE)

CALL_TIMEOUT_S = 30.0
MEBIBYTE = 1 << 20
CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", MEBIBYTE),
    ("grpc.absolute_max_metadata_size", MEBIBYTE),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
)

Metadata = tuple[tuple[str, str | bytes], ...]
Requests = queue.SimpleQueue[bytes | None]
"""What a client still has to send; None ends it."""


@dataclass(frozen=True)
class Method:
    """One method of a service: what goes in, what comes out, and which side streams."""

    name: str
    request: type[Message]
    response: type[Message]
    client_streaming: bool
    server_streaming: bool


def methods_of(service: Any) -> dict[str, Method]:
    """The methods of a service descriptor by name."""
    return {
        method.name: Method(
            method.name,
            message_factory.GetMessageClass(method.input_type),
            message_factory.GetMessageClass(method.output_type),
            method.client_streaming,
            method.server_streaming,
        )
        for method in service.methods
    }


METHODS = methods_of(oxia_pb2.DESCRIPTOR.services_by_name["OxiaClient"])


@dataclass(frozen=True)
class ErrorDetail:
    """A google.rpc.ErrorInfo."""

    reason: str
    domain: str
    metadata: dict[str, str]


@dataclass(frozen=True)
class Status:
    """How a call ended."""

    code: grpc.StatusCode
    message: str
    details: tuple[ErrorDetail, ...] = ()

    @property
    def reasons(self) -> list[str]:
        return [detail.reason for detail in self.details]


@dataclass(frozen=True)
class Answer:
    """A call from its beginning to its end."""

    messages: list[Any]
    status: Status

    @property
    def only(self) -> Any:
        """The one message of a call that must have succeeded with one."""
        assert self.status.code is grpc.StatusCode.OK, self.status
        assert len(self.messages) == 1, self.messages
        return self.messages[0]


class Ended(Exception):
    """The server has ended the stream."""

    def __init__(self, status: Status) -> None:
        super().__init__(f"the stream ended: {status}")
        self.status = status


def status_of(call: Any) -> Status:
    """The status of a call that has ended, with the details of its trailers."""
    details = []
    for key, value in call.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for packed in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                assert packed.Unpack(info), packed.type_url
                details.append(ErrorDetail(info.reason, info.domain, dict(info.metadata)))
    return Status(call.code(), call.details() or "", tuple(details))


def arriving(call: Any) -> Iterator[bytes]:
    """The messages of a call until it ends; how it ended is to be asked of the call itself."""
    with contextlib.suppress(grpc.RpcError):
        yield from call


class Stream:
    """An open call: a thread takes its messages as they come, so that no wait here is without a bound."""

    def __init__(self, call: Any, method: Method, requests: Requests | None) -> None:
        self._call, self._method, self._requests = call, method, requests
        self._arrived: queue.SimpleQueue[bytes | Status] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True, name=f"reader of {method.name}")
        self._reader.start()

    def _read(self) -> None:
        for data in arriving(self._call):
            self._arrived.put(data)
        self._arrived.put(status_of(self._call))

    def next(self, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """The next message; Ended when there is none any more, TimeoutError when none came in time."""
        try:
            item = self._arrived.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            raise TimeoutError(f"no message of {self._method.name} within {timeout_s} s") from None
        if isinstance(item, Status):
            self._arrived.put(item)  # whoever asks again gets the same answer
            raise Ended(item)
        return self._method.response.FromString(item)

    def rest(self, timeout_s: float = CALL_TIMEOUT_S) -> Answer:
        """Everything up to the end that the server makes of the stream."""
        messages = []
        while True:
            try:
                messages.append(self.next(timeout_s))
            except Ended as end:
                return Answer(messages, end.status)

    def send(self, request: Message | bytes) -> None:
        assert self._requests is not None, f"{self._method.name} takes one request only"
        self._requests.put(serialized(request))

    def half_close(self) -> None:
        """Says that no further request will come."""
        assert self._requests is not None, f"{self._method.name} takes one request only"
        self._requests.put(None)

    def cancel(self) -> None:
        self._call.cancel()
        if self._requests is not None:
            self._requests.put(None)
        self._reader.join(CALL_TIMEOUT_S)
        assert not self._reader.is_alive(), f"{self._method.name} does not end although cancelled"


class WireClient:
    """Calls the methods of one address; a channel of its own for every :authority."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._channels: dict[tuple[str | None, tuple[tuple[str, int], ...]], grpc.Channel] = {}

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._channels:
            self._channels.popitem()[1].close()

    def channel(self, authority: str | None = None, *options: tuple[str, int]) -> grpc.Channel:
        key = authority, options
        if key not in self._channels:
            named = () if authority is None else (("grpc.default_authority", authority),)
            self._channels[key] = grpc.insecure_channel(self.address, options=(*CHANNEL_OPTIONS, *named, *options))
        return self._channels[key]

    def call(
        self,
        method: Method | str,
        request: Message | bytes,
        *,
        service: str = CURRENT_SERVICE,
        metadata: Metadata = (),
        authority: str | None = None,
        path: str | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Answer:
        """A call with one request, to its end; `path` is the name on the wire where it shall be another."""
        known = METHODS[method] if isinstance(method, str) else method
        channel: Any = self.channel(authority)
        full_path = f"/{service}/{path or known.name}"
        if known.client_streaming:
            call = channel.stream_stream(full_path)(iter([serialized(request)]), timeout_s, metadata)
        else:
            # On the wire a single response is a stream of one message.
            call = channel.unary_stream(full_path)(serialized(request), timeout_s, metadata)
        messages = [known.response.FromString(data) for data in arriving(call)]
        return Answer(messages, status_of(call))

    def open(
        self,
        method: Method | str,
        request: Message | bytes | None = None,
        *,
        service: str = CURRENT_SERVICE,
        metadata: Metadata = (),
        authority: str | None = None,
    ) -> Stream:
        """Starts a call and leaves it open; what the client streams may also be sent later."""
        known = METHODS[method] if isinstance(method, str) else method
        channel: Any = self.channel(authority)
        path = f"/{service}/{known.name}"
        if not known.client_streaming:
            assert request is not None, f"{known.name} takes exactly one request"
            call = channel.unary_stream(path)(serialized(request), None, metadata)
            return Stream(call, known, None)
        requests: Requests = queue.SimpleQueue()
        if request is not None:
            requests.put(serialized(request))
        call = channel.stream_stream(path)(iter(requests.get, None), None, metadata)
        return Stream(call, known, requests)


def serialized(request: Message | bytes) -> bytes:
    return request if isinstance(request, bytes) else request.SerializeToString()
