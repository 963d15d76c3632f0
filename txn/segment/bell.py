"""News for any number of waiting tasks, each of which looks for itself what has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Bell:
    """Rings for those who wait at that moment. Await nothing between a look and the wait: so no ring is missed."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def ring(self) -> None:
        """Something has changed."""
        rung, self._next = self._next, asyncio.Event()
        rung.set()

    async def wait(self) -> None:
        """Returns at the next ring."""
        await self._next.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Returns when that holds; looked at now, and at each ring."""
        while not holds():
            await self.wait()
