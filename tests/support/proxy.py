"""A TCP proxy that breaks connections as a script says: between a client and a server, on the test's own event loop.

Each connection gets the next plan of the script, or none. A plan is carried out when so many bytes have gone one way;
what it does to the bytes behind them is as sudden as on a network: there is no regard for messages or frames.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Self

from support.ports import LOOPBACK

CHUNK_BYTES = 64 << 10
RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER: close at once and with a reset, whatever is unsent."""


class Way(Enum):
    """Which bytes are counted, and stopped."""

    UP = "to the server"
    DOWN = "to the client"


class Fault(Enum):
    """What happens to a connection."""

    CUT = "both ends are closed"
    RESET = "both ends are reset"
    HALF_CLOSE = "the receiver is told that this way has ended; the other way goes on"
    STALL = "this way stands still, until `release`; the other way goes on"
    REFUSE = "the connection is reset before a single byte"


@dataclass(frozen=True)
class Plan:
    """A fault, and when it happens: when so many bytes have gone this way."""

    fault: Fault
    way: Way = Way.UP
    after_bytes: int = 0


class Proxy:
    """Passes connections on to one address. `async with` starts and ends it."""

    def __init__(self, target: str, script: Iterable[Plan | None] = ()) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self.script: deque[Plan | None] = deque(script)
        """The plans of the connections to come."""
        self.connections = 0
        """How many were made so far."""
        self._open: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._port = 0

    @property
    def address(self) -> str:
        return f"{LOOPBACK}:{self._port}"

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop_listening()
        self.reset_all()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def listen(self) -> None:
        """Takes connections, again at the same port if it did before."""
        self._listener = await asyncio.start_server(self._accept, LOOPBACK, self._port)
        self._port = self._listener.sockets[0].getsockname()[1]

    async def stop_listening(self) -> None:
        """Refuses connections, as a machine does on which nobody listens; those that are open go on."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def reset_all(self) -> None:
        """Breaks every connection that is open."""
        for connection in list(self._open):
            connection.reset()

    def stall_all(self, way: Way) -> None:
        """Lets nothing through this way."""
        for connection in self._open:
            connection.gates[way].clear()

    def release(self) -> None:
        """Lets everything through that stands still."""
        for connection in self._open:
            for gate in connection.gates.values():
                gate.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        plan = self.script.popleft() if self.script else None
        task = asyncio.create_task(self._serve(reader, writer, plan))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, plan: Plan | None) -> None:
        if plan is not None and plan.fault is Fault.REFUSE:
            reset(writer)
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            reset(writer)  # the server is down: the client learns it as it would without a proxy
            return
        connection = Connection((reader, writer), (server_reader, server_writer), plan)
        self._open.add(connection)
        try:
            await connection.run()
        finally:
            self._open.discard(connection)


class Connection:
    """Two connections, with what comes from one going to the other."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        plan: Plan | None,
    ) -> None:
        self._ends = {Way.UP: (client[0], server[1]), Way.DOWN: (server[0], client[1])}
        self._plan = plan
        self.gates = {way: asyncio.Event() for way in Way}
        for gate in self.gates.values():
            gate.set()

    async def run(self) -> None:
        """Returns when both ways have ended."""
        pumps = {asyncio.create_task(self._pump(way)) for way in Way}
        await asyncio.wait(pumps)
        self.close()
        for pump in pumps:
            pump.result()

    def reset(self) -> None:
        for gate in self.gates.values():
            gate.set()
        for _, writer in self._ends.values():
            reset(writer)

    def close(self) -> None:
        for _, writer in self._ends.values():
            writer.close()

    async def _pump(self, way: Way) -> None:
        reader, writer = self._ends[way]
        plan = self._plan if self._plan is not None and self._plan.way is way else None
        passed = 0
        try:
            while data := await reader.read(CHUNK_BYTES):
                if plan is not None and passed + len(data) >= plan.after_bytes:
                    writer.write(data[: plan.after_bytes - passed])
                    rest = data[plan.after_bytes - passed :]
                    passed, due, plan = plan.after_bytes, plan.fault, None
                    if await self._strike(due, way):
                        return
                    data = rest
                await self.gates[way].wait()
                writer.write(data)
                passed += len(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
        except OSError:
            self.reset()  # one end broke: so does the other

    async def _strike(self, fault: Fault, way: Way) -> bool:
        """Carries a fault out; whether this way has ended."""
        _, writer = self._ends[way]
        if fault is Fault.STALL:
            self.gates[way].clear()
            return False
        if fault is Fault.HALF_CLOSE:
            await writer.drain()
            writer.write_eof()
        elif fault is Fault.CUT:
            await writer.drain()
            self.close()
        else:
            self.reset()
        return True


def reset(writer: asyncio.StreamWriter) -> None:
    """Closes a connection with a reset."""
    plain: socket.socket | None = writer.get_extra_info("socket")
    if plain is not None and not writer.is_closing():
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        writer.transport.abort()
