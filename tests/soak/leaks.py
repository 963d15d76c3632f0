"""The figures of processes at rest, over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from loadtest.bench.proc import PROC, memory_of, process_tree
from soak.trends import Allowance, trend

MEBIBYTE = 1 << 20
ALLOWED: Mapping[str, Allowance] = {
    "memory": Allowance(16 * MEBIBYTE, 0.2),
    "files": Allowance(10, 0.1),
    "disk": Allowance(64 * MEBIBYTE, 0.5),
}


@dataclass(frozen=True, slots=True)
class Process:
    """One whose figures are taken."""

    name: str
    pid: int
    data: Path


class Figures:
    """Of all processes, by name and kind."""

    def __init__(self) -> None:
        self.samples: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def take(self, process: Process) -> None:
        """As it is now."""
        found = {
            "memory": float(memory_of(process.pid, with_shares=False).private),
            "files": float(sum(_open_files(each) for each in process_tree(process.pid))),
            "disk": float(sum(_disk_bytes(process.data))),
        }
        for kind, figure in found.items():
            self.samples[process.name, kind].append(figure)

    def leaks(self) -> list[str]:
        """What keeps growing, with its figures."""
        return [
            f"{name}: {kind} grows: {[round(each) for each in samples]}"
            for (name, kind), samples in self.samples.items()
            if (found := trend(samples)) is not None and found.is_leak(ALLOWED[kind])
        ]

    def report(self) -> str:
        """The first and the last, for people."""
        lines = []
        for (name, kind), samples in sorted(self.samples.items()):
            unit, scale = ("", 1) if kind == "files" else (" MiB", MEBIBYTE)
            ends = (samples[0], samples[-1], max(samples))
            first, last, most = (f"{each / scale:.1f}{unit}" for each in ends)
            lines.append(f"{name}: {kind} {first} first, {last} last, {most} at most, of {len(samples)} samples")
        return "\n".join(lines)


def _open_files(pid: int) -> int:
    return len(list((PROC / str(pid) / "fd").iterdir()))


def _disk_bytes(folder: Path) -> Iterator[int]:
    """Of every file there, what it takes; those that go meanwhile are left out."""
    for path in folder.rglob("*"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if path.is_file():
            yield status.st_blocks * 512
