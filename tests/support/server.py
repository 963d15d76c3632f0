"""A server under test: a real process with a folder and ports of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import grpc

from support.ports import LOOPBACK, free_port

COMMAND_VARIABLE = "TIDEMARK_TEST_SERVER"
PROJECT_ROOT = Path(__file__).resolve().parents[2]

START_WITHIN_S = 60.0
STOP_WITHIN_S = 30.0
LOG_TAIL_CHARACTERS = 4_000

HEALTH_CHECK = "/grpc.health.v1.Health/Check"
CHECK_ATTEMPT_S = 0.25
EAGER_CHANNEL = (
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 100),
    # In spite of its name: how long one attempt may take, to a server that has no processor at the moment as well.
    ("grpc.min_reconnect_backoff_ms", 30_000),
)

Sorting = Literal["hierarchical", "natural"]

running: list[ServerProcess] = []
"""The servers that are up now; what shows their logs beside a failed test looks here."""


class ServerFailure(Exception):
    """The server did not start or did not stop as it should; the message ends with its log."""


def own_server() -> bool:
    """Whether the tests run against this project's server, not one named in the environment."""
    return COMMAND_VARIABLE not in os.environ


class ServerProcess:
    """Starts a server, stops it in every way, starts it again on the same folder and port.

    The command is this project's, or the one in TIDEMARK_TEST_SERVER with {port}, {metrics}, {shards}, {dir},
    {sorting} and {notifications} filled in.
    """

    def __init__(
        self,
        shards: int = 1,
        sorting: Sorting = "hierarchical",
        notifications: bool = True,
        extra_args: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.shards = shards
        self.port, self.metrics_port = free_port(), free_port()
        self.address = f"{LOOPBACK}:{self.port}"
        self.metrics_address = f"{LOOPBACK}:{self.metrics_port}"
        self.directory = Path(tempfile.mkdtemp(prefix="tidemark-test-"))
        self.data_directory = self.directory / "data"
        self.log_path = self.directory / "server.log"
        self._environment = {**os.environ, **(environment or {})}
        self._environment["PYTHONPATH"] = os.pathsep.join(
            [str(PROJECT_ROOT), *filter(None, [self._environment.get("PYTHONPATH")])]
        )
        self._command = [*self._base_command(shards, sorting, notifications), *extra_args]
        self._process: subprocess.Popen[bytes] | None = None
        self._group: int | None = None  # the process group, while there may be something in it

    def _base_command(self, shards: int, sorting: Sorting, notifications: bool) -> list[str]:
        enabled = "true" if notifications else "false"
        template = self._environment.get(COMMAND_VARIABLE)
        if template is not None:
            return shlex.split(
                template.format(
                    port=self.port,
                    metrics=self.metrics_port,
                    shards=shards,
                    dir=self.directory,
                    sorting=sorting,
                    notifications=enabled,
                )
            )
        return [
            *(sys.executable, "-m", "metastore.commandline", "metastore"),
            *("--public-addr", self.address, "--metrics-addr", self.metrics_address),
            *("--data-dir", str(self.data_directory), "--shards", str(shards)),
            *("--key-sorting", sorting, "--notifications-enabled", enabled),
        ]

    def __enter__(self) -> ServerProcess:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            error.add_note(f"the server's log ends with:\n{self.log_tail()}")
        self.close()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the server was never started"
        return self._process

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log_tail(self) -> str:
        """The end of what the server wrote to its standard output and error, over all its starts."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]

    def start(self) -> None:
        """Starts the process and returns when its health service says that it serves."""
        assert not self.is_alive, "the server runs already"
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=self.directory,
                start_new_session=True,  # a process group of its own: it can be ended as a whole
            )
        self._group = self._process.pid
        running.append(self)
        try:
            self._wait_until_serving()
        except BaseException:
            self.kill()
            raise

    def _wait_until_serving(self) -> None:
        deadline = time.monotonic() + START_WITHIN_S
        with self._connect() as channel:
            check: Any = channel.unary_unary(HEALTH_CHECK)
            while True:
                try:
                    check(b"", timeout=CHECK_ATTEMPT_S, wait_for_ready=True)
                    return
                except grpc.RpcError as error:
                    if self.process.poll() is not None:
                        raise self._failure(f"the server ended with {self.process.returncode}") from error
                    if time.monotonic() > deadline:
                        raise self._failure(f"the server does not serve after {START_WITHIN_S} s") from error

    def _connect(self) -> grpc.Channel:
        """To ask whether it serves."""
        return grpc.insecure_channel(self.address, options=EAGER_CHANNEL)

    def terminate(self) -> int:
        """Asks the server to stop (SIGTERM) and returns its exit code; too slow a stop is a failure."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired as error:
            raise self._failure(f"the server has not stopped {STOP_WITHIN_S} s after SIGTERM") from error
        finally:
            self.kill()

    def kill(self) -> None:
        """Ends the whole process group at once (SIGKILL): nothing of it can finish anything."""
        if self._group is None:
            return
        try:
            os.killpg(self._group, signal.SIGKILL)  # also workers that outlived the process that we know
        except ProcessLookupError:
            assert not self.is_alive, "a process that runs is in its own group"
        self.process.wait()
        self._group = None
        running.remove(self)

    def restart(self, how: Literal["terminate", "kill"] = "terminate") -> None:
        """Stops the server and starts it again on the same folder and port."""
        if how == "kill":
            self.kill()
        else:
            self.terminate()
        self.start()

    def close(self) -> None:
        """Leaves nothing behind: no process, no folder."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _failure(self, what: str) -> ServerFailure:
        return ServerFailure(f"{what}: {shlex.join(self._command)}\n{self.log_tail()}")
