"""`tidemark standalone` as a process: started, looked at, ended in every way."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

WITHIN_S = 60.0
ANY = "127.0.0.1:0"
FREE_PORTS = (
    *("--listen", ANY, "--admin", ANY, "--metadata", ANY),
    *("--metrics-port", "0", "--metadata-metrics-port", "0"),
)
PLACES = re.compile(
    r"ready on (?P<broker>\S+): metadata at oxia://(?P<metadata>\S+), admin service at (?P<admin>\S+), "
    r"metrics at (?P<metrics>\S+), the broker's on port (?P<broker_metrics>\d+), data in (?P<data>\S+)"
)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "metastore.commandline", "standalone", *arguments]


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and is waited for by nobody does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class StandaloneProcess:
    """A folder of its own, and one process after another on it."""

    def __init__(self, *arguments: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="tidemark-standalone-"))
        self.data_dir = self.directory / "data"
        self._command = command("--data-dir", str(self.data_dir), *FREE_PORTS, *arguments)
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._said: threading.Event = threading.Event()
        self.lines: list[str] = []
        self.places: dict[str, str] = {}

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    @property
    def url(self) -> str:
        return f"tidemark://{self.places['broker']}"

    @property
    def store_url(self) -> str:
        return f"oxia://{self.places['metadata']}"

    @property
    def log(self) -> str:
        return "".join(self.lines)

    def start(self) -> None:
        """Returns when it says that it is ready."""
        self._said.clear()
        self._process = subprocess.Popen(self._command, stderr=subprocess.PIPE, text=True, cwd=self.directory)
        assert self._process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(self._process.stderr,), daemon=True)
        self._reader.start()
        assert self._said.wait(WITHIN_S), self.log
        assert self._process.poll() is None, self.log

    def _read(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.lines.append(line)
            found = PLACES.search(line)
            if found:
                self.places = found.groupdict()
                self._said.set()
        self._said.set()

    def end(self, number: signal.Signals) -> int:
        """A signal; the exit code."""
        self.process.send_signal(number)
        code = self.process.wait(WITHIN_S)
        assert self._reader is not None
        self._reader.join(WITHIN_S)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def child(self) -> int:
        """The process of the metadata service."""
        (found,) = children(self.process.pid)
        return found

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self.end(signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)
