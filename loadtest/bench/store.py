"""A running server with records in it: the subject of all lines over the wire."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from loadtest.bench import proc
from loadtest.bench.bench import Bench
from loadtest.bench.generator import Generator
from loadtest.bench.model import Sample, Turn
from loadtest.bench.proc import Memory, PeakMemory
from loadtest.bench.servers import Server
from loadtest.bench.workload import Fill, Workload

FILL_LIMIT_S = 300.0
MEBIBYTE = 1024 * 1024


@dataclass
class Store:
    """A server, paused whenever it is not its turn; `records` of the key space are in it."""

    server: Server
    generator: Generator
    records: int = 0

    def fill(self, records: int) -> None:
        """Makes the store hold at least so many records, and lets it settle."""
        if records <= self.records:
            return
        with self.server.awake():
            workload = Fill(self.records, records)
            self.generator.load(self.server.address, workload, 0, FILL_LIMIT_S)
            self.server.settle()
        self.records = records

    def load(self, workload: Workload, turn: Turn, client: str | None = None) -> Sample:
        """One turn of a workload, with what it cost the server."""
        with self.server.awake():
            before_s = proc.cpu_seconds_of(self.server.pid)
            sample = self.generator.load(self.server.address, workload, turn.number, turn.seconds, client)
            cpu_s = proc.cpu_seconds_of(self.server.pid) - before_s
        return {**sample, "server_cpu_us": cpu_s / sample["requests"] * 1e6}

    def reopen(self) -> Sample:
        """Stops the server in order and starts it again."""
        self.server.stop()
        return self._start()

    def reopen_after_kill(self, workload: Workload, turn: Turn) -> Sample:
        """Kills the server directly after a turn of work and starts it again."""
        self.load(workload, turn)
        self.server.kill()
        return self._start()

    def drain(self, workload: Workload, turn: Turn) -> Sample:
        """One turn of a workload on a server just started, with what it adds to the memory of the server."""
        self.reopen()
        with self.server.awake():
            idle = proc.memory_of(self.server.pid)
            with PeakMemory(self.server.pid) as watched:
                sample = self.generator.load(self.server.address, workload, turn.number, turn.seconds)
        return {
            **sample,
            **_as_sample(idle, "idle"),
            **_as_sample(watched.peak, "peak"),
            "rise_mib": (watched.peak.private - idle.private) / MEBIBYTE,
            "resident_rise_mib": (watched.peak.resident - idle.resident) / MEBIBYTE,
        }

    def _start(self) -> Sample:
        open_s = self.server.start()
        self.server.settle()
        memory = proc.memory_of(self.server.pid)
        self.server.pause()
        return {"open_s": open_s, **_as_sample(memory, "idle")}


def _as_sample(memory: Memory, when: str) -> dict[str, float]:
    return {
        f"{when}_private_mib": memory.private / MEBIBYTE,
        f"{when}_resident_mib": memory.resident / MEBIBYTE,
        f"{when}_proportional_mib": memory.proportional / MEBIBYTE,
    }


@contextmanager
def open_stores(bench: Bench, group: str) -> Iterator[Mapping[str, Store]]:
    """Starts all programs on fresh folders, each with one shard; they end with the block."""
    with ExitStack() as stack:
        stores = {}
        for program in bench.settings.programs:
            folder = stack.enter_context(bench.fresh_folder(f"{group}-{program.side}"))
            server = stack.enter_context(Server(program, folder, bench.generator))
            server.pause()
            stores[program.side] = Store(server, bench.generator)
        yield stores
