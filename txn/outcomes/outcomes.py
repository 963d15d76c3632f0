"""All transactions that a process follows: one header watch for each, as long as it is open and somebody holds it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Protocol, Self

from metastore.coordination import Pace, View
from metastore.interface import MetadataStore, exactly
from txn.model import paths
from txn.model.errors import SegmentUnavailable, TooManyOpenTransactions
from txn.model.ids import TxnId
from txn.outcomes.followed import Followed, Following, Known

FOLLOWED_MAX = 50_000
"""Transactions that one process follows at the same time."""


class Measures(Protocol):
    """Who counts."""

    def outcome_learned(self, delay_ms: int) -> None:
        """A decision was learned so long after it was made, by two clocks that may differ."""


class Outcomes:
    """Follows transactions; one object for each process, to be used in `async with`."""

    def __init__(
        self,
        store: MetadataStore,
        pace: Pace,
        measures: Measures | None = None,
        *,
        followed_max: int = FOLLOWED_MAX,
    ) -> None:
        self._store = store
        self._pace = pace
        self._measures = measures
        self._followed_max = followed_max
        self._following: dict[TxnId, Following] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def count(self) -> int:
        """How many are followed."""
        return len(self._following)

    def follow(self, txn_id: TxnId) -> Followed:
        """Takes hold of a transaction, without waiting. TooManyOpenTransactions at the limit (FOLLOWED_MAX)."""
        if self._is_closed:
            raise SegmentUnavailable(f"this process has ended: it does not learn what becomes of {txn_id}")
        following = self._following.get(txn_id)
        if following is None:
            if len(self._following) >= self._followed_max:
                raise TooManyOpenTransactions(
                    f"{len(self._following)} transactions are followed here: at most {self._followed_max} "
                    f"(FOLLOWED_MAX), so {txn_id} has to wait; try again when others have ended"
                )
            following = self._following[txn_id] = Following(txn_id)
            following.task = asyncio.ensure_future(self._watch(following))
            self._tasks.add(following.task)
            following.task.add_done_callback(self._tasks.discard)
        following.holders += 1
        return Followed(following, self._release)

    def _release(self, following: Following) -> None:
        following.holders -= 1
        if not following.holders:
            self._forget(following)
            assert following.task is not None
            following.task.cancel()
            following.fail(SegmentUnavailable(f"{following.txn_id} was let go of while somebody still waited for it"))

    def _forget(self, following: Following) -> None:
        if self._following.get(following.txn_id) is following:
            del self._following[following.txn_id]

    async def _watch(self, following: Following) -> None:
        """Follows the header until the decision."""
        key, partition = paths.header_key(following.txn_id), paths.partition(following.txn_id)
        try:
            async with View(self._store, exactly(key), partition_key=partition, pace=self._pace) as view:
                while following.now is None or following.now.is_open:
                    await view.news()
                    following.learn(Known.of_record(view.records.get(key)))
            self._measure(following)
        except Exception as error:
            # The next who asks begins anew; those who wait now are told.
            self._forget(following)
            following.fail(error)

    def _measure(self, following: Following) -> None:
        header = following.now.header if following.now is not None else None
        if self._measures is not None and header is not None and header.finalized_ms is not None:
            self._measures.outcome_learned(max(0, self._pace.clock.wall_ms() - header.finalized_ms))

    async def close(self) -> None:
        """Follows nothing any more. Who still waits is told that this process has ended."""
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for following in self._following.values():
            following.fail(SegmentUnavailable(f"what becomes of {following.txn_id} is not learned here any more"))
        self._following.clear()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
