"""What peers are asked to do: the kinds of work and their sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loadtest.bench.model import BenchError
from loadtest.bench.workload import RECORDS_PER_FOLDER, Workload

RECORDS = 64_000
WINDOW = 64
BATCH = 100
"""Puts at once: an etcd takes 128 at most."""
BATCH_WINDOW = 8
CHILDREN = RECORDS_PER_FOLDER
READS_PER_WRITE = 4
"""Four reads and a write: 80/20."""
SESSION_TIMEOUT_MS = 30_000
FILL_LIMIT_S = 120.0
WARM_UP_S = 4.0
"""Of mixed work before the first line, on every side: a JVM compiles meanwhile."""

KINDS: Mapping[str, str] = {
    "put-one": "put one at a time,",
    "put-64": f"put by 1, {WINDOW} outstanding,",
    "put-100": f"put by {BATCH}, {BATCH_WINDOW} outstanding,",
    "get-one": "get one at a time,",
    "get-64": f"get by 1, {WINDOW} outstanding,",
    "children": f"list the {CHILDREN:,} children of a folder,",
    "scan": f"read the {CHILDREN:,} records of a folder,",
    "mixed": f"{READS_PER_WRITE} gets to 1 put, {WINDOW} outstanding,",
    "delivery": "from the sending of a put to its event at a watch,",
    "session": "create a session,",
}
"""The kinds of work, with their titles. Sessions come last: they stay for a while."""


@dataclass(frozen=True)
class Work:
    """A workload and the name of the client that plays it; no name: the run's client for gRPC."""

    workload: Workload
    client: str | None = None


def known(kind: str) -> str:
    """The kind, if there is such a one."""
    if kind not in KINDS:
        raise BenchError(f"no kind of work {kind!r}; there are {', '.join(KINDS)}")
    return kind
