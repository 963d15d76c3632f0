"""What is read off a broker when somebody asks for its metrics."""

from __future__ import annotations

import asyncio
import threading

from controller.broker.metrics import SegmentLag, State
from controller.broker.streams import Streams
from metastore.clock import Clock
from txn.hosting import Host

READ_WITHIN_S = 5.0
"""How long the thread of the metrics waits for the event loop."""


class Readings:
    """Reads on the broker's event loop, whichever thread asks. Made on that loop."""

    def __init__(self, host: Host, streams: Streams, clock: Clock) -> None:
        self._host = host
        self._streams = streams
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def read(self) -> State:
        """As it is now; TimeoutError if the event loop has no time for it."""
        if threading.get_ident() == self._thread:
            return self._state()
        return asyncio.run_coroutine_threadsafe(self._read(), self._loop).result(READ_WITHIN_S)

    async def _read(self) -> State:
        return self._state()

    def _state(self) -> State:
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
            lags=[SegmentLag(name, segment.horizon_lag) for name, segment in owned.items()],
        )
