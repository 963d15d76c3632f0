"""Leader election: who leads a role, under which term, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from metastore.coordination.candidacy import Candidacy
from metastore.coordination.grant import Grant
from metastore.coordination.keeper import SessionKeeper
from metastore.coordination.pace import Pace
from metastore.coordination.role import Role
from metastore.coordination.stamps import read_holder
from metastore.coordination.view import View
from metastore.interface import DEFAULT_SESSION_TIMEOUT_MS, Index, MetadataStore, Record, exactly


@dataclass(frozen=True, slots=True)
class Leader:
    """Who leads, as others see it."""

    term: int
    value: bytes
    """What the leader says of itself: an address, a name."""
    identity: str
    """The identity of the leader's session."""


class Election:
    """The election to a role, for candidates and observers alike. An object serves any number of tasks.

    Each campaign has a session of its own, unless a `keeper` is given: then all that is won hangs on the keeper's
    session. The grant's key is the name; without a `partition_key` the role's partition is that of the name. By
    `indexes` the grants of many roles are found together, wherever they are.
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
        self._store = store
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

    def lead(self, *, timeout_s: float | None = None, interrupt: bool = True) -> AbstractAsyncContextManager[Grant]:
        """`async with election.lead() as leadership`: waits until elected, leads for the block, resigns.

        When leadership is lost the block is cancelled, and Deposed raised in its place; with `interrupt` false the
        block goes on, and has to ask or wait for the loss itself.
        """
        return self._candidacy.hold(timeout_s, interrupt=interrupt)

    async def campaign(self, *, timeout_s: float | None = None) -> Grant:
        """Leadership, as soon as it is to be had; `release` it to resign. NotGranted after the time that is given.

        It goes on for as long as it takes, also while the store is away, and with another session if one is lost.
        Cancelled, it leaves nothing behind.
        """
        return await self._candidacy.win(timeout_s)

    async def leader(self) -> Leader | None:
        """Who leads now, if anybody."""
        record = await self._store.get(self.role.name, partition_key=self.role.partition_key)
        return _leader(record)

    def observe(self) -> LeaderView:
        """`async with election.observe() as leaders: async for leader in leaders`: who leads now, then every change."""
        return LeaderView(
            View(
                self._store,
                exactly(self.role.name),
                partition_key=self.role.partition_key,
                pace=self._candidacy.pace,
            ),
            self.role.name,
        )


class LeaderView:
    """An iterator of who leads: at first the present leader, then each other one; None while there is none.

    Where leaders follow each other faster than they are asked for, some may be left out, never the last. Terms only
    grow.
    """

    def __init__(self, view: View, name: str) -> None:
        self._view = view
        self._name = name
        self._has_told = False
        self._last: Leader | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Leader | None:
        """The next leader, waited for. Cancelling the wait loses nothing."""
        while True:
            await self._view.news()
            leader = _leader(self._view.records.get(self._name))
            if not self._has_told or leader != self._last:
                self._has_told, self._last = True, leader
                return leader

    async def close(self) -> None:
        """Ends the watch behind it."""
        await self._view.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _leader(record: Record | None) -> Leader | None:
    if record is None:
        return None
    stamp, value = read_holder(record)
    term = record.version.version_id if stamp.term is None else stamp.term
    return Leader(term, value, record.version.identity or "")
