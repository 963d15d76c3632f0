"""A peer: its server with the records that it is asked about, and how it is asked."""

from __future__ import annotations

from typing import Protocol

from loadtest.bench import proc
from loadtest.bench.generator import Generator
from loadtest.bench.model import Sample, Turn
from loadtest.bench.peers.work import FILL_LIMIT_S, WARM_UP_S, Work
from loadtest.bench.servers import Program, Server


class Dialect(Protocol):
    """How a peer is asked."""

    @property
    def program(self) -> Program:
        """How its server is started."""

    def fill(self) -> Work:
        """Writes the records."""

    def work(self, kind: str) -> Work:
        """A kind of work."""


class Peer:
    """A server with its records; paused whenever it is not its turn."""

    def __init__(self, dialect: Dialect, server: Server, generator: Generator) -> None:
        self.server = server
        self._dialect = dialect
        self._generator = generator
        self._is_ready = False

    def prepare(self) -> None:
        """Fills the server and warms it up, once."""
        if self._is_ready:
            return
        with self.server.awake():
            self._play(self._dialect.fill(), 0, FILL_LIMIT_S)
            self._play(self._dialect.work("mixed"), 0, WARM_UP_S)
            self.server.settle()
        self._is_ready = True

    def measure(self, turn: Turn, kind: str) -> Sample:
        """One turn of a kind of work, with what it cost the server."""
        with self.server.awake():
            before_s = proc.cpu_seconds_of(self.server.pid)
            sample = self._play(self._dialect.work(kind), turn.number, turn.seconds)
            cpu_s = proc.cpu_seconds_of(self.server.pid) - before_s
        return {**sample, "server_cpu_us": cpu_s / sample["requests"] * 1e6}

    def _play(self, work: Work, turn: int, seconds: float) -> Sample:
        return self._generator.load(self.server.address, work.workload, turn, seconds, work.client)
