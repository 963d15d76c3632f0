"""What demonstrations need: a voice that tells, and programs that are started and killed."""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

LOOPBACK = "127.0.0.1"
COMMAND_LINE = (sys.executable, "-m", "metastore.commandline")
FIRST_PORT, LAST_PORT = 20_000, 32_000
START_WITHIN_S = 30.0

_chapters = itertools.count(1)


def say(text: str) -> None:
    """Tells what happened."""
    print(f"   {text}", flush=True)


def begin_chapter(title: str) -> None:
    """Tells what comes now."""
    print(f"\n{next(_chapters)}. {title}", flush=True)


class Program:
    """`tidemark` with some command that serves, as long as it is wanted."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self._name = name
        self._command = [*COMMAND_LINE, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits for its line that it is ready."""
        self._process = process = subprocess.Popen(self._command, stderr=subprocess.PIPE)
        is_ready = threading.Event()
        reader = threading.Thread(target=_read, args=(process, is_ready), daemon=True)
        reader.start()
        if not is_ready.wait(START_WITHIN_S) or process.poll() is not None:
            self.kill()
            raise RuntimeError(f"the {self._name} did not start")
        say(f"the {self._name} is ready")

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Asks it to end, and waits until it has."""
        self._end(signal.SIGTERM)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self._process = None


def _read(process: subprocess.Popen[bytes], is_ready: threading.Event) -> None:
    """Reads what it says for as long as it says something, so that it never waits for a reader."""
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            if b"ready on" in line:
                is_ready.set()
    is_ready.set()


def free_port() -> int:
    """A port that nobody listens on, below those of outgoing connections, one of which might take it meanwhile."""
    while True:
        port = random.randrange(FIRST_PORT, LAST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
