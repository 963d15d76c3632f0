"""A line between a candidate and the server that a test can hold: what is sent meanwhile arrives later, all of it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from support.ports import LOOPBACK

CHUNK_BYTES = 64 << 10


class Relay:
    """Listens on a port of its own and passes bytes on, in both directions, unless it is held.

    A line that is held is what a partition looks like to both ends: no byte arrives and nothing says so. That what was
    sent into it arrives when it is let go is the worst case for fencing.
    """

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._may_flow = asyncio.Event()
        self._may_flow.set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        self.address = f"{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def hold(self) -> None:
        """Nothing gets through any more."""
        self._may_flow.clear()

    def let_go(self) -> None:
        """Everything gets through, also what was sent meanwhile."""
        self._may_flow.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._may_flow.wait()
            far_reader, far_writer = await asyncio.open_connection(LOOPBACK, self._target_port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pass_on(reader, far_writer))
                group.create_task(self._pass_on(far_reader, writer))
        except* OSError:
            pass  # an end has gone: so does the other
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(CHUNK_BYTES):
                await self._may_flow.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()
