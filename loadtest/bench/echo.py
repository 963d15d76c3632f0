"""A gRPC server that returns every message, on grpcio's synchronous interface: `... echo HOST:PORT`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc

from loadtest.bench.workload import ECHO_SERVICE

THREADS = 8


def _same(request: bytes, _context: grpc.ServicerContext) -> bytes:
    return request


def _all_the_same(requests: Iterable[bytes], _context: grpc.ServicerContext) -> Iterator[bytes]:
    yield from requests


def serve(address: str) -> grpc.Server:
    """Starts the server in this process."""
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        "Unary": grpc.unary_unary_rpc_method_handler(_same, None, None),
        "Stream": grpc.stream_stream_rpc_method_handler(_all_the_same, None, None),
    }
    server = grpc.server(ThreadPoolExecutor(THREADS))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(ECHO_SERVICE.strip("/"), handlers)])
    server.add_insecure_port(address)
    server.start()
    return server


if __name__ == "__main__":
    serve(sys.argv[1]).wait_for_termination()
