"""Free loopback ports that stay free while a server is down."""

from __future__ import annotations

import os
import random
import socket

LOOPBACK = "127.0.0.1"
FIRST_PORT = 20_000
LAST_PORT = 32_000  # Linux gives outgoing connections ports from 32768 on

_choice = random.Random(os.getpid())
_given: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on, and that nobody was given here before: servers take theirs some time later.

    It lies below the range from which the kernel takes the ports of outgoing connections. A port of that
    range could be lost while a server restarts: to any connection, even to a client that tries to reach this
    very port and, on loopback, ends up connected to itself.
    """
    while True:
        port = _choice.randrange(FIRST_PORT, LAST_PORT)
        if port in _given:
            continue
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            _given.add(port)
            return port
