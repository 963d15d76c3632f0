"""What the operations do that hold something: a session, leadership, a lock; until interrupted, or a command ends."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

from metastore.client.child import Child
from metastore.client.output import LiveRows
from metastore.commandline import CommandError, UsageError
from metastore.coordination import Election, Grant, Lock
from metastore.interface import MetadataStore, SessionLost, open_promptly
from metastore.tables import Cell, Row

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SESSION_COLUMNS = {"event": 9, "session_id": 10, "version_id": 10, "key": 3}
GRANT_COLUMNS = {"event": 9, "name": 24, "term": 10}

T = TypeVar("T")


class Interruption:
    """Ctrl-C or SIGTERM. The first ends only a wait, so that nothing is cut in half; the second ends all."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._arrived = asyncio.Event()
        self._task = asyncio.current_task()
        for number in SIGNALS:
            asyncio.get_running_loop().add_signal_handler(number, self._arrive, number)

    def _arrive(self, number: signal.Signals) -> None:
        if self.signal is not None and self._task is not None:
            self._task.cancel()
        self.signal = number
        self._arrived.set()

    async def wait(self) -> signal.Signals:
        """Returns when it has come, or came earlier."""
        await self._arrived.wait()
        assert self.signal is not None, "the event says that one has arrived"
        return self.signal

    @property
    def exit_code(self) -> int:
        """That of a program which the signal has ended."""
        assert self.signal is not None, "nothing was interrupted"
        return 128 + self.signal

    def close(self) -> None:
        for number in SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(number)


Holder = Callable[[MetadataStore, argparse.Namespace, Interruption], Awaitable[int | None]]


async def hold(holder: Holder, url: str, arguments: argparse.Namespace) -> int | None:
    """Opens the store and runs one of the holders below; returns the exit code."""
    interruption = Interruption()
    try:
        opening = asyncio.ensure_future(open_promptly(url))
        if not await _came_first(opening, interruption):
            return interruption.exit_code
        async with await opening as store:
            return await holder(store, arguments, interruption)
    except asyncio.CancelledError:
        return interruption.exit_code  # interrupted twice: what is held is left to expire
    finally:
        interruption.close()


async def session(store: MetadataStore, arguments: argparse.Namespace, interruption: Interruption) -> None:
    held = await store.open_session(_timeout_ms(arguments), identity=arguments.identity)
    rows = LiveRows(SESSION_COLUMNS, arguments.json)

    def tell(event: str, **cells: Cell) -> None:
        rows.add({**dict.fromkeys(SESSION_COLUMNS), "event": event, **cells})

    try:
        tell("opened")
        for key, value in arguments.puts:
            stored = await store.put(key, os.fsencode(value), partition_key=arguments.partition_key, session=held)
            tell("put", session_id=stored.version.session_id, version_id=stored.version.version_id, key=key)
        await _first(interruption.wait(), held.wait_lost(), timeout_s=arguments.hold_s)
        if held.is_lost:
            raise SessionLost("the session is lost: it was not heard of for too long, and its records are gone")
        if arguments.abandon:
            tell("abandoned")
            return
    except BaseException:
        await held.close()
        raise
    await held.close()
    tell("closed")


async def elect(store: MetadataStore, arguments: argparse.Namespace, interruption: Interruption) -> int | None:
    election = Election(
        store,
        arguments.name,
        os.fsencode(arguments.value),
        partition_key=arguments.partition_key,
        session_timeout_ms=_timeout_ms(arguments),
        identity=arguments.identity,
    )
    return await _hold_grant(election.campaign(timeout_s=arguments.wait_s), "elected", arguments, interruption)


async def lock(store: MetadataStore, arguments: argparse.Namespace, interruption: Interruption) -> int | None:
    held = Lock(
        store,
        arguments.name,
        partition_key=arguments.partition_key,
        session_timeout_ms=_timeout_ms(arguments),
        identity=arguments.identity,
    )
    return await _hold_grant(held.acquire(timeout_s=arguments.wait_s), "locked", arguments, interruption)


def check_command(arguments: argparse.Namespace) -> None:
    """Refuses what makes no sense before anything is opened; argparse leaves the two dashes, or not."""
    if arguments.command[:1] == ["--"]:
        del arguments.command[0]
    if arguments.command and arguments.command[0].startswith("-"):
        raise UsageError(
            f"{arguments.operation}: {arguments.command[0]!r} is no command: options stand before the name, and the "
            "command behind two dashes"
        )


async def _hold_grant(
    winning: Awaitable[Grant], won: str, arguments: argparse.Namespace, interruption: Interruption
) -> int | None:
    """Waits for the grant, holds it while there is reason to, releases it; the exit code is the command's, if any."""
    attempt = asyncio.ensure_future(winning)
    if not await _came_first(attempt, interruption):
        return interruption.exit_code
    grant = await attempt
    try:
        if arguments.command:
            return await _run_command(arguments.command, grant, interruption)
        rows = LiveRows(GRANT_COLUMNS, arguments.json)
        rows.add(_grant_row(won, grant))
        await _first(grant.wait_lost(), interruption.wait())
        if not grant.is_held:
            raise grant.loss()
    finally:
        await grant.release()
    rows.add(_grant_row("released", grant))
    return None


async def _run_command(command: list[str], grant: Grant, interruption: Interruption) -> int:
    environment = {**os.environ, "TIDEMARK_NAME": grant.name, "TIDEMARK_TERM": str(grant.term)}
    try:
        child = await Child.started(command, environment)
    except OSError as error:
        raise CommandError(f"{command[0]!r} cannot be run: {error.strerror}") from error
    try:
        await _first(child.wait(), grant.wait_lost(), interruption.wait())
        if not child.has_ended and grant.is_held:
            child.pass_on(await interruption.wait())
            await _first(child.wait(), grant.wait_lost())
    finally:
        await child.end()
    if not grant.is_held:
        raise grant.loss()
    return child.exit_code


def _grant_row(event: str, grant: Grant) -> Row:
    return {"event": event, "name": grant.name, "term": grant.term}


def _timeout_ms(arguments: argparse.Namespace) -> int:
    timeout_s: float = arguments.session_timeout
    return round(timeout_s * 1000)


async def _came_first(attempt: asyncio.Future[T], interruption: Interruption) -> bool:
    """Whether an attempt comes to its end; an interruption before that cancels it."""
    await _first(attempt, interruption.wait())
    if attempt.done():
        return True
    attempt.cancel()
    await asyncio.wait([attempt])
    return False


async def _first(*waits: Awaitable[object], timeout_s: float | None = None) -> None:
    """Returns when the first of them is through, or the time is up. A task among them goes on, other waits end."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        begun_here = [task for task, given in zip(tasks, waits, strict=True) if task is not given]
        for task in begun_here:
            task.cancel()
        if begun_here:
            await asyncio.wait(begun_here)
