"""Locks: one holder at a time, whoever came first goes first, and a term for whoever does not trust clocks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from metastore.coordination.candidacy import Candidacy
from metastore.coordination.grant import Grant
from metastore.coordination.keeper import SessionKeeper
from metastore.coordination.pace import Pace
from metastore.coordination.role import Role
from metastore.interface import DEFAULT_SESSION_TIMEOUT_MS, Index, MetadataStore


class Lock:
    """A lock by name. An object serves any number of tasks, which exclude each other as well.

    It is not reentrant. What it protects should refuse terms that are older than the greatest it has seen: no lock can
    keep a process from acting that was stopped between its last look at the lock and the act. By `indexes` the grants
    of many locks are found together, wherever they are.
    """

    def __init__(
        self,
        store: MetadataStore,
        name: str,
        value: bytes = b"",
        *,
        partition_key: str | None = None,
        keeper: SessionKeeper | None = None,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        identity: str = "",
        pace: Pace | None = None,
        indexes: Sequence[Index] = (),
    ) -> None:
        self.role = Role.named(name, partition_key)
        self._candidacy = Candidacy(
            store,
            self.role,
            value,
            keeper=keeper,
            timeout_ms=session_timeout_ms,
            identity=identity,
            pace=pace,
            indexes=indexes,
        )

    def hold(self, *, timeout_s: float | None = None, interrupt: bool = True) -> AbstractAsyncContextManager[Grant]:
        """`async with lock.hold() as grant`: waits for the lock, holds it for the block, releases it.

        When the lock is lost the block is cancelled, and Deposed raised in its place; with `interrupt` false the block
        goes on, and has to ask or wait for the loss itself.
        """
        return self._candidacy.hold(timeout_s, interrupt=interrupt)

    async def acquire(self, *, timeout_s: float | None = None) -> Grant:
        """The lock, as soon as it is to be had; to be released. NotGranted after the time that is given."""
        return await self._candidacy.win(timeout_s)

    async def try_acquire(self) -> Grant | None:
        """The lock if it is free and nobody waits for it; else None. One attempt: errors of the store are raised."""
        return await self._candidacy.try_once()
