"""All transactions that a process follows: by one watch of the open ones, and a look at those that are not among them.

What decides a transaction takes its header out of the index of the open ones, and the watch of that index brings the
header as it is from then on. A header that is not in the index when somebody asks is looked at: it may be decided, or
never have been there, or be so new that the watch has not told of it yet. The look comes after all that the watch had
told: what is open by it will be told to be decided; but for stores whose watches leave out what is over when they come
to tell it: there such a header is watched by itself. Where the watch cannot say what has become of a transaction,
because it was lost for a while, the header is looked at again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from types import TracebackType
from typing import Any, Protocol, Self

from metastore.coordination import Backoff, Pace, View
from metastore.interface import MetadataStore, Record, Retriable, StoreError, exactly
from txn.model import paths
from txn.model.errors import RecordDamaged, SegmentUnavailable, TooManyOpenTransactions
from txn.model.ids import TxnId
from txn.outcomes.followed import Followed, Following, Known
from txn.outcomes.headers import OpenHeaders

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
        headers: OpenHeaders | None = None,
        followed_max: int = FOLLOWED_MAX,
    ) -> None:
        self._store = store
        self._headers = headers or OpenHeaders(store, pace)
        self._pace = pace
        self._measures = measures
        self._followed_max = followed_max
        self._following: dict[str, Following] = {}
        """By the keys of the headers."""
        self._watching: asyncio.Task[None] | None = None
        """From the first who asks on."""
        self._view: View | None = None
        """The headers of all open transactions, once they were told."""
        self._snapshots = 0
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
        key = paths.header_key(txn_id)
        following = self._following.get(key)
        if following is None:
            if len(self._following) >= self._followed_max:
                raise TooManyOpenTransactions(
                    f"{len(self._following)} transactions are followed here: at most {self._followed_max} "
                    f"(FOLLOWED_MAX), so {txn_id} has to wait; try again when others have ended"
                )
            following = self._following[key] = Following(txn_id)
            self._begin(key, following)
        following.holders += 1
        return Followed(following, self._release)

    def _begin(self, key: str, following: Following) -> None:
        """The first look, which takes no time if the transaction is known to be open."""
        if self._watching is None:
            self._watching = self._start(self._watch())
        elif self._view is not None:  # else it comes with the first that is told
            self._see(key, following, self._view.records.get(key))

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _release(self, following: Following) -> None:
        following.holders -= 1
        if not following.holders:
            text = f"{following.txn_id} was let go of while somebody still waited for it"
            self._let_go(following, SegmentUnavailable(text))

    def _let_go(self, following: Following, error: Exception) -> None:
        key = paths.header_key(following.txn_id)
        if self._following.get(key) is following:
            del self._following[key]
        if following.look is not None:
            following.look.cancel()
        following.fail(error)

    async def look_now(self, followed: Followed) -> Known:
        """What the header says now, which the watch may be yet to tell. Raises what the store raises, RecordDamaged."""
        key = paths.header_key(followed.txn_id)
        record = await self._store.get(key, partition_key=paths.partition(followed.txn_id))
        known, following = Known.of_record(record), self._following.get(key)
        if following is not None and not following.is_decided:
            self._learn(following, record)
        return known

    # -- the watch

    async def _watch(self) -> None:
        """Follows the headers of all open transactions."""
        try:
            await self._headers.follow(self._told)
        except Exception as error:
            # The next who asks begins anew; those who wait now are told.
            self._watching = self._view = None
            for following in list(self._following.values()):
                self._let_go(following, error)

    def _told(self, view: View, news: Iterable[str]) -> None:
        if view is not self._view or view.snapshots != self._snapshots:
            self._view, self._snapshots = view, view.snapshots
            news = list(self._following)
        for key in news:
            following = self._following.get(key)
            if following is not None and not following.is_decided:
                self._see(key, following, view.records.get(key) or view.departed.get(key))

    def _see(self, key: str, following: Following, record: Record | None) -> None:
        """What the watch shows of a transaction; without a record its header is looked at."""
        if record is not None:
            self._learn(following, record)
            return
        following.doubts += 1
        if following.look is None:
            tells_all = self._store.capabilities.watches_every_change
            following.look = self._start((self._look if tells_all else self._look_on)(key, following))

    async def _look(self, key: str, following: Following) -> None:
        """Looks at a header, and again if there is a new reason to."""
        backoff, doubts = Backoff(self._pace), 0
        try:
            while doubts != following.doubts and not following.is_decided:
                doubts = following.doubts
                try:
                    record = await self._store.get(key, partition_key=paths.partition(following.txn_id))
                except Retriable:
                    doubts = 0
                    await backoff.pause()
                else:
                    if not following.is_decided:
                        self._learn(following, record)
        except Exception as error:
            self._let_go(following, error)
        finally:
            following.look = None

    async def _look_on(self, key: str, following: Following) -> None:
        """Looks at a header until it is decided: where a watch tells only what has become of a record in the end, it
        says nothing of one that is in the index and out of it again before it was told."""
        partition = paths.partition(following.txn_id)
        try:
            async with View(self._store, exactly(key), partition_key=partition, pace=self._pace) as view:
                while not following.is_decided:
                    await view.news()
                    if not following.is_decided:
                        self._learn(following, view.records.get(key))
        except Exception as error:
            self._let_go(following, error)
        finally:
            following.look = None

    def _learn(self, following: Following, record: Record | None) -> None:
        try:
            following.learn(Known.of_record(record))
        except RecordDamaged as error:
            self._let_go(following, error)
            return
        header = following.now.header if following.now is not None else None
        if self._measures is not None and header is not None and header.finalized_ms is not None:
            self._measures.outcome_learned(max(0, self._pace.clock.wall_ms() - header.finalized_ms))

    # -- the end

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


async def looked(followed: Followed, now: Outcomes | None = None) -> Known:
    """What is known of a transaction; with `now` what its header says at this moment.

    SegmentUnavailable if the store does not say.
    """
    try:
        return await (followed.known() if now is None else now.look_now(followed))
    except StoreError as error:
        raise SegmentUnavailable(f"whether {followed.txn_id} is open cannot be learned: {error}") from error
