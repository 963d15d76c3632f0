"""One transaction that is followed: what is known of it, and who wants to know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from metastore.interface import ABSENT, Record
from txn.model.header import Header, TxnState
from txn.model.ids import TxnId


@dataclass(frozen=True, slots=True)
class Known:
    """What the header was when it was last seen."""

    header: Header | None
    """None: there is no header."""
    version_id: int
    """Of the header, for writes that are conditional on it; ABSENT without one."""

    @classmethod
    def of_record(cls, record: Record | None) -> Known:
        """What a header's record says."""
        if record is None:
            return cls(None, ABSENT)
        assert record.value is not None, "a watch brings the values"
        return cls(Header.decode(record.value), record.version.version_id)

    @property
    def state(self) -> TxnState:
        """Without a header: ABORTED."""
        return TxnState.ABORTED if self.header is None else self.header.state

    @property
    def is_open(self) -> bool:
        """Whether it was not decided."""
        return self.state is TxnState.OPEN


class Following:
    """What all who follow a transaction share. Both futures fail if the store can no longer be watched at all."""

    def __init__(self, txn_id: TxnId) -> None:
        self.txn_id = txn_id
        self.holders = 0
        self.now: Known | None = None
        self.doubts = 0
        """How often it was not among the open ones, and the header had to be looked at."""
        self.look: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        self.looked: asyncio.Future[None] = loop.create_future()
        self.decided: asyncio.Future[TxnState] = loop.create_future()

    @property
    def is_decided(self) -> bool:
        """Whether nothing more is to be learned."""
        return self.now is not None and not self.now.is_open

    def learn(self, known: Known) -> None:
        """The header was seen."""
        assert self.now is None or self.now.is_open, "a decision is final"
        self.now = known
        if not self.looked.done():
            self.looked.set_result(None)
        if not known.is_open:
            self.decided.set_result(known.state)

    def fail(self, error: Exception) -> None:
        """Nothing more will be seen."""
        for future in (self.looked, self.decided):
            if not future.done():
                future.set_exception(error)
                future.exception()  # it is no mistake if nobody waits


class Followed:
    """A participant's hold on a transaction, until it lets go. Cancelling a wait disturbs nobody."""

    def __init__(self, following: Following, release: Callable[[Following], None]) -> None:
        self.txn_id = following.txn_id
        self._following = following
        self._release: Callable[[Following], None] | None = release

    @property
    def now(self) -> Known | None:
        """What is known; None before the first look."""
        return self._following.now

    async def known(self) -> Known:
        """Waits for the first look. Raises what the store raises if it can no longer be watched at all."""
        await asyncio.shield(self._following.looked)
        assert self._following.now is not None
        return self._following.now

    async def decided(self) -> TxnState:
        """Waits for the outcome: COMMITTED or ABORTED. A header that is missing counts as ABORTED, see the essay."""
        return await asyncio.shield(self._following.decided)

    def release(self) -> None:
        """Lets go. What is known stays readable; doing it twice does nothing."""
        release, self._release = self._release, None
        if release is not None:
            release(self._following)
