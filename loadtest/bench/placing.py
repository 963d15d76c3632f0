"""Which processors a server and its load generator may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from loadtest.bench.proc import process_tree


@contextmanager
def apart(server: int, client: int) -> Iterator[None]:
    """While the block runs the client has a processor for itself and the server the others, if there are two.

    A client that is asked for twice as much takes twice the processor. Where both share theirs it takes that from the
    server, and what looks like a server that breaks down is a client that is in its way.
    """
    everywhere = os.sched_getaffinity(0)
    if len(everywhere) < 2:
        yield
        return
    own = {max(everywhere)}
    _place(client, own)
    _place(server, everywhere - own)
    try:
        yield
    finally:
        _place(client, everywhere)
        _place(server, everywhere)


def _place(root: int, processors: set[int]) -> None:
    """Puts all threads of a process and its descendants there, and with them those that they start."""
    threads = [thread for process in process_tree(root) for thread in Path(f"/proc/{process}/task").iterdir()]
    for thread in threads:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            os.sched_setaffinity(int(thread.name), processors)
