"""The trouble in runs over a real service: a server that is killed and started again, and lines that break."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from linearizability.recording import Killable
from metastore.interface import MetadataStore, open_store
from watch_contract.line import Line
from watch_contract.stage import OpenStore, Stage

WRITES_BETWEEN_MAX = 60
BREAK_AFTER_BYTES_MAX = 40_000


class Troubles:
    """Kills, and breaks of the line, in turn and at random."""

    def __init__(
        self, server: Killable, line: Line, seed: int, kills: int, breaks: int, is_settled: bool = False
    ) -> None:
        self.kills = 0
        self._is_settled = is_settled
        """Kills come between writes, and when the witness has seen all of them."""
        self._server = server
        self._line = line
        self._random = random.Random(seed)
        self._planned = ["kill"] * kills + ["break"] * breaks
        self._random.shuffle(self._planned)

    async def make(self, stage: Stage) -> None:
        """All that is planned, between writes."""
        for trouble in self._planned:
            await stage.notes.until_written(self._random.randint(1, WRITES_BETWEEN_MAX))
            if trouble == "break":
                await self._line.broken()  # the one before it, if nothing has come through the line that it waits for
                self._line.break_after(self._random.choice([0, self._random.randint(1, BREAK_AFTER_BYTES_MAX)]))
            elif self._is_settled:
                async with stage.notes.pause():
                    await stage.settle()
                    await self._kill()
                    await stage.settle()
            else:
                await self._kill()
        await self._line.broken()

    async def _kill(self) -> None:
        await asyncio.to_thread(self._server.restart, "kill")
        self.kills += 1


def opener(address: str) -> OpenStore:
    """Opens stores of a service."""

    @asynccontextmanager
    async def open_one() -> AsyncIterator[MetadataStore]:
        async with await open_store(f"oxia://{address}") as store:
            yield store

    return open_one
