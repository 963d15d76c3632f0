"""Memory and processor time of a process and its descendants, as the kernel tells them in /proc."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

PROC = Path("/proc")
KIB = 1024
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
SAMPLE_INTERVAL_S = 0.01
STOPPED = "T"
BLOCK_BYTES = 512
"""Of `st_blocks`, on any file system."""


@dataclass(frozen=True)
class Memory:
    """Bytes of main memory.

    `private` is what the process itself holds. `resident` counts the pages of mapped files too, which are the
    kernel's cache and given back at need; `proportional` shares common pages between those who map them.
    """

    private: int
    resident: int
    proportional: int

    def __add__(self, other: Memory) -> Memory:
        return Memory(
            self.private + other.private,
            self.resident + other.resident,
            self.proportional + other.proportional,
        )

    def greater_of(self, other: Memory) -> Memory:
        """The greater of two, for each figure."""
        return Memory(
            max(self.private, other.private),
            max(self.resident, other.resident),
            max(self.proportional, other.proportional),
        )


NO_MEMORY = Memory(0, 0, 0)


def parse_kib_fields(text: str) -> dict[str, int]:
    """Reads lines of the form `Name:   123 kB` as bytes; other lines are none of ours."""
    fields = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[0].isdigit() and words[1] == "kB":
            fields[name] = int(words[0]) * KIB
    return fields


def parse_cpu_ticks(stat: str) -> int:
    """A /proc/PID/stat line's user and system time, its ended children's included.

    The command's name, in parentheses, may hold spaces and parentheses.
    """
    after_name = stat.rpartition(")")[2].split()
    return sum(int(ticks) for ticks in after_name[11:15])


def parse_busy_ticks(stat: str) -> int:
    """The time that all processors were not idle, from /proc/stat; guests count as users."""
    name, user, nice, system, _idle, _waiting, *more = stat.splitlines()[0].split()
    assert name == "cpu"
    return sum(int(ticks) for ticks in (user, nice, system, *more[:3]))


def process_tree(root: int) -> list[int]:
    """A process and its descendants, parents first; those that have gone meanwhile are left out."""
    found = [root]
    for process in found:
        for thread in _listed(PROC / str(process) / "task"):
            children = _read(thread / "children")
            found += [int(child) for child in (children or "").split()]
    return found


def is_stopped(root: int) -> bool:
    """Whether any thread of a process or its descendants is stopped by a signal."""
    threads = (thread for process in process_tree(root) for thread in _listed(PROC / str(process) / "task"))
    stats = (_read(thread / "stat") for thread in threads)
    return any(stat.rpartition(")")[2].split()[0] == STOPPED for stat in stats if stat)


def private_bytes_of(process: int) -> int:
    """What one process holds for itself, without its descendants."""
    return _private(parse_kib_fields(_read(PROC / str(process) / "status") or ""))


def memory_of(root: int, *, with_shares: bool = True) -> Memory:
    """The memory of a process and its descendants; shares (costly to tell) only if asked for."""
    total = NO_MEMORY
    for process in process_tree(root):
        status = parse_kib_fields(_read(PROC / str(process) / "status") or "")
        rollup = parse_kib_fields(_read(PROC / str(process) / "smaps_rollup") or "") if with_shares else {}
        total += Memory(_private(status), status.get("VmRSS", 0), rollup.get("Pss", 0))
    return total


def cpu_seconds_by_process(root: int) -> dict[int, float]:
    """The processor time of each living process of a tree, with that of its children that have ended."""
    stats = ((process, _read(PROC / str(process) / "stat")) for process in process_tree(root))
    return {process: parse_cpu_ticks(stat) / TICKS_PER_SECOND for process, stat in stats if stat}


def disk_bytes_of(folder: Path) -> int:
    """What the files below a folder take on the disk."""
    return sum(path.stat().st_blocks * BLOCK_BYTES for path in folder.rglob("*") if path.is_file())


def cpu_seconds_of(root: int) -> float:
    """The processor time that a process and its living descendants have used."""
    return sum(cpu_seconds_by_process(root).values())


@dataclass(frozen=True)
class ProcessorUse:
    """What a process tree and the whole machine have used of the processors up to a moment."""

    at_s: float
    own_s: float
    busy_s: float


def processor_use(root: int) -> ProcessorUse:
    """The use up to now."""
    busy_ticks = parse_busy_ticks((PROC / "stat").read_text())
    return ProcessorUse(time.monotonic(), cpu_seconds_of(root), busy_ticks / TICKS_PER_SECOND)


def share_of_others(before: ProcessorUse, after: ProcessorUse, processors: int) -> float:
    """The part of all processors' time that went to others than the process tree.

    The kernel counts in ticks, so a short while may seem to hold less than nothing or more than all.
    """
    assert after.at_s > before.at_s
    others_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return min(1.0, max(0.0, others_s / ((after.at_s - before.at_s) * processors)))


class PeakMemory:
    """Watches a process tree's memory while the block runs; `peak` is the greatest seen."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="peak-memory", daemon=True)
        self.peak = NO_MEMORY

    def __enter__(self) -> PeakMemory:
        self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._watcher.join()
        self.peak = self.peak.greater_of(memory_of(self._root))

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_INTERVAL_S):
            self.peak = self.peak.greater_of(memory_of(self._root, with_shares=False))


def _private(status: dict[str, int]) -> int:
    return status.get("RssAnon", 0) + status.get("RssShmem", 0)


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return []


def _read(path: Path) -> str | None:
    """A file's text, or None if its process has gone."""
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
