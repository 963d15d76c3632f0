"""Plays a line of the benchmark, and has every process that takes part sampled meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadtest.bench.bench import Bench, Group
from loadtest.bench.model import BenchError, Line, Sample, Turn
from loadtest.bench.proc import PROC, cpu_seconds_by_process, process_tree
from loadtest.profiling.stacks import Sampled, parse

SAMPLES_PER_SECOND = 250
BEGIN_WITHIN_S = 30.0
END_WITHIN_S = 60.0
WARM_UP_S = 1.0
CORES_MIN = 0.02
"""A process that uses less is left out."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Of one process."""

    name: str
    cores: float
    """That it used, on average."""
    stacks: Sequence[Sampled]


def profile(bench: Bench, group: Group[Any], line: Line[Any], seconds: float) -> tuple[Sample, list[Profile]]:
    """Measures our side of a line once, for so long; what was measured, and the processes, the busiest first."""
    with group.open(bench) as subjects:
        subject = subjects[group.sides[0]]
        line.prepare(subject)
        line.measure(subject, Turn(0, WARM_UP_S, is_warm_up=True))
        with sampled(bench.folder, seconds) as sampling:
            sample = line.measure(subject, Turn(1, seconds))
        return sample, sampling.profiles()


class Sampling:
    """The profilers, one for each Python process below this one, this one included."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder = folder
        self._seconds = seconds
        self._profilers: dict[int, subprocess.Popen[bytes]] = {}
        self._names: dict[int, str] = {}
        self._before: Mapping[int, float] = {}
        self._used: dict[int, float] = {}

    def begin(self) -> None:
        """Returns when all of them look."""
        program = Path(sys.executable).with_name("py-spy")
        if not program.exists() and shutil.which("py-spy") is None:
            raise BenchError("py-spy is not installed: pip install '.[dev]'")
        for process in process_tree(os.getpid()):
            name = _name(process)
            if name is not None:
                self._names[process] = name
                self._profilers[process] = self._start(str(program), process)
        for process, profiler in self._profilers.items():
            _await_beginning(process, profiler)
        self._before = cpu_seconds_by_process(os.getpid())

    def _start(self, program: str, process: int) -> subprocess.Popen[bytes]:
        # Only who has the interpreter's lock, and nobody is stopped in order to be looked at.
        looking = ["--gil", "--nonblocking", "--pid", str(process), "--rate", str(SAMPLES_PER_SECOND)]
        writing = ["--format", "raw", "--output", str(self._output(process)), "--duration", str(round(self._seconds))]
        command = [program, "record", *looking, *writing]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def end(self) -> None:
        """Returns when all of them have written what they saw."""
        after = cpu_seconds_by_process(os.getpid())
        self._used = {each: after.get(each, 0.0) - self._before.get(each, 0.0) for each in self._names}
        for profiler in self._profilers.values():
            profiler.communicate(timeout=self._seconds + END_WITHIN_S)

    def profiles(self) -> list[Profile]:
        """The busiest process first."""
        found = [
            Profile(name, self._used[process] / self._seconds, parse(self._output(process).read_text()))
            for process, name in self._names.items()
            if self._used[process] / self._seconds >= CORES_MIN and self._output(process).exists()
        ]
        return sorted(found, key=lambda each: -each.cores)

    def close(self) -> None:
        for profiler in self._profilers.values():
            profiler.kill()
            profiler.wait()

    def _output(self, process: int) -> Path:
        return self._folder / f"stacks-{process}"


@contextmanager
def sampled(folder: Path, seconds: float) -> Iterator[Sampling]:
    """Samples while the block runs, which takes so long."""
    sampling = Sampling(folder, seconds)
    try:
        sampling.begin()
        yield sampling
        sampling.end()
    finally:
        sampling.close()


def _await_beginning(process: int, profiler: subprocess.Popen[bytes]) -> None:
    """The first line that it prints says that it samples, or why it cannot."""
    assert profiler.stdout is not None
    giving_up = threading.Timer(BEGIN_WITHIN_S, profiler.kill)
    giving_up.start()
    try:
        told = profiler.stdout.readline().decode()
    finally:
        giving_up.cancel()
    if "Sampling" not in told:
        rest = profiler.stdout.read().decode()
        raise BenchError(f"py-spy cannot look at process {process}: {told}{rest} (it may need to be run as root)")


def _name(process: int) -> str | None:
    """What a Python process is there for; None for another one."""
    words = (PROC / str(process) / "cmdline").read_text().split("\0")
    if "python" not in Path(words[0]).name:
        return None
    if process == os.getpid():
        return "client"
    if "metastore.commandline" in words:
        return words[words.index("metastore.commandline") + 1]
    return "load generator" if any("spawn_main" in word for word in words) else None
