"""Servers that must not start, servers of several processes, and waits with a bound."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import grpc
from grpc_health.v1 import health_pb2

from support.ports import LOOPBACK, free_port
from support.server import EAGER_CHANNEL, HEALTH_CHECK, PROJECT_ROOT, ServerProcess

WITHIN_S = 60.0
"""How long something may take that has to happen; only a failing test waits that long."""
BETWEEN_LOOKS_S = 0.02

SERVING = health_pb2.HealthCheckResponse.SERVING


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Waits until a condition holds that nobody announces."""
    deadline_s = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not within {WITHIN_S} s: {what}"
        time.sleep(BETWEEN_LOOKS_S)


def run_server(data_directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Starts a server that is expected not to serve, and returns how it ended."""
    command = [
        *(sys.executable, "-m", "metastore.commandline", "metastore", "--data-dir", str(data_directory)),
        *("--public-addr", f"{LOOPBACK}:{free_port()}", "--metrics-addr", f"{LOOPBACK}:0"),
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, cwd=PROJECT_ROOT, check=False)


def health(address: str, credentials: grpc.ChannelCredentials | None = None) -> int:
    """The status of a server, as soon as one listens there."""
    if credentials is None:
        channel = grpc.insecure_channel(address, options=EAGER_CHANNEL)
    else:
        channel = grpc.secure_channel(address, credentials, options=EAGER_CHANNEL)
    with channel:
        check: Any = channel.unary_unary(HEALTH_CHECK, response_deserializer=health_pb2.HealthCheckResponse.FromString)
        return int(check(b"", timeout=WITHIN_S, wait_for_ready=True).status)


def store_url(server: ServerProcess, **options: object) -> str:
    """The URL of a server's store."""
    return f"oxia://{server.address}?{urlencode(options)}"


def is_free(port: int) -> bool:
    """Whether a server could listen on a port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen()
        except OSError:
            return False
        return True


def children(pid: int) -> list[int]:
    """The processes that a process has started, with any of its threads."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in lists for child in each.read_text().split()]


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not yet collected by its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def server_of_workers(workers: int, shards: int, *arguments: str) -> ServerProcess:
    """A server, not started yet, of several processes, whose ports are free."""
    while True:
        server = ServerProcess(shards, extra_args=("--workers", str(workers), *arguments))
        public = range(server.port, server.port + workers)
        metrics = range(server.metrics_port, server.metrics_port + workers)
        if set(public).isdisjoint(metrics) and all(map(is_free, [*public, *metrics])):
            return server
        server.close()
