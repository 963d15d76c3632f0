"""What processes do in tests of coordination: they campaign, lock and keep sessions, in a world of `support.world`."""

from __future__ import annotations

import asyncio

from metastore.coordination import Election, Grant, Lock, SessionKeeper
from support.world import Process, World

ROLE = "/role"
SESSION_MS = 10_000


async def never() -> None:
    await asyncio.Event().wait()


def keeper_of(process: Process) -> SessionKeeper:
    return SessionKeeper(process.store, timeout_ms=SESSION_MS, identity=process.name, pace=process.pace)


def election_of(process: Process, name: str = ROLE, keeper: SessionKeeper | None = None) -> Election:
    """An election in which the process stands with its name."""
    return Election(
        process.store,
        name,
        process.name.encode(),
        keeper=keeper,
        session_timeout_ms=SESSION_MS,
        identity=process.name,
        pace=process.pace,
    )


def lock_of(process: Process, name: str = ROLE, keeper: SessionKeeper | None = None) -> Lock:
    return Lock(
        process.store,
        name,
        keeper=keeper,
        session_timeout_ms=SESSION_MS,
        identity=process.name,
        pace=process.pace,
    )


async def campaign(process: Process, name: str = ROLE) -> Grant:
    return await election_of(process, name).campaign()


async def pass_sessions(world: World, *, frozen: tuple[Process, ...] = ()) -> None:
    """So much time that sessions without heartbeats end, in steps so that those with heartbeats do not."""
    for _ in range(4):
        await world.pass_ms(SESSION_MS // 3, frozen=frozen)
