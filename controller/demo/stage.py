"""Where the story happens: a store and a broker, processes of their own; and the voice that tells it."""

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
from pathlib import Path

LOOPBACK = "127.0.0.1"
FIRST_PORT, LAST_PORT = 20_000, 32_000
START_WITHIN_S = 30.0
COMMAND_WITHIN_S = 30.0

_chapters = itertools.count(1)


def say(text: str) -> None:
    """Tells what happened."""
    print(f"   {text}", flush=True)


def begin_chapter(title: str) -> None:
    """Tells what comes now."""
    print(f"\n{next(_chapters)}. {title}", flush=True)


class Process:
    """`tidemark` with some command, as long as it is wanted."""

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self._name = name
        self._command = [sys.executable, "-m", "metastore.commandline", *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits for its line that it is ready."""
        self._process = process = subprocess.Popen(self._command, stderr=subprocess.PIPE)
        is_ready = threading.Event()
        reader = threading.Thread(target=self._read, args=(process, is_ready), daemon=True)
        reader.start()
        if not is_ready.wait(START_WITHIN_S) or process.poll() is not None:
            self.kill()
            raise RuntimeError(f"the {self._name} did not start")
        say(f"the {self._name} is ready")

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    @staticmethod
    def _read(process: subprocess.Popen[bytes], is_ready: threading.Event) -> None:
        """Reads what it says for as long as it says something, so that it never waits for a reader."""
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                if b"ready on" in line:
                    is_ready.set()
        is_ready.set()


class Stage:
    """One store, one broker."""

    def __init__(self, folder: Path) -> None:
        store, broker = _free_port(), _free_port()
        self.store_url = f"oxia://{LOOPBACK}:{store}"
        self.url = f"tidemark://{LOOPBACK}:{broker}"
        self._store = Process(
            "metadata service",
            [
                *("metastore", "--public-addr", f"{LOOPBACK}:{store}", "--metrics-addr", f"{LOOPBACK}:0"),
                *("--data-dir", str(folder / "store")),
            ],
        )
        self.broker = Process(
            "broker",
            [
                *("broker", "--store", self.store_url, "--listen", f"{LOOPBACK}:{broker}", "--metrics-port", "0"),
                *("--data-dir", str(folder / "segments"), "--session-timeout-ms", "2000"),
            ],
        )

    def __enter__(self) -> Stage:
        try:
            self._store.start()
            self.broker.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.kill()
        self._store.kill()

    def run(self, *arguments: str) -> str:
        """What a command of `tidemark txn` prints."""
        command = [sys.executable, "-m", "metastore.commandline", "txn", "--store", self.store_url, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_WITHIN_S, check=True)
        return ended.stdout


def _free_port() -> int:
    """A port that nobody listens on, below those of outgoing connections, one of which might take it meanwhile."""
    while True:
        port = random.randrange(FIRST_PORT, LAST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port
