"""Time as an argument: logic never reads the system's clock, it is given one."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the code may know about time."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch; may jump."""

    def monotonic_s(self) -> float:
        """Seconds that only go forward; for deadlines."""


class SystemClock:
    """The machine's clock."""

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that stands still until it is told to go on; for tests."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, monotonic_s: float = 1_000.0) -> None:
        self._wall_ms = wall_ms
        self._monotonic_s = monotonic_s

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def advance_ms(self, milliseconds: int) -> None:
        """Moves both times forward."""
        assert milliseconds >= 0
        self._wall_ms += milliseconds
        self._monotonic_s += milliseconds / 1000
