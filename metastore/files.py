"""What makes changes of files durable: their content by one sync, their names by another, of the directory."""

from __future__ import annotations

import os
from pathlib import Path

UNFINISHED_SUFFIX = ".new"
"""A file bears it until it is durable: under its own name it is never half there."""


def unfinished_path(path: Path) -> Path:
    """The name of a file until it is durable."""
    return path.with_name(path.name + UNFINISHED_SUFFIX)


def sync_path(path: Path) -> None:
    """Makes durable what a file contains, or which names a directory has: creations, renames and deletions."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_file(path: Path, content: bytes) -> None:
    """Gives a file this content, durably; whoever reads it finds the one before or this one, and no part of either."""
    unfinished = unfinished_path(path)
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    sync_path(path.parent)
