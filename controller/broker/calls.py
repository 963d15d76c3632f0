"""What every call of the service has around it: who calls, the end from elsewhere, and errors told as statuses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

import grpc
from google.protobuf.message import Message

from controller.broker.metrics import BrokerMetrics
from controller.broker.security import Authenticator
from controller.broker.status import refuse
from controller.broker.streams import Context, Stream, Streams, parsed
from metastore.coordination.unless import Unless
from txn.model.errors import SegmentUnavailable

R = TypeVar("R", bound=Message)

Unary = Callable[[R, str | None], Awaitable[Message]]
"""Answers a request of a principal."""
Streaming = Callable[[Stream], Awaitable[None]]
Named: TypeAlias = "tuple[str, grpc.RpcMethodHandler[bytes, bytes]]"
"""A method's name, and its handler."""


class Calls:
    """Makes handlers of gRPC out of functions that know nothing of it. Bytes are parsed here: bad ones are named."""

    def __init__(self, authenticator: Authenticator, streams: Streams, metrics: BrokerMetrics) -> None:
        self._authenticator = authenticator
        self._streams = streams
        self._metrics = metrics

    def unary(self, method: str, kind: type[R], answer: Unary[R]) -> Named:
        """One request, one answer."""

        async def handle(data: bytes, context: Context) -> bytes:
            self._metrics.calls.labels(method).inc()
            try:
                principal = self._authenticator.principal(context.invocation_metadata() or ())
                return (await answer(parsed(kind, data), principal)).SerializeToString()
            except Exception as error:
                await refuse(context, method, error)

        return method, grpc.unary_unary_rpc_method_handler(handle)

    def stream(self, method: str, serve: Streaming) -> Named:
        """Requests and answers, each as it comes."""

        async def handle(requests: object, context: Context) -> None:
            await self._serve(method, serve, Stream(context))

        return method, grpc.stream_stream_rpc_method_handler(handle)

    def answers(self, method: str, serve: Streaming) -> Named:
        """One request, many answers."""

        async def handle(data: bytes, context: Context) -> None:
            await self._serve(method, serve, Stream(context, data))

        return method, grpc.unary_stream_rpc_method_handler(handle)

    async def _serve(self, method: str, serve: Streaming, stream: Stream) -> None:
        self._metrics.calls.labels(method).inc()
        try:
            stream.principal = self._authenticator.principal(stream.context.invocation_metadata() or ())
            self._streams.add(stream)
            try:
                await stream.accept()
                async with Unless(stream.ended(), _ended):
                    await serve(stream)
            finally:
                self._streams.remove(stream)
        except Exception as error:
            await refuse(stream.context, method, error)


def _ended() -> Exception:
    return SegmentUnavailable("the stream was ended")
