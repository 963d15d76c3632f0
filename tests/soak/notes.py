"""The notes of an epoch that failed, in a file: so that they can be judged again when the processes are gone."""

from __future__ import annotations

import gzip
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from linearizability.operations import Operation
from topics_end_to_end.whole_evidence import Evidence
from watch_contract.verdict import History

T = TypeVar("T")

FOLDER = Path(__file__).parents[2] / "build" / "soak"
SUFFIX = ".notes"
BYTES_MAX = 64 * 1024 * 1024
FILES_MAX = 10
"""When there is another one, the oldest goes."""


@dataclass(frozen=True)
class Noted(Generic[T]):
    """By one run."""

    history: T
    is_over: bool
    """If not, writes were on their way that are not noted."""


@dataclass(frozen=True)
class Notes:
    """Of the latest runs of an epoch, or as far as they had come; None of what had not begun."""

    of: str
    """The epoch, with its plan."""
    failure: str
    topics: Evidence | None
    watches: Noted[History] | None
    records: Noted[list[Operation]] | None


class NotesTooLarge(Exception):
    """Nothing was written."""


def store(notes: Notes, name: str, folder: Path) -> Path:
    """Writes a file, whole or not at all, and removes the oldest ones; a former one of that name is replaced."""
    content = gzip.compress(pickle.dumps(notes))
    if len(content) > BYTES_MAX:
        raise NotesTooLarge(f"{len(content):,} bytes, where {BYTES_MAX:,} are allowed")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name + SUFFIX)
    unfinished = path.with_suffix(".new")
    unfinished.write_bytes(content)
    unfinished.rename(path)
    newest_first = sorted(folder.glob(f"*{SUFFIX}"), key=lambda each: each.stat().st_mtime_ns, reverse=True)
    for old in newest_first[FILES_MAX:]:
        old.unlink()
    return path


def load(path: Path) -> Notes:
    """What was stored, by this version of the tests."""
    notes = pickle.loads(gzip.decompress(path.read_bytes()))
    assert isinstance(notes, Notes), path
    return notes
