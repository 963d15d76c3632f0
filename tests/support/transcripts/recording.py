"""Recordings as they lie in files."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.server import Sorting

SUFFIX = ".json.gz"


@dataclass(frozen=True)
class ServerNeeds:
    """The server that a recording was made with."""

    shards: int = 1
    sorting: Sorting = "hierarchical"
    notifications: bool = True


@dataclass(frozen=True)
class Case:
    """Steps that share their variables and streams."""

    name: str
    steps: list[dict[str, Any]]
    fresh: bool = False
    service: str = "v1"
    quirk: str | None = None


@dataclass(frozen=True)
class Recording:
    """One file: cases that are played in their order."""

    topic: str
    server: ServerNeeds
    cases: tuple[Case, ...]

    @property
    def judged_cases(self) -> tuple[Case, ...]:
        """The cases that say how a server has to behave."""
        return tuple(case for case in self.cases if case.quirk is None)


def recording_paths(folder: Path) -> dict[str, Path]:
    """The recordings of a folder by the name of their file."""
    return {path.name.removesuffix(SUFFIX): path for path in sorted(folder.glob(f"*{SUFFIX}"))}


def load_recording(path: Path) -> Recording:
    content = json.loads(gzip.decompress(path.read_bytes()))
    return Recording(
        content["topic"],
        ServerNeeds(**content.get("server", {})),
        tuple(Case(**case) for case in content["cases"]),
    )
