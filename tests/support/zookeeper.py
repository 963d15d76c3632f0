"""A real ZooKeeper, as Debian packages it: a process of its own, with a folder and a port of its own."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

import pytest

from support.ports import LOOPBACK, free_port

JAR_VARIABLE = "ZOOKEEPER_JAR"
DEBIAN_JAR = Path("/usr/share/java/zookeeper.jar")
JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"

START_WITHIN_S = 60.0
ATTEMPT_S = 0.05
TICK_MS = 200
"""A tenth of what is usual: sessions may be as short as two ticks."""
SESSION_TIMEOUT_MS_MAX = 600_000
LOG_TAIL_CHARACTERS = 4_000

CONFIGURATION = """
dataDir={data}
clientPortAddress={host}
clientPort={port}
tickTime={tick_ms}
maxSessionTimeout={session_timeout_ms_max}
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=ruok
forceSync=no
"""
"""It need not outlive the machine, only its own process."""


def zookeeper_jar() -> Path:
    """The jar that the tests use; skips the test where there is none, or no Java."""
    jar = Path(os.environ.get(JAR_VARIABLE, DEBIAN_JAR))
    if not jar.exists():
        pytest.skip(f"no {jar}: install ZooKeeper from Debian, or name its jar in {JAR_VARIABLE}")
    if shutil.which("java") is None:
        pytest.skip("no java: a ZooKeeper needs one")
    return jar


class ZookeeperProcess:
    """Starts a standalone ZooKeeper, stops it, and starts it again on the same folder and port."""

    def __init__(self) -> None:
        self.jar = zookeeper_jar()
        self.port = free_port()
        self.address = f"{LOOPBACK}:{self.port}"
        self.directory = Path(tempfile.mkdtemp(prefix="tidemark-zookeeper-"))
        self.log_path = self.directory / "zookeeper.log"
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, path: str, **options: str) -> str:
        """The URL of a store on it."""
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"zk://{self.address}/{path}" + (f"?{query}" if query else "")

    def __enter__(self) -> ZookeeperProcess:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "ZooKeeper was never started"
        return self._process

    def start(self) -> None:
        """Returns when the server says that it is in order."""
        configuration = self.directory / "zoo.cfg"
        configuration.write_text(
            CONFIGURATION.format(
                data=self.directory / "data",
                host=LOOPBACK,
                port=self.port,
                tick_ms=TICK_MS,
                session_timeout_ms_max=SESSION_TIMEOUT_MS_MAX,
            )
        )
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*JAVA, "-cp", f"{self.jar.parent}/*", MAIN_CLASS, str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_WITHIN_S
        while not self._is_in_order():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"ZooKeeper does not start:\n{self.log_tail()}")
            time.sleep(ATTEMPT_S)

    def _is_in_order(self) -> bool:
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(b"ruok")
                return connection.recv(4) == b"imok"
        except OSError:
            return False

    def freeze(self) -> None:
        """It answers nothing, and its connections stay."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends the process at once, without a farewell (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """Kills it and starts it again: what it had acknowledged is there."""
        self.kill()
        self.start()

    def close(self) -> None:
        """Leaves nothing behind: no process, no folder."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def log_tail(self) -> str:
        return self.log_path.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:] if self.log_path.exists() else ""
