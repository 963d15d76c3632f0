"""Sessions by the dozen: as when a cluster comes back after its network was away."""

from __future__ import annotations

import asyncio

from loadtest.arrivals.pump import Arrival
from loadtest.scenarios.scenario import MetadataScenario
from metastore.interface import Session

FOLDER = "/load/members"
STORM = 20
"""Sessions that come at once."""
TIMEOUT_MS = 10_000


class SessionStorm(MetadataScenario):
    """Sessions come at once, register, and go at once."""

    name = "session-storm"
    said = f"storms of {STORM} sessions that open at once, put an ephemeral record each, and close at once"
    rate = 2.0

    async def serve(self, arrival: Arrival) -> None:
        arrival.operation = "storm"
        async with asyncio.TaskGroup() as storm:
            for number in range(STORM):
                storm.create_task(self._member(arrival, number))

    async def clear(self) -> None:
        """Sessions that were closed leave nothing."""

    async def _member(self, arrival: Arrival, number: int) -> None:
        async with self.step(arrival, "open session"):
            session = await self._store.open_session(TIMEOUT_MS, identity=f"load-{number}")
        try:
            await self._register(arrival, number, session)
        finally:
            async with self.step(arrival, "close session"):
                await session.close()

    async def _register(self, arrival: Arrival, number: int, session: Session) -> None:
        key = f"{FOLDER}/{self.settings.mark}-{arrival.number}-{number:03}"
        async with self.step(arrival, "put ephemeral record"):
            await self._store.put(key, self.stamped(arrival), session=session)
