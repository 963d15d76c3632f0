"""A line between watchers and their server that breaks when a test says so, at any byte."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from support.ports import LOOPBACK

CHUNK_BYTES = 64 << 10
ENDED_WITHIN_S = 1.0


class Line:
    """Listens on a port of its own and passes bytes on. A server tells its clients the address by which they came."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._bytes_left: int | None = None
        """Until the break that was asked for; None if none was, or it has come."""
        self._has_broken = asyncio.Event()
        self.breaks = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        self.address = f"{LOOPBACK}:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        while self._tasks:
            self._reset()
            await asyncio.wait(self._tasks, timeout=ENDED_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        await self._server.wait_closed()

    def break_after(self, size: int) -> None:
        """All connections are reset when so many bytes more have come from the server: in the middle of anything.

        Where there is no connection yet, the next one is reset when its first bytes come.
        """
        self._bytes_left = size
        self._has_broken.clear()
        if not size and self._writers:
            self._break()

    async def broken(self) -> None:
        """Returns when the break that was asked for has come; it is not put off any longer."""
        if self._bytes_left is not None:
            self.break_after(0)
            await self._has_broken.wait()

    def _break(self) -> None:
        self._bytes_left = None
        self.breaks += 1
        self._has_broken.set()
        self._reset()

    def _reset(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        near = writer
        try:
            far_reader, far = await asyncio.open_connection(LOOPBACK, self._target_port)
        except OSError:
            near.transport.abort()  # the server is down
            self._tasks.discard(task)
            return
        self._writers |= {near, far}
        ways = [asyncio.ensure_future(self._pass_on(reader, far)), asyncio.ensure_future(self._tell(far_reader, near))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._writers -= {near, far}
            for end in (near, far):
                end.transport.abort()
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)
            self._tasks.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """From a client to the server. Returns when either has gone."""
        try:
            while data := await reader.read(CHUNK_BYTES):
                writer.write(data)
                await writer.drain()
        except OSError:
            return

    async def _tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """From the server to a client, up to the byte at which the line is to break."""
        try:
            while data := await reader.read(CHUNK_BYTES):
                left = self._bytes_left
                if left is not None:
                    self._bytes_left = max(0, left - len(data))
                writer.write(data if left is None else data[:left])
                await writer.drain()
                if self._bytes_left == 0:
                    self._break()
                    return
        except OSError:
            return
