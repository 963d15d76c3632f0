"""A sleep whose long waits end when a test says so."""

from __future__ import annotations

import asyncio

LONG_S = 10.0
"""Longer than any pause between attempts."""
PATIENCE_S = 60.0


class Alarm:
    """Short waits take their time."""

    def __init__(self) -> None:
        self._sleepers: list[asyncio.Event] = []

    async def sleep(self, seconds: float) -> None:
        """As long as it takes, or until it rings."""
        if seconds < LONG_S:
            await asyncio.sleep(seconds)
            return
        rung = asyncio.Event()
        self._sleepers.append(rung)
        await rung.wait()

    async def ring(self) -> None:
        """Wakes who sleeps, and somebody does before long."""
        async with asyncio.timeout(PATIENCE_S):
            while not self._sleepers:
                await asyncio.sleep(0)
        sleepers, self._sleepers = self._sleepers, []
        for each in sleepers:
            each.set()
