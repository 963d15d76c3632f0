"""Where the story happens: the service in a process of its own; and the voice that tells it."""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

LOOPBACK = "127.0.0.1"
FIRST_PORT, LAST_PORT = 20_000, 32_000
START_WITHIN_S = 30.0

_chapters = itertools.count(1)


def say(text: str) -> None:
    """Tells what happened."""
    print(f"   {text}", flush=True)


def begin_chapter(title: str) -> None:
    """Tells what comes now."""
    print(f"\n{next(_chapters)}. {title}", flush=True)


class Service:
    """`tidemark metastore`, as long as the block lasts."""

    def __init__(self, folder: Path) -> None:
        port = _free_port()
        self.url = f"oxia://{LOOPBACK}:{port}"
        self._command = [sys.executable, "-m", "metastore.commandline", "metastore"]
        self._command += ["--public-addr", f"{LOOPBACK}:{port}", "--metrics-addr", f"{LOOPBACK}:0"]
        self._command += ["--data-dir", str(folder / "data")]
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Service:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Starts it and waits for its line that it is ready."""
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        watchdog = threading.Timer(START_WITHIN_S, self._process.kill)
        watchdog.start()
        try:
            for line in self._process.stderr:
                say(line.strip())
                if "ready on" in line:
                    return
        finally:
            watchdog.cancel()
        self.kill()
        raise RuntimeError("the service did not start")

    def kill(self) -> None:
        """kill -9."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()
        self._process = None


def _free_port() -> int:
    """A port that nobody listens on, below those of outgoing connections, one of which might take it meanwhile."""
    while True:
        port = random.randrange(FIRST_PORT, LAST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
