"""What files take to be relied on: content and names that are durable, and one process at a time.

Content is durable by one sync, a name by another, of its directory. A lock is the kernel's: it goes with its process.
"""

from __future__ import annotations

import fcntl
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


def lock_file(path: Path) -> int:
    """Makes a file this process's own until the descriptor is closed; BlockingIOError if another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def replace_file(path: Path, content: bytes) -> None:
    """Gives a file this content, durably; whoever reads it finds the one before or this one, and no part of either."""
    unfinished = unfinished_path(path)
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    sync_path(path.parent)
