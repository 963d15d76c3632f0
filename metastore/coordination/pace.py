"""How coordination waits: the clock, the chance and the sleep that it is given, and the pauses between attempts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from metastore.clock import Clock, SystemClock

PAUSE_FIRST_S = 0.05
PAUSE_GROWTH = 2.0
PAUSE_MAX_S = 5.0
QUIET_S = 2 * PAUSE_MAX_S
"""A failure after so long without one counts as a first one."""

Sleep = Callable[[float], Awaitable[None]]

_MARK_BITS = 128


@dataclass(frozen=True, slots=True)
class Pace:
    """What waiting takes from outside, so that tests can give it something else."""

    clock: Clock = field(default_factory=SystemClock)
    random: random.Random = field(default_factory=random.Random)
    sleep: Sleep = asyncio.sleep

    def new_mark(self) -> str:
        """A name that nobody else has: by it a record is known as one's own."""
        return f"{self.random.getrandbits(_MARK_BITS):032x}"


class Backoff:
    """The pauses between attempts that fail one after another: each longer, none above PAUSE_MAX_S, all by chance.

    Chance keeps those who failed together from coming back together.
    """

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._longest_s = PAUSE_FIRST_S
        self._ended_s: float | None = None
        """When the last pause was over."""

    async def pause(self) -> None:
        """Waits from half of what is due now to all of it."""
        now_s = self._pace.clock.monotonic_s()
        if self._ended_s is not None and now_s - self._ended_s >= QUIET_S:
            self._longest_s = PAUSE_FIRST_S
        due_s = self._longest_s
        self._longest_s = min(due_s * PAUSE_GROWTH, PAUSE_MAX_S)
        await self._pace.sleep(due_s * (1 + self._pace.random.random()) / 2)
        self._ended_s = self._pace.clock.monotonic_s()
