"""The pages of environments, mapped once in each process.

Whoever touches a page of a new mapping waits for the kernel to enter it, which takes longer than to copy it. Spark's
worker processes read the same files again and again, so each keeps its mappings.
"""

from __future__ import annotations

import threading
from pathlib import Path

from metastore.engine.pages import Pages

MAPPINGS_MAX = 64
"""Of shards, in one process; the one that was made first goes first."""

_lock = threading.Lock()
_kept: dict[Path, tuple[tuple[int, int], Pages]] = {}


def pages_of(environment: Path, page_bytes: int) -> Pages:
    """All pages that an environment has by now; nobody is to close them."""
    status = (environment / "data.mdb").stat()
    state = status.st_ino, status.st_size
    with _lock:
        known = _kept.get(environment)
        if known is not None and known[0] == state:
            return known[1]
        # Who still reads an older mapping keeps it by that.
        pages = Pages(environment, page_bytes)
        _kept.pop(environment, None)
        _kept[environment] = state, pages
        while len(_kept) > MAPPINGS_MAX:
            del _kept[next(iter(_kept))]
    return pages
