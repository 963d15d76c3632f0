"""The load generator as a process of its own, which shares neither heap nor lock with the benchmark."""

from __future__ import annotations

import multiprocessing
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from types import TracebackType

import grpc

from loadtest.bench.exchange import GRACE_S, Client, play
from loadtest.bench.lean_client import LeanClient
from loadtest.bench.model import BenchError, Sample
from loadtest.bench.open_client import OpenClient
from loadtest.bench.peers.delivery import GrpcDelivery
from loadtest.bench.peers.jute_clients import JuteClient, JuteDelivery, JuteError, JuteSessions
from loadtest.bench.sync_client import SyncClient
from loadtest.bench.workload import Probe, Workload

CLIENTS: dict[str, Callable[[str], Client]] = {"lean": LeanClient, "sync": SyncClient}
"""Of gRPC, for any workload."""
SPECIAL_CLIENTS: dict[str, Callable[[str], Client]] = {
    "open": OpenClient,
    "lean-delivery": GrpcDelivery,
    "jute": JuteClient,
    "jute-delivery": JuteDelivery,
    "jute-session": JuteSessions,
}
"""Of other protocols, or for one kind of work."""
PREPARE_LIMIT_S = 120.0
CONNECT_INTERVAL_S = 0.002
PROBE_BYTES = 64


@dataclass(frozen=True)
class LoadTask:
    """Play one turn of a workload on a server."""

    address: str
    workload: Workload
    turn: int
    seconds: float
    client: str


@dataclass(frozen=True)
class ProbeTask:
    """Try for a while whether a server answers."""

    address: str
    probe: Probe
    seconds: float


@dataclass(frozen=True)
class Failed:
    """A task that could not be done."""

    text: str


class Generator:
    """The parent's end: gives the process one task at a time, and replaces it if it does not answer."""

    def __init__(self, client: str) -> None:
        assert client in CLIENTS
        self._client = client
        self._worker: tuple[SpawnProcess, Connection] | None = None

    def __enter__(self) -> Generator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def pid(self) -> int:
        """The process that makes the load."""
        self._connected()
        assert self._worker is not None
        process_id = self._worker[0].pid
        assert process_id is not None, "it was started"
        return process_id

    def load(self, address: str, workload: Workload, turn: int, seconds: float, client: str | None = None) -> Sample:
        """Plays a turn, with another client if one is named; raises BenchError if it fails or its answers are wrong."""
        sample = self._ask(
            LoadTask(address, workload, turn, seconds, client or self._client), seconds + GRACE_S + PREPARE_LIMIT_S
        )
        assert isinstance(sample, dict)
        return sample

    def probe(self, address: str, probe: Probe, seconds: float) -> bool:
        """Whether the server answered a probe within the time; returns as soon as it does."""
        return bool(self._ask(ProbeTask(address, probe, seconds), seconds + PREPARE_LIMIT_S))

    def _ask(self, task: LoadTask | ProbeTask, limit_s: float) -> object:
        pipe = self._connected()
        try:
            pipe.send(task)
            if not pipe.poll(limit_s):
                raise BenchError(f"the load generator did not answer within {limit_s:g} s")
            answer: object = pipe.recv()
        except BaseException as error:
            # The pipe may hold half a conversation: nothing else can be asked over it.
            self._end()
            if isinstance(error, EOFError | OSError):
                raise BenchError(f"the load generator has ended: {error!r}") from error
            raise
        if isinstance(answer, Failed):
            raise BenchError(answer.text)
        return answer

    def _connected(self) -> Connection:
        if self._worker is None:
            context = multiprocessing.get_context("spawn")
            pipe, remote = context.Pipe()
            process = context.Process(target=_serve, args=(remote,), name="load-generator", daemon=True)
            process.start()
            remote.close()
            self._worker = (process, pipe)
        return self._worker[1]

    def _end(self) -> None:
        if self._worker is None:
            return
        process, pipe = self._worker
        self._worker = None
        pipe.close()
        process.kill()
        process.join()


def _serve(pipe: Connection) -> None:
    """The process: one task after the other until the parent goes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(_probe(task) if isinstance(task, ProbeTask) else _load(task))
        except BenchError as error:
            pipe.send(Failed(str(error)))


def _load(task: LoadTask) -> Sample:
    try:
        client = {**CLIENTS, **SPECIAL_CLIENTS}[task.client](task.address)
    except (OSError, JuteError) as error:
        raise BenchError(f"{task.address} cannot be reached: {error}") from error
    try:
        return play(client, task.workload, task.turn, task.seconds)
    finally:
        client.close()


def _probe(task: ProbeTask) -> bool:
    """First the port, often; then one call: after a closed port a channel would wait."""
    deadline_s = time.monotonic() + task.seconds
    while not _accepts(task.address):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(CONNECT_INTERVAL_S)
    if not task.probe.method:
        return _answers(task)
    with grpc.insecure_channel(task.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        call: grpc.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(task.probe.method, None, None)
        try:
            return bool(list(call(task.probe.request, timeout=task.seconds)))
        except grpc.RpcError:
            return False


def _answers(task: ProbeTask) -> bool:
    """Whether what is expected comes back over a plain connection."""
    host, _, port = task.address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=task.seconds) as connection:
            connection.sendall(task.probe.request)
            answer = connection.recv(PROBE_BYTES)
            return answer.startswith(task.probe.answer)
    except OSError:
        return False


def _accepts(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1.0).close()
    except OSError:
        return False
    return True
