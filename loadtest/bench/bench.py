"""What a run holds while it runs, and the group: the place that its lines are measured in."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from loadtest.bench.generator import Generator
from loadtest.bench.model import Axis, BenchError, Line, Subject
from loadtest.bench.settings import Settings


@dataclass(frozen=True)
class Bench:
    """Handed to every group when it opens."""

    settings: Settings
    generator: Generator
    folder: Path

    @contextmanager
    def fresh_folder(self, name: str) -> Iterator[Path]:
        """A new folder that is removed with all its files."""
        with tempfile.TemporaryDirectory(prefix=f"{name}-", dir=self.folder, ignore_cleanup_errors=True) as path:
            yield Path(path)


@dataclass(frozen=True)
class Group(Generic[Subject]):
    """Lines that share a place to work in; `open` makes it, yields a subject per side, and clears it away."""

    name: str
    title: str
    sides: tuple[str, ...]
    lines: Sequence[Line[Subject]]
    open: Callable[[Bench], AbstractContextManager[Mapping[str, Subject]]]
    axis: Axis | None = None

    def __post_init__(self) -> None:
        assert self.sides, self.name
        assert all((line.point is None) == (self.axis is None) for line in self.lines), self.name
        assert len({line.name for line in self.lines}) == len(self.lines), self.name

    def label(self, line: Line[Subject]) -> str:
        """The line's full name, as `--only` matches it and the JSON gives it."""
        return f"{self.name}/{line.name}"


@contextmanager
def open_bench(settings: Settings) -> Iterator[Bench]:
    """Starts the load generator and makes the run's folder; both end with the block."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="tidemark-bench-", dir=settings.directory)
    except OSError as error:
        raise BenchError(f"no folder can be made in {settings.directory}: {error}") from error
    with folder as path, Generator(settings.client) as generator:
        yield Bench(settings, generator, Path(path))
