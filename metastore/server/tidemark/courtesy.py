"""How long whoever reads very much stands back for those who write."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_PER_WRITE_S = 0.00005
"""Longer than a write takes of the interpreter: whoever writes little costs the reader little."""
PAUSE_PER_WORK_MAX = 3.0
"""Beside who writes all he can the reader has a quarter of the time: so much he has in any case."""


def pause_s(written: int, worked_s: float) -> float:
    """For so many records that others have written since the last pause, by one who has worked for so long."""
    return min(PAUSE_PER_WORK_MAX * worked_s, written * PAUSE_PER_WRITE_S)


class Courtesy:
    """Of one thread, which reads for all."""

    def __init__(
        self,
        written: Callable[[], int],
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._written = written
        self._now_s = now_s
        self._sleep = sleep
        self._seen = written()

    def after(self, work: Callable[[], T]) -> T:
        """Works, and stands back."""
        began_s = self._now_s()
        found = work()
        seen, self._seen = self._seen, self._written()
        if self._seen != seen:
            self._sleep(pause_s(self._seen - seen, self._now_s() - began_s))
        return found
