"""What has to be done from time to time where shards are open: the thread that does it, and how often."""

from __future__ import annotations

import threading
from collections.abc import Callable

TICK_S = 0.1
"""The most by which a session outlives its deadline at rest."""
TEND_INTERVAL_S = 1.0
"""How often watches tell their progress, and what nobody needs any more is let go."""
TRIM_INTERVAL_S_MIN, TRIM_INTERVAL_S_MAX = 0.5, 300.0
TRIMS_PER_RETENTION = 10


def trim_interval_s(retention_ms: int) -> float:
    """How often logs of such a retention are trimmed."""
    return min(max(retention_ms / 1000 / TRIMS_PER_RETENTION, TRIM_INTERVAL_S_MIN), TRIM_INTERVAL_S_MAX)


class Ticker:
    """A thread that does something every TICK_S."""

    def __init__(self, tick: Callable[[], None], name: str) -> None:
        self._tick = tick
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; returns when it has ended."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(TICK_S):
            self._tick()
