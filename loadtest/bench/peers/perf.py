"""`oxia perf`, Oxia's own load, on Tidemark and on Oxia: a program in Go that nobody here wrote."""

from __future__ import annotations

import os
import re
import selectors
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from loadtest.bench.bench import Bench, Group
from loadtest.bench.model import AtLeast, BenchError, Better, Line, Metric, Sample, Turn
from loadtest.bench.servers import Server
from loadtest.bench.settings import Settings

GROUP = "oxia-perf"
RATES = (2_000, 50_000)
"""Operations a second that it is told to send: few and many."""
READ_PERCENT = 80
TOLD_EVERY_S = 10.0
LIMIT_S = 30.0
READ_BYTES = 65_536
TOTAL = re.compile(r"Total ops:\s*([\d.]+) ops/s - Failed ops:\s*([\d.]+)")
WAITS = re.compile(r"(Write|Read)\s+ops\s+[\d.]+ \w/s\s+Latency ms: 50%\s*([\d.]+).*? 99%\s*([\d.]+)")
RATE = Metric("rate", "", "operations/s", Better.HIGHER, (AtLeast("oxia"),))


@dataclass(frozen=True)
class Target:
    """A server that `oxia perf` is let loose on."""

    server: Server
    binary: Path

    def measure(self, turn: Turn, rate: int) -> Sample:
        """What the program tells of its first ten seconds."""
        del turn  # the program has a time of its own
        with self.server.awake():
            return parsed(self._told(rate))

    def _told(self, rate: int) -> str:
        command = [str(self.binary), "perf", "-a", self.server.address, "-r", str(rate), "-p", str(READ_PERCENT)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            try:
                return self._read(process)
            finally:
                process.kill()

    def _read(self, process: subprocess.Popen[bytes]) -> str:
        assert process.stdout is not None
        told = b""
        deadline_s = time.monotonic() + LIMIT_S
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not is_whole(told.decode(errors="replace")):
                if not selector.select(max(0.0, deadline_s - time.monotonic())):
                    raise BenchError(f"oxia perf told nothing within {LIMIT_S:g} s")
                piece = os.read(process.stdout.fileno(), READ_BYTES)
                if not piece:
                    raise BenchError(f"oxia perf ended: {told.decode(errors='replace')[-400:]}")
                told += piece
        return told.decode(errors="replace")


def is_whole(told: str) -> bool:
    """Whether one table of figures has been printed."""
    return TOTAL.search(told) is not None and len(WAITS.findall(told)) >= 2


def parsed(told: str) -> Sample:
    """The figures of the first table."""
    total = TOTAL.search(told)
    waits = {kind: (p50, p99) for kind, p50, p99 in WAITS.findall(told)[:2]}
    if total is None or set(waits) != {"Read", "Write"}:
        raise BenchError(f"oxia perf told something else than expected: {told[-400:]}")
    if float(total[2]) > 0:
        raise BenchError(f"oxia perf: {total[2]} operations a second failed")
    return {
        "rate": float(total[1]),
        **{f"{kind.lower()}_p50_ms": float(p50) for kind, (p50, _p99) in waits.items()},
        **{f"{kind.lower()}_p99_ms": float(p99) for kind, (_p50, p99) in waits.items()},
    }


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """The one group of this module."""
    sides = tuple(program.side for program in settings.programs)
    title = f"oxia perf, {READ_PERCENT} % reads, {TOLD_EVERY_S:g} s a turn"
    return [Group(GROUP, title, sides, list(map(_line, RATES)), _open)]


def _line(rate: int) -> Line[Target]:
    waits = (
        Metric(f"{kind}_{fraction}_ms", f"{kind}s, {fraction}", "ms", Better.LOWER, (AtLeast("oxia"),))
        for kind in ("write", "read")
        for fraction in ("p50", "p99")
    )
    title = f"told to send {rate:,} a second,"
    return Line(f"perf-{rate}", title, (RATE, *waits), partial(_measure, rate=rate), is_slow=True)


def _measure(target: Target, turn: Turn, rate: int) -> Sample:
    return target.measure(turn, rate)


@contextmanager
def _open(bench: Bench) -> Iterator[Mapping[str, Target]]:
    with ExitStack() as stack:
        targets = {}
        for program in bench.settings.programs:
            folder = stack.enter_context(bench.fresh_folder(f"{GROUP}-{program.side}"))
            server = stack.enter_context(Server(program, folder, bench.generator))
            server.pause()
            assert bench.settings.oxia_binary is not None
            targets[program.side] = Target(server, bench.settings.oxia_binary)
        yield targets
