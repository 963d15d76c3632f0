"""`tidemark client session`: a session held until interrupted, and told of as it goes."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from metastore.client.client import Client
from metastore.client.command_output import write_live_rows
from metastore.client.session import Session
from metastore.tables import Cell, Row

SESSION_COLUMNS = {"event": 9, "shard": 5, "session_id": 10, "version_id": 10, "key": 3}
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Ctrl-C or SIGTERM. The first ends only a wait, so that nothing is cut in half; the second ends all."""

    def __init__(self) -> None:
        self._arrived = False
        self._awaited = False

    def wait_for(self, event: threading.Event, timeout_s: float | None) -> None:
        """Waits until the event is set, the time is up, or an interruption comes, or came earlier."""
        with suppress(KeyboardInterrupt):
            self._awaited = True
            if not self._arrived:
                event.wait(timeout_s)
            self._awaited = False

    def arrive(self, _signal: int, _frame: FrameType | None) -> None:
        """The handler of the signals."""
        repeated, self._arrived = self._arrived, True
        if repeated or self._awaited:
            raise KeyboardInterrupt


@contextmanager
def interruption() -> Iterator[Interruption]:
    """While this lasts, the signals are the object's."""
    arrival = Interruption()
    before = {number: signal.signal(number, arrival.arrive) for number in SIGNALS}
    try:
        yield arrival
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def session(client: Client, arguments: argparse.Namespace) -> None:
    held = client.session(round(arguments.session_timeout * 1000), identity=arguments.identity)
    with interruption() as interrupted, held:
        rows = session_rows(client, held, interrupted, arguments)
        write_live_rows(SESSION_COLUMNS, rows, arguments.json)


def session_rows(
    client: Client, held: Session, interrupted: Interruption, arguments: argparse.Namespace
) -> Iterator[Row]:
    """What happens to the session, as it happens: opened, filled, held, and ended."""
    opened: dict[int, int] = {}

    def newly_opened() -> Iterator[Row]:
        for shard_id, session_id in held.ids.items():
            if shard_id not in opened:
                opened[shard_id] = session_id
                yield row("opened", shard=shard_id, session_id=session_id)

    if not arguments.puts:
        held.open_everywhere()
        yield from newly_opened()
    for key, value in arguments.puts:
        stored = client.put(key, os.fsencode(value), partition_key=arguments.partition_key, session=held)
        yield from newly_opened()
        version = stored.version
        yield row("put", session_id=version.session_id, version_id=version.version_id, key=key)
    interrupted.wait_for(held.lost, arguments.hold_s)
    held.check()
    if arguments.abandon:
        held.abandon()
    else:
        held.close()
    for shard_id, session_id in opened.items():
        yield row("abandoned" if arguments.abandon else "closed", shard=shard_id, session_id=session_id)


def row(event: str, **cells: Cell) -> Row:
    return {**dict.fromkeys(SESSION_COLUMNS), "event": event, **cells}
