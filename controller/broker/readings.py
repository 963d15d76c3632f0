"""What is read off a broker when somebody asks for its metrics."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from controller.broker.metrics import SegmentLag, State
from controller.broker.streams import Streams
from metastore.clock import Clock
from txn.hosting import Host

READ_WITHIN_S = 5.0
"""How long the thread of the metrics waits for the event loop."""


T = TypeVar("T")


class OnLoop(Generic[T]):
    """Reads on the broker's event loop, whichever thread asks. Made on that loop."""

    def __init__(self, state: Callable[[], T]) -> None:
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def read(self) -> T:
        """As it is now; TimeoutError if the event loop has no time for it."""
        if threading.get_ident() == self._thread:
            return self._state()
        return asyncio.run_coroutine_threadsafe(self._read(), self._loop).result(READ_WITHIN_S)

    async def _read(self) -> T:
        return self._state()


class Readings:
    """What a broker is like at the moment, but for topics."""

    def __init__(self, host: Host, streams: Streams, sessions: Streams, clock: Clock) -> None:
        self._host = host
        self._streams = streams
        self._sessions = sessions
        self._clock = clock

    def state(self) -> State:
        """As it is now."""
        host, open_transactions = self._host, self._host.open_transactions
        created = (each.created_ms for each in open_transactions.headers().values())
        now_ms = self._clock.wall_ms()
        owned = host.owned
        return State(
            open_transactions=open_transactions.count,
            oldest_open_s=max(0, now_ms - min(created, default=now_ms)) / 1000,
            expired=host.sweeper.swept.expired,
            collected=host.sweeper.swept.collected,
            segments_owned=len(owned),
            takeovers=host.takeovers,
            streams=len(self._streams),
            sessions=len(self._sessions),
            lags=[SegmentLag(name, segment.horizon_lag) for name, segment in owned.items()],
        )
