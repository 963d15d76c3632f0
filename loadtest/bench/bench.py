"""What a run holds while it runs: settings, the load generator's process, and a folder that goes with it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtest.bench.generator import Generator
from loadtest.bench.model import BenchError
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


@contextmanager
def open_bench(settings: Settings) -> Iterator[Bench]:
    """Starts the load generator and makes the run's folder; both end with the block."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="tidemark-bench-", dir=settings.directory)
    except OSError as error:
        raise BenchError(f"no folder can be made in {settings.directory}: {error}") from error
    with folder as path, Generator(settings.client) as generator:
        yield Bench(settings, generator, Path(path))
