"""A client of kazoo's that can be dropped without a farewell, and that tells how long the server keeps its session.

kazoo offers neither. Here is all that reaches below what it offers.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import WriterNotClosedException
from kazoo.handlers.threading import SequentialThreadingHandler

_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads and sockets."""

    def __init__(self) -> None:
        super().__init__()
        self._socket: socket.socket | None = None
        self._is_hung_up = False

    def create_connection(self, *arguments: Any, **options: Any) -> socket.socket:
        """Called by kazoo's thread each time it connects."""
        self._socket = connected = super().create_connection(*arguments, **options)
        if self._is_hung_up:
            connected.close()
            raise ConnectionRefusedError("the client was dropped")
        assert isinstance(connected, socket.socket)
        return connected

    def hang_up(self) -> None:
        """Cuts the connection, and allows no other: the server hears nothing more of the client."""
        self._is_hung_up = True
        if self._socket is not None:
            with suppress(OSError):  # the connection is gone by itself
                self._socket.shutdown(socket.SHUT_RDWR)


class Client(KazooClient):  # type: ignore[misc]
    """A session of ZooKeeper's."""

    def __init__(self, servers: Iterable[str], timeout_ms: int) -> None:
        self.handler_in_use = Handler()
        super().__init__(
            hosts=",".join(servers),
            timeout=timeout_ms / 1000,
            handler=self.handler_in_use,
            connection_retry=dict(_RETRY),
            command_retry=dict(_RETRY),
        )
        self.granted_ms = 0
        """How long the server keeps the session without hearing of it; it may be less or more than was asked for."""
        connect = self._connection._connect

        def connect_and_note(host: str, address: str, port: int) -> tuple[float, float]:
            read_timeout_ms, connect_timeout_ms = connect(host, address, port)
            # kazoo waits for an answer for two thirds of what the server granted.
            self.granted_ms = int(read_timeout_ms * 1.5)
            return read_timeout_ms, connect_timeout_ms

        self._connection._connect = connect_and_note

    @property
    def granted_id(self) -> int | None:
        """The id of the session; None while there is no connection."""
        known = self.client_id
        return None if known is None else int(known[0])

    def end(self) -> None:
        """Ends the session and all threads; blocks until that is done."""
        try:
            self.stop()
        except WriterNotClosedException:
            # Its thread waits for a server that does not answer, and ends when it has waited long enough.
            return
        self.close()

    def drop(self) -> None:
        """Ends the threads and leaves the session to expire; blocks until that is done."""
        self.handler_in_use.hang_up()
        self.end()
