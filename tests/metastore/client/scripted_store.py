"""A gRPC server on loopback that answers as a test tells it to: for what a healthy store never says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NoReturn, Self

import grpc
from google.rpc import error_details_pb2, status_pb2

from metastore.client import wire
from metastore.client.routing import LAST_HASH
from metastore.pb import oxia_pb2 as pb

Answer = Callable[[Any, grpc.ServicerContext], Any]
"""Takes a request; returns a message, or for a streamed method yields them."""

UNARY = {
    method.name: method for method in (wire.WRITE, wire.CREATE_SESSION, wire.KEEP_ALIVE, wire.CLOSE_SESSION)
}
STREAMED = {
    method.name: method
    for method in (
        wire.ASSIGNMENTS,
        wire.READ,
        wire.LIST,
        wire.RANGE_SCAN,
        wire.NOTIFICATIONS,
        wire.SEQUENCE_UPDATES,
    )
}


def assignments(*leaders: str, namespace: str = "default") -> pb.ShardAssignments:
    """Shards 0, 1, ... with these leaders and equal parts of the hashes."""
    width = LAST_HASH // len(leaders) + 1
    entries = [
        pb.ShardAssignment(
            shard=number,
            leader=leader.encode(),
            int32_hash_range=pb.Int32HashRange(
                min_hash_inclusive=number * width,
                max_hash_inclusive=min((number + 1) * width - 1, LAST_HASH),
            ),
        )
        for number, leader in enumerate(leaders)
    ]
    message = pb.ShardAssignments()
    message.namespaces[namespace].assignments.extend(entries)
    message.namespaces[namespace].shard_key_router = pb.XXHASH3
    return message


def error_details(reason: str, domain: str = "oxia.io") -> bytes:
    """A google.rpc.Status with an ErrorInfo, serialized."""
    status = status_pb2.Status()
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain=domain))
    serialized: bytes = status.SerializeToString()
    return serialized


def refuse(context: grpc.ServicerContext, code: grpc.StatusCode, text: str, reason: str = "") -> NoReturn:
    """Ends a call as an Oxia server does: status code, text, and the reason in the trailers."""
    if reason:
        context.set_trailing_metadata((("grpc-status-details-bin", error_details(reason)),))
    context.abort(code, text)
    raise AssertionError("abort raises")


class ScriptedStore(grpc.GenericRpcHandler):
    """One shard, led by this server, until the test says otherwise."""

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.requests: list[tuple[str, Any]] = []
        self.tokens: list[str | bytes | None] = []
        self._executor = ThreadPoolExecutor(max_workers=8)
        self._server = grpc.server(self._executor)
        self._server.add_generic_rpc_handlers((self,))
        if credentials is None:
            port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{port}"
        self.answers: dict[str, Answer] = {"GetShardAssignments": self._assign_all}

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(None).wait()
        self._executor.shutdown()

    def asked(self, method: str) -> int:
        """How often a method was called."""
        return sum(name == method for name, _ in self.requests)

    def _assign_all(self, _request: Any, _context: grpc.ServicerContext) -> Iterator[pb.ShardAssignments]:
        yield assignments(self.address)

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        name = call.method.removeprefix(f"/{wire.SERVICE}/")

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            self.requests.append((name, request))
            self.tokens.append(dict(context.invocation_metadata()).get("authorization"))
            return self.answers[name](request, context)

        if name in UNARY:
            unary = UNARY[name]
            return grpc.unary_unary_rpc_method_handler(
                answer, unary.request.FromString, unary.answer.SerializeToString
            )
        streamed = STREAMED[name]
        return grpc.unary_stream_rpc_method_handler(
            answer, streamed.request.FromString, streamed.answer.SerializeToString
        )
