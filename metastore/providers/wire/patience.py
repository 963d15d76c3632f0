"""How long something may take, and how long to wait between two attempts at it."""

from __future__ import annotations

import random

from metastore.clock import Clock

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0


class Deadline:
    """A moment by which something must be done."""

    def __init__(self, clock: Clock, timeout_s: float) -> None:
        self._clock = clock
        self.timeout_s = timeout_s
        self.at_s = clock.monotonic_s() + timeout_s

    @property
    def remaining_s(self) -> float:
        """What is left; 0 when it has passed."""
        return max(0.0, self.at_s - self._clock.monotonic_s())

    @property
    def has_passed(self) -> bool:
        """Whether nothing is left."""
        return self.remaining_s <= 0


class Backoff:
    """Pauses that double from failure to failure, each of random length, so that clients do not come in step."""

    def __init__(self, choice: random.Random) -> None:
        self._choice = choice
        self._pause_s = FIRST_PAUSE_S

    def next_s(self) -> float:
        """The next pause: between half of its bound and the whole."""
        pause_s, self._pause_s = self._pause_s, min(2 * self._pause_s, LONGEST_PAUSE_S)
        return self._choice.uniform(pause_s / 2, pause_s)

    def reset(self) -> None:
        """Something worked: the next failure is a first one."""
        self._pause_s = FIRST_PAUSE_S
