"""`tidemark broker` as a process of its own, which may be killed, frozen, and started again where it was."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc.aio

from support.ports import LOOPBACK, free_port

PROJECT_ROOT = Path(__file__).resolve().parents[2]
START_WITHIN_S = 60.0
STOP_WITHIN_S = 30.0


class BrokerProcess:
    """A broker with a port and a folder of its own."""

    def __init__(self, store: str, *arguments: str) -> None:
        self.port, self.metrics_port = free_port(), free_port()
        self.address = f"{LOOPBACK}:{self.port}"
        self.directory = Path(tempfile.mkdtemp(prefix="tidemark-broker-"))
        self.log_path = self.directory / "broker.log"
        self._command = [
            *(sys.executable, "-m", "metastore.commandline", "broker", "--store", store, "--listen", self.address),
            *("--metrics-port", str(self.metrics_port), *arguments),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process; it may have been started before."""
        assert not self.is_alive, "it runs already"
        environment = {**os.environ, "PYTHONPATH": str(PROJECT_ROOT)}
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environment, cwd=self.directory)

    async def ready(self) -> None:
        """Returns when it serves."""
        async with grpc.aio.insecure_channel(self.address) as channel, asyncio.timeout(START_WITHIN_S):
            await channel.channel_ready()

    @property
    def is_alive(self) -> bool:
        """Whether there is a process, frozen or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, "it was started"
        return self._process.pid

    def terminate(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL; the exit code."""
        return self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """SIGSTOP: it does nothing, until it is thawed or killed."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT: it goes on as if nothing had been."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "it was started"
        self._process.send_signal(number)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None, "it was started"
        self._process.send_signal(number)
        return self._process.wait(STOP_WITHIN_S)

    @property
    def log(self) -> str:
        """All that it wrote, over all its starts."""
        return self.log_path.read_text()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_alive:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
