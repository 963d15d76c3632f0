"""Looks at a server before and after a profile: its metrics over HTTP, its processes in /proc, the way to it."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from statistics import median

from loadtest.bench.proc import PROC, TICKS_PER_SECOND, cpu_seconds_by_process, parse_busy_ticks
from loadtest.check.exposition import CPU, PUTS, Samples, grown, logs_of, parse, shards_of, total
from loadtest.check.listeners import is_here, listeners
from loadtest.check.usage import Evidence, ProcessUse

ANSWER_WITHIN_S = 2.0
ROUND_TRIPS = 15

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at a moment."""

    at_s: float
    own_s: float
    metrics: Mapping[str, Samples]
    processes: Mapping[int, float]
    busy_s: float | None


@dataclass
class Observer:
    """Of the servers at these addresses, with metrics at those."""

    servers: Sequence[Address]
    metrics: Sequence[str]
    _before: Look | None = None
    _round_trip_s: float | None = None
    _troubles: dict[str, str] = field(default_factory=dict)

    async def begin(self) -> None:
        """Behind this the work begins."""
        self._troubles = {}
        self._round_trip_s = await asyncio.to_thread(self._measure_round_trip)
        self._before = await asyncio.to_thread(self._look)

    async def end(self) -> Evidence:
        """What was used since."""
        assert self._before is not None, "it has begun"
        before, after = self._before, await asyncio.to_thread(self._look)
        seconds = after.at_s - before.at_s
        deltas = {
            name: grown(before.metrics[name], after.metrics[name]) for name in after.metrics if name in before.metrics
        }
        shards = [
            shard
            for samples in deltas.values()
            if samples is not None and total(samples, PUTS) > 0
            for shard in shards_of(samples, seconds)
        ]
        logs = [log for samples in deltas.values() if samples is not None for log in logs_of(samples)]
        if not shards and not logs and deltas:
            self._troubles["disk"] = "how long the disk took: nothing was written to a service with such metrics"
        processes = self._processes(before, after, seconds) or [
            ProcessUse(f"the process at {name}", samples[CPU, ()] / seconds, 1.0)
            for name, samples in deltas.items()
            if samples is not None and (CPU, ()) in samples
        ]
        if not processes:
            self._troubles["processes"] = "the server's processor: it is on another machine, and no metrics tell it"
        busy_s = None if before.busy_s is None or after.busy_s is None else after.busy_s - before.busy_s
        return Evidence(
            seconds=seconds,
            own_cores=(after.own_s - before.own_s) / seconds,
            processes=processes,
            machine_share=None if busy_s is None else min(1.0, busy_s / seconds / (os.cpu_count() or 1)),
            shards=shards,
            logs=logs,
            round_trip_s=self._round_trip_s,
            unknown=tuple(self._troubles.values()),
        )

    def _look(self) -> Look:
        here = [port for host, port in self.servers if is_here(host)]
        found: dict[int, float] = {}
        for port in here:
            for process in listeners(port):
                found |= cpu_seconds_by_process(process)
        found.pop(os.getpid(), None)
        metrics = {name: samples for name in self.metrics if (samples := self._read_metrics(name)) is not None}
        busy_s = parse_busy_ticks((PROC / "stat").read_text()) / TICKS_PER_SECOND if here else None
        return Look(time.monotonic(), time.process_time(), metrics, found, busy_s)

    def _read_metrics(self, name: str) -> Samples | None:
        try:
            with urllib.request.urlopen(f"http://{name}/metrics", timeout=ANSWER_WITHIN_S) as answer:
                return parse(answer.read().decode())
        except (OSError, HTTPException, urllib.error.URLError, ValueError) as error:
            reason = getattr(error, "reason", error)
            self._troubles[name] = f"the metrics at {name}: {reason} (--metrics says where they are)"
            return None

    @staticmethod
    def _processes(before: Look, after: Look, seconds: float) -> list[ProcessUse]:
        """The processes that were there all the time."""
        return [
            ProcessUse(
                f"process {process} ({_name(process)})", (used_s - before.processes[process]) / seconds, _cores(process)
            )
            for process, used_s in after.processes.items()
            if process in before.processes
        ]

    def _measure_round_trip(self) -> float | None:
        """How long there and back takes: a connection is answered by the kernel, however busy the server."""
        if not self.servers:
            self._troubles["network"] = "the network: the store is in this process"
            return None
        taken_s = []
        for _ in range(ROUND_TRIPS):
            began_s = time.perf_counter()
            try:
                socket.create_connection(self.servers[0], ANSWER_WITHIN_S).close()
            except OSError as error:
                self._troubles["network"] = f"the network: {error}"
                return None
            taken_s.append(time.perf_counter() - began_s)
        return median(taken_s)


def _name(process: int) -> str:
    return _text(PROC / str(process) / "comm").strip() or "gone"


def _cores(process: int) -> float:
    """How many cores a process can use: a Python process one, whatever its threads do."""
    command = _text(PROC / str(process) / "cmdline").partition("\0")[0]
    is_python = "python" in Path(command).name
    return 1.0 if is_python else float(os.cpu_count() or 1)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
