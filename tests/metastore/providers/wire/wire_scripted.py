"""A gRPC server on the test's loop that answers as a test tells it to: for what a healthy store never does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, Self

import grpc
import grpc.aio
from google.rpc import error_details_pb2, status_pb2

from metastore.clock import Clock, SystemClock
from metastore.engine.routing import hash_ranges
from metastore.interface.store import MetadataStore
from metastore.interface.urls import Environment
from metastore.pb import oxia_pb2 as pb
from metastore.pb import tidemark_pb2
from metastore.providers.wire import protocol
from metastore.providers.wire.emulation import Emulation
from metastore.providers.wire.opening import open_settings
from metastore.providers.wire.settings import Settings
from support.ports import LOOPBACK

Context = Any
"""grpc.aio's context of a call."""
Stream = Callable[[AsyncIterator[bytes], Context], AsyncIterator[bytes]]
Single = Callable[[bytes, Context], Awaitable[bytes]]
Answers = Callable[[bytes, Context], AsyncIterator[bytes]]


class ScriptedServer(grpc.GenericRpcHandler):
    """A store of one namespace. Its shards are led by itself, until the test says otherwise."""

    def __init__(self, shards: int = 1, is_plain: bool = False) -> None:
        self.leaders: list[str] = []
        self.write_stream: Stream = serve_writes(stored)
        self.writes: list[pb.WriteRequest] = []
        """Every request of a write stream, as it came in."""
        self.reads: list[pb.ReadRequest] = []
        self.read: Answers = self._read_all
        self.unary: dict[str, Single] = {} if is_plain else {protocol.DESCRIBE: self._describe}
        self.subscriptions = 0
        self.reassigned = asyncio.Event()
        self._shards = shards
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"{LOOPBACK}:{self._server.add_insecure_port(f'{LOOPBACK}:0')}"

    async def __aenter__(self) -> Self:
        self.leaders = self.leaders or [self.address] * self._shards
        await self._server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._server.stop(None)

    def service(self, call: grpc.HandlerCallDetails) -> Any:
        if call.method == protocol.ASSIGNMENTS:
            return grpc.unary_stream_rpc_method_handler(self._assign)
        if call.method == protocol.WRITE_STREAM:
            return grpc.stream_stream_rpc_method_handler(self._record_writes)
        if call.method == protocol.READ:
            return grpc.unary_stream_rpc_method_handler(self._record_reads)
        single = self.unary.get(call.method)
        return None if single is None else grpc.unary_unary_rpc_method_handler(single)

    async def _assign(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        self.subscriptions += 1
        while True:
            message = pb.ShardAssignments()
            message.namespaces["default"].shard_key_router = pb.XXHASH3
            for shard, (low, high) in enumerate(hash_ranges(self._shards)):
                whole = pb.Int32HashRange(min_hash_inclusive=low, max_hash_inclusive=high)
                leader = self.leaders[shard].encode()
                message.namespaces["default"].assignments.add(shard=shard, leader=leader, int32_hash_range=whole)
            yield message.SerializeToString()
            await self.reassigned.wait()
            self.reassigned.clear()

    async def _record_writes(self, requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        async def recorded() -> AsyncIterator[bytes]:
            async for request in requests:
                self.writes.append(pb.WriteRequest.FromString(request))
                yield request

        async for answer in self.write_stream(recorded(), context):
            yield answer

    async def _record_reads(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        self.reads.append(pb.ReadRequest.FromString(request))
        async for answer in self.read(request, context):
            yield answer

    async def _read_all(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        gets = [pb.GetResponse(value=get.key, version=pb.Version()) for get in pb.ReadRequest.FromString(request).gets]
        yield pb.ReadResponse(gets=gets).SerializeToString()

    async def _describe(self, request: bytes, context: Context) -> bytes:
        described = tidemark_pb2.DescribeResponse(
            namespace=b"default",
            key_sorting=tidemark_pb2.HIERARCHICAL,
            shards=range(self._shards),
            notifications_enabled=True,
            store_id=b"s",
        )
        return described.SerializeToString()

    def keys_of_writes(self) -> list[list[str]]:
        """The keys of the puts of each request."""
        return [[put.key.decode() for put in request.puts] for request in self.writes]


def stored(request: pb.WriteRequest) -> pb.WriteResponse:
    """The answer to a request of which everything was done."""
    return pb.WriteResponse(
        puts=[pb.PutResponse(version=pb.Version()) for _ in request.puts],
        deletes=[pb.DeleteResponse() for _ in request.deletes],
        delete_ranges=[pb.DeleteRangeResponse() for _ in request.delete_ranges],
    )


def serve_writes(answer: Callable[[pb.WriteRequest], pb.WriteResponse]) -> Stream:
    """A write stream that answers each request at once."""

    async def serve(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        async for request in requests:
            yield answer(pb.WriteRequest.FromString(request)).SerializeToString()

    return serve


async def refuse(context: Context, code: grpc.StatusCode, text: str = "", reason: str = "", **metadata: str) -> None:
    """Ends a call as a server does: status code, text, and the reason in the trailers. It does not return."""
    trailers: tuple[tuple[str, bytes], ...] = ()
    if reason:
        status = status_pb2.Status()
        info = error_details_pb2.ErrorInfo(reason=reason, domain="oxia.io", metadata=metadata)
        status.details.add().Pack(info)
        trailers = (("grpc-status-details-bin", status.SerializeToString()),)
    await context.abort(code, text, trailers)


async def connect(server: ScriptedServer, clock: Clock | None = None, **settings: Any) -> MetadataStore:
    """A store at a scripted server."""
    environment = Environment(clock or SystemClock(), random=random.Random(0))
    return await open_settings(Settings((server.address,), **settings), environment, Emulation(environment.random))
