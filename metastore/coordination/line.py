"""Who waits for a grant, in the order of arrival: a sequence of ephemeral records, each watching the one before it.

The line is politeness, not safety: it keeps a hundred candidates from rushing at the store whenever a grant comes free,
and lets those who came first go first. That one only gets the grant is the grant record's business alone, so a place
that is left behind by mistake costs time and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from metastore.coordination.keeper import SessionKeeper
from metastore.coordination.own_record import OwnRecord, put_own
from metastore.coordination.role import Role
from metastore.coordination.stamps import is_held_by
from metastore.coordination.view import wait_gone
from metastore.interface import Comparison, LimitExceeded, Range, Record, Session
from metastore.interface.checks import shown

LINE_LENGTH_MAX = 1_000
"""How many may wait for one grant."""


class Line:
    """The line of a role, as one who may join it sees it."""

    def __init__(self, keeper: SessionKeeper, role: Role) -> None:
        self._keeper = keeper
        self._store = keeper.store
        self._role = role

    async def is_empty(self) -> bool:
        """Whether nobody waits."""
        return await self._first() is None

    @asynccontextmanager
    async def place(self, session: Session) -> AsyncIterator[OwnRecord]:
        """A place at the end of the line, left on the way out. LimitExceeded if too many wait already."""
        place = await self._keeper.complete(self._join(session), OwnRecord.remove)
        is_served = False
        try:
            await self._check_length(place)
            yield place
            is_served = True
        finally:
            leaving = self._keeper.see_to(place.remove())
            if not is_served:
                # Whoever gives up leaves nothing behind. Whoever was served has better things to do than to wait.
                await asyncio.shield(leaving)

    async def wait_turn(self, place: OwnRecord) -> None:
        """Returns when nobody is ahead of a place any more."""
        while (ahead := await self._before(place)) is not None:
            await wait_gone(self._store, ahead, partition_key=self._role.partition_key, pace=self._keeper.pace)

    async def _join(self, session: Session) -> OwnRecord:
        mark = self._keeper.pace.new_mark()

        async def find() -> Record | None:
            places = Range(f"{self._role.line_key}-", f"{self._role.line_key}.")
            async for record in self._store.scan(places, partition_key=self._role.partition_key):
                if is_held_by(record, mark):
                    return record
            return None

        place = await put_own(
            self._keeper,
            session,
            self._role.line_key,
            b"",
            partition_key=self._role.partition_key,
            mark=mark,
            sequence_deltas=(1,),
            find=find,
        )
        assert place is not None, "a put to a sequence expects no version"
        return place

    async def _check_length(self, place: OwnRecord) -> None:
        """Counts those ahead where their numbers allow too many: it may be fewer, some have left."""
        first = await self._first()
        if first is None or self._role.place_number(place.key) - self._role.place_number(first) < LINE_LENGTH_MAX:
            return
        ahead = 0
        async for _ in self._store.list(Range(first, place.key), partition_key=self._role.partition_key):
            ahead += 1
        if ahead >= LINE_LENGTH_MAX:
            raise LimitExceeded(
                f"{ahead} wait for {shown(self._role.name)} already: at most {LINE_LENGTH_MAX} (LINE_LENGTH_MAX)"
            )

    async def _first(self) -> str | None:
        return await self._nearest(f"{self._role.line_key}-", Comparison.CEILING)

    async def _before(self, place: OwnRecord) -> str | None:
        return await self._nearest(place.key, Comparison.LOWER)

    async def _nearest(self, key: str, comparison: Comparison) -> str | None:
        record = await self._store.get(
            key, comparison=comparison, partition_key=self._role.partition_key, include_value=False
        )
        return record.key if record is not None and self._role.is_place(record.key) else None
