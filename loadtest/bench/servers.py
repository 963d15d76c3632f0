"""Starts, stops, stops for a while, and watches the server processes that are measured."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO

from loadtest.bench import proc
from loadtest.bench.generator import Generator
from loadtest.bench.model import BenchError
from loadtest.bench.workload import ECHO_PROBE, STORE_PROBE, Probe

START_LIMIT_S = 60.0
STOP_LIMIT_S = 30.0
PROBE_LIMIT_S = 1.0
RESUME_LIMIT_S = 5.0
RESUME_INTERVAL_S = 0.001
SETTLE_LIMIT_S = 10.0
SETTLE_WINDOW_S = 0.2
QUIET_SHARE = 0.05
LOG_TAIL_LINES = 8
LOOPBACK = "127.0.0.1"
FIRST_PORT = 20_000
LAST_PORT = 32_000


@dataclass(frozen=True)
class Program:
    """How to start a server: `command` gets its two addresses and its folder."""

    side: str
    command: Callable[[str, str, Path], list[str]]
    probe: Probe


def tidemark(shards: int = 1, workers: int = 1) -> Program:
    """Our metastore, one process and one shard unless more are asked for, synced, as it comes."""

    def command(address: str, metrics_address: str, folder: Path) -> list[str]:
        python = [sys.executable, "-m", "metastore.commandline", "metastore"]
        addresses = ["--public-addr", address, "--metrics-addr", metrics_address]
        division = ["--shards", str(shards), "--workers", str(workers)] if (shards, workers) != (1, 1) else []
        return [*python, *addresses, *division, "--data-dir", str(folder / "data")]

    return Program("tidemark", command, STORE_PROBE)


def oxia(binary: Path) -> Program:
    """A real Oxia, standalone, one shard, synced, as it comes."""

    def command(address: str, metrics_address: str, folder: Path) -> list[str]:
        addresses = ["--public-addr", address, "--metrics-addr", metrics_address]
        return [
            str(binary),
            "standalone",
            *addresses,
            "--shards",
            "1",
            "--data-dir",
            str(folder / "db"),
            "--wal-dir",
            str(folder / "wal"),
        ]

    return Program("oxia", command, STORE_PROBE)


def echo() -> Program:
    """A gRPC server that answers with what it was sent: the least a service can do."""
    return Program(
        "echo",
        lambda address, _metrics, _folder: [sys.executable, "-m", "loadtest.bench.echo", address],
        ECHO_PROBE,
    )


class Server:
    """One server process (and its workers) in a folder of its own, which it keeps over restarts."""

    def __init__(self, program: Program, folder: Path, generator: Generator) -> None:
        port, metrics_port = free_ports(2)
        self.side = program.side
        self.folder = folder
        self.address = f"{LOOPBACK}:{port}"
        self._program = program
        self._command = program.command(self.address, f"{LOOPBACK}:{metrics_port}", folder)
        self._log = folder / "server.log"
        self._generator = generator
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        """The parent process of the server."""
        return self._running().pid

    def start(self) -> float:
        """Starts the process; returns the seconds until it answered its first request."""
        assert self._process is None, f"{self.side} is running"
        started_s = time.monotonic()
        with self._log.open("ab") as log:
            self._process = self._spawn(log)
        while not self._generator.probe(self.address, self._program.probe, PROBE_LIMIT_S):
            if self._process.poll() is not None:
                raise BenchError(f"{self.side} ended at its start with status {self._process.returncode}{self._tail()}")
            if time.monotonic() - started_s > START_LIMIT_S:
                raise BenchError(f"{self.side} did not answer within {START_LIMIT_S:g} s{self._tail()}")
        return time.monotonic() - started_s

    def stop(self) -> None:
        """Ends the process in order, within a limit."""
        process = self._running()
        self.resume()
        process.terminate()
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"{self.side} did not stop within {STOP_LIMIT_S:g} s of SIGTERM") from error
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends the process and all its workers at once; does nothing if none runs."""
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        """Stops the processes by signal, so that they take no time from others."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets the processes go on; returns when every thread does, since the signal takes its time."""
        self._signal(signal.SIGCONT)
        deadline_s = time.monotonic() + RESUME_LIMIT_S
        while proc.is_stopped(self.pid):
            if time.monotonic() > deadline_s:
                raise BenchError(f"{self.side} did not go on within {RESUME_LIMIT_S:g} s of SIGCONT")
            time.sleep(RESUME_INTERVAL_S)

    @contextmanager
    def awake(self) -> Iterator[None]:
        """Lets the server run for a block, and pauses it afterwards."""
        self.resume()
        try:
            yield
        finally:
            self.pause()

    def settle(self) -> None:
        """Waits until the server has nothing more to do, or a limit is over."""
        deadline_s = time.monotonic() + SETTLE_LIMIT_S
        before_s = proc.cpu_seconds_of(self.pid)
        while time.monotonic() < deadline_s:
            time.sleep(SETTLE_WINDOW_S)
            now_s = proc.cpu_seconds_of(self.pid)
            if now_s - before_s <= QUIET_SHARE * SETTLE_WINDOW_S:
                return
            before_s = now_s

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BenchError(f"{self.side} is not running any more")
        return self._process

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                guarded(self._command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            raise BenchError(f"{self.side} cannot be started: {error}") from error

    def _signal(self, number: signal.Signals) -> None:
        """To the whole session; one that is gone has nothing left to be told."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def _tail(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "".join(f"\n    {line}" for line in lines)


def guarded(command: list[str]) -> list[str]:
    """The command, to be killed by the kernel when the benchmark is killed, where setpriv can ask for that."""
    setpriv = shutil.which("setpriv")
    return command if setpriv is None else [setpriv, "--pdeathsig", "KILL", "--", *command]


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that are free now.

    They lie below those that the kernel gives to outgoing connections: a client that knocks at a port of that
    range, before its server listens there, may end up connected to itself.
    """
    choice = random.SystemRandom()
    with contextlib.ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            listener = stack.enter_context(socket.socket())
            port = choice.randrange(FIRST_PORT, LAST_PORT)
            try:
                listener.bind((LOOPBACK, port))
            except OSError:
                continue  # somebody else has it: another one will do
            ports.append(port)
        return ports
