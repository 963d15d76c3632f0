"""Back-pressure: how many operations and bytes may be under way; whoever brings more waits for its turn."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from metastore.interface.errors import Overloaded, StoreClosed

WINDOW_OPERATIONS_MAX = 16_384
"""Operations of one shard that were begun and are not answered."""
WINDOW_BYTES_MAX = 16 << 20
"""Their size. A single larger one is let in when it is alone."""
WINDOW_WAITERS_MAX = 100_000
"""Callers that may wait for the window of a shard; more are refused."""


class Window:
    """Admits operations in the order in which they come."""

    def __init__(
        self,
        operations_max: int = WINDOW_OPERATIONS_MAX,
        bytes_max: int = WINDOW_BYTES_MAX,
        waiters_max: int = WINDOW_WAITERS_MAX,
    ) -> None:
        self._operations_max = operations_max
        self._bytes_max = bytes_max
        self._waiters_max = waiters_max
        self.operations = 0
        self.size_bytes = 0
        self._waiters: OrderedDict[asyncio.Future[None], int] = OrderedDict()

    def try_enter(self, size: int) -> bool:
        """Lets an operation in if there is room and nobody waits."""
        if self._waiters or not self._has_room(size):
            return False
        self.operations += 1
        self.size_bytes += size
        return True

    async def enter(self, size: int, timeout_s: float, what: str) -> None:
        """Waits until there is room; Overloaded if there is none in time."""
        if len(self._waiters) >= self._waiters_max:
            raise Overloaded(
                f"{what}: {self._waiters_max} callers wait already (WINDOW_WAITERS_MAX): do fewer things at a time"
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[turn] = size
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except TimeoutError:
            self._give_up(size, turn)
            raise Overloaded(
                f"{what}: nothing was done: no room within {timeout_s:g} s among {self._operations_max} operations "
                f"(WINDOW_OPERATIONS_MAX) or {self._bytes_max} bytes (WINDOW_BYTES_MAX) under way"
            ) from None
        except asyncio.CancelledError:
            self._give_up(size, turn)
            raise

    def _give_up(self, size: int, turn: asyncio.Future[None]) -> None:
        """A waiter goes, perhaps just as it was let in."""
        if turn.cancelled():
            self._waiters.pop(turn, None)
        else:
            self.leave(size)

    def leave(self, size: int) -> None:
        """An operation is over; those who wait come in as far as there is room."""
        self.operations -= 1
        self.size_bytes -= size
        assert self.operations >= 0
        assert self.size_bytes >= 0
        while self._waiters:
            turn, next_size = next(iter(self._waiters.items()))
            if not turn.done():
                if not self._has_room(next_size):
                    return
                self.operations += 1
                self.size_bytes += next_size
                turn.set_result(None)
            del self._waiters[turn]

    def refuse_waiters(self, why: str) -> None:
        """Nobody will come in any more: the store was closed."""
        while self._waiters:
            turn, _ = self._waiters.popitem()
            if not turn.done():
                turn.set_exception(StoreClosed(why))

    def _has_room(self, size: int) -> bool:
        if not self.operations:
            return True
        return self.operations < self._operations_max and self.size_bytes + size <= self._bytes_max
