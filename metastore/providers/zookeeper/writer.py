"""All writes of one process: those that wait are committed together, by comparing and setting the head.

If somebody else was faster, the head has moved, nothing is applied, and the writes are prepared anew. If the answer to
a commit is lost, the same commit is sent again: at most one of the two can find the head as it was, and the log tells
whose the entry is that took its place. So a write is applied once, and its outcome is unknown only if ZooKeeper cannot
be reached until the caller's patience ends.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from metastore.faults import Faults
from metastore.interface import (
    LimitExceeded,
    OutcomeUnknown,
    Overloaded,
    StoreClosed,
    StoreError,
    StoreFailed,
    Unavailable,
)
from metastore.providers.zookeeper.batching import Cut
from metastore.providers.zookeeper.changes import LogEntry
from metastore.providers.zookeeper.connection import Conflict, Connection
from metastore.providers.zookeeper.courtesy import Courtesy
from metastore.providers.zookeeper.drafting import Draft, Drafter
from metastore.providers.zookeeper.head import Head
from metastore.providers.zookeeper.layout import Layout
from metastore.providers.zookeeper.limits import (
    CONFLICTS_BEFORE_ASKING,
    CONFLICTS_MAX,
    GROUP_WRITES_MAX,
    REQUEST_BYTES_MAX,
    ROOM_S,
    WAITING_WRITES_MAX,
    ZK_WRITE_BYTES_MAX,
)
from metastore.providers.zookeeper.plans import Plan, sweep_portion

FIRST_PAUSE_S = 0.001
LONGEST_PAUSE_S = 0.05

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class _Request:
    """A write that waits for its outcome."""

    plan: Plan[Any]
    outcome: asyncio.Future[Any]
    is_removal: bool
    is_sent: bool = False
    """ZooKeeper may have got it by now."""

    @property
    def is_wanted(self) -> bool:
        """Whether somebody still waits for the outcome."""
        return not self.outcome.done()

    def settle(self, outcome: Any) -> None:
        if not self.is_wanted:
            return
        if isinstance(outcome, StoreError):
            self.outcome.set_exception(outcome)
        else:
            self.outcome.set_result(outcome)


class Writer:
    """Commits the writes of one store object."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        drafter: Drafter,
        patience_s: float,
        choice: random.Random,
        faults: Faults,
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._drafter = drafter
        self._patience_s = patience_s
        self._choice = choice
        self._faults = faults
        self._courtesy = Courtesy(connection, layout, drafter.identity)
        self._is_asked_for_room = False
        self._waiting: deque[_Request] = deque()
        self._arrived = asyncio.Event()
        self._worker = asyncio.create_task(self._work())

    async def submit(self, plan: Plan[T], *, is_removal: bool = False) -> T:
        """Carries out a plan. Removals may be larger than other writes."""
        if self._worker.done():
            raise StoreClosed("the store was closed: open another one")
        if len(self._waiting) >= WAITING_WRITES_MAX:
            raise Overloaded(f"{WAITING_WRITES_MAX} writes wait already (WAITING_WRITES_MAX): do fewer at a time")
        outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        request = _Request(plan, outcome, is_removal)
        self._waiting.append(request)
        self._arrived.set()
        try:
            async with asyncio.timeout(self._patience_s):
                return await outcome
        except TimeoutError:
            if request.is_sent:
                raise OutcomeUnknown(
                    f"ZooKeeper was sent a write, and did not answer for {self._patience_s:g} s: read what came of it"
                ) from None
            raise Unavailable(f"ZooKeeper did not answer for {self._patience_s:g} s; nothing was done") from None

    async def close(self) -> None:
        """What waits is refused; what became of a write that was sent nobody can say."""
        self._worker.cancel()
        await asyncio.wait([self._worker])
        _refuse(self._waiting)
        self._waiting.clear()

    async def _work(self) -> None:
        while True:
            await self._arrived.wait()
            if self._is_asked_for_room:
                await asyncio.sleep(ROOM_S)
            group = [self._waiting.popleft() for _ in range(min(len(self._waiting), GROUP_WRITES_MAX))]
            if not self._waiting:
                self._arrived.clear()
            try:
                await self._write(group)
            except StoreError as error:
                _settle(group, [error] * len(group))
            except Exception as error:
                failure = StoreFailed(f"this provider failed: {error!r}: the write is whole, or not there")
                failure.__cause__ = error
                _settle(group, [failure] * len(group))
            finally:
                _refuse(group)
            await self._courtesy.thank()

    def _put_back(self, group: list[_Request], kept: int) -> None:
        """Takes all but the first of a group out of it again."""
        if kept < len(group):
            self._waiting.extendleft(reversed(group[kept:]))
            self._arrived.set()
            del group[kept:]

    # -- one group

    async def _write(self, group: list[_Request]) -> None:
        """Commits the group, or refuses it; requests that nobody waits for any more are left out."""
        conflicts = 0
        while True:
            group[:] = [request for request in group if request.is_wanted]
            if not group or await self._attempt(group):
                return
            conflicts += 1
            if conflicts >= CONFLICTS_BEFORE_ASKING:
                await self._courtesy.ask()
            if conflicts >= CONFLICTS_MAX:
                raise Overloaded(
                    f"others were faster {conflicts} times (CONFLICTS_MAX), and nothing was done: write less often"
                )
            longest_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * conflicts)
            await asyncio.sleep(self._choice.uniform(0, longest_s))

    async def _attempt(self, group: list[_Request]) -> bool:
        """Commits the group, or as much of it as goes together; False if somebody else was faster."""
        try:
            draft = await self._drafter.draft([request.plan for request in group])
            while draft.head.sweep is not None:
                await self._sweep()
                draft = await self._drafter.draft([request.plan for request in group])
        except Conflict:
            return False
        self._is_asked_for_room = self._courtesy.is_asked(draft.asking)
        if draft.size_bytes > ZK_WRITE_BYTES_MAX and len(group) > 1:
            self._put_back(group, len(group) // 2)
            return await self._attempt(group)
        if draft.size_bytes > (REQUEST_BYTES_MAX if group[0].is_removal else ZK_WRITE_BYTES_MAX):
            if not await self._drafter.is_current(draft):
                return False
            raise LimitExceeded(
                f"the write would send ZooKeeper {draft.size_bytes} bytes, with what it replaces and its index "
                f"entries: {ZK_WRITE_BYTES_MAX} are possible (ZK_WRITE_BYTES_MAX)"
            )
        self._put_back(group, len(draft.outcomes))
        if not await self._is_committed(draft, group):
            return False
        _settle(group, draft.outcomes)
        return True

    async def _sweep(self) -> None:
        """Removes a portion of the range that the head says is gone, unless somebody else is faster."""
        draft = await self._drafter.draft([sweep_portion])
        if draft.head.sweep is not None:
            assert draft.size_bytes <= REQUEST_BYTES_MAX, "whatever could be stored can be removed"
            await self._is_committed(draft, [])

    async def _is_committed(self, draft: Draft, group: Sequence[_Request]) -> bool:
        """Whether the draft took effect; it did not if the head has moved."""
        if not draft.operations:
            return await self._drafter.is_current(draft)
        is_cut = False
        pause_s = FIRST_PAUSE_S
        while True:
            await self._connection.until_connected()
            if not is_cut and not all(request.is_wanted for request in group):
                return False
            for request in group:
                request.is_sent = True
            self._faults.reach("zookeeper.commit.before")
            try:
                await self._connection.commit(draft.operations)
                self._faults.reach("zookeeper.commit.after")
                return True
            except Cut:
                is_cut = True
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except Conflict:
                if is_cut and await self._is_ours(draft):
                    return True
                for request in group:
                    request.is_sent = False
                return False

    async def _is_ours(self, draft: Draft) -> bool:
        """Whether it was an earlier sending of this draft that moved the head.

        A draft without an entry in the log is one that may be repeated, and counts as not ours.
        """
        head, node = await self._connection.nodes([self._layout.head, self._layout.log_entry(draft.first_entry)])
        assert head is not None, "a store has a head"
        if node is not None:
            return LogEntry.decode(node.data).writer == draft.writer
        if Head.decode(head.data).oldest > draft.first_entry:
            raise OutcomeUnknown("the change log no longer tells what became of a write: read what came of it")
        return False


def _settle(group: Sequence[_Request], outcomes: Sequence[Any]) -> None:
    for request, outcome in zip(group, outcomes, strict=True):
        request.settle(outcome)


def _refuse(requests: Iterable[_Request]) -> None:
    for request in requests:
        if request.is_sent:
            request.settle(OutcomeUnknown("the store was closed while this was being written"))
        request.settle(StoreClosed("the store was closed before this was written"))
