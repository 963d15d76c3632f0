"""Chunks on their way into the store: a few at a time, each put until it is there, and judged in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from metastore.coordination import Backoff, Pace
from metastore.faults import Faults
from metastore.interface import (
    ConditionFailed,
    LimitExceeded,
    OutcomeUnknown,
    Retriable,
    StoreFull,
    UnexpectedVersion,
)
from txn.segment.errors import Fenced, LogStopped
from txn.segment.log.chunk import Chunk
from txn.segment.log.fences import Fence
from txn.segment.log.interface import Synced
from txn.segment.log.records import LogRecords, told
from txn.segment.log.waiting import Group

CHUNKS_UNDER_WAY_MAX = 4
"""Chunks of one log that are being put at the same time."""
PUT_ATTEMPTS_MAX = 8
"""How often a chunk is put while the store is away or does not answer, with pauses in between."""

_HARMLESS = (Retriable, LimitExceeded)
"""With these errors the store says that it did nothing."""


class Sending:
    """A chunk under way, and the groups in it."""

    def __init__(self, chunk: Chunk, groups: Sequence[Group]) -> None:
        self.position = chunk.first
        self.value = chunk.encode()
        self.groups = groups
        self.is_in_doubt = False
        """A put of it was not answered, so it may be there, or still come there."""
        self.is_done = False
        self.error: Exception | None = None

    @property
    def has_landed(self) -> bool:
        return self.is_done and self.error is None

    @property
    def has_changed_nothing(self) -> bool:
        return isinstance(self.error, _HARMLESS) and not self.is_in_doubt


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Who is told what becomes of chunks, and of groups: always of the oldest that are not confirmed."""

    synced: Synced
    """A chunk is durable, so long after it was sent."""
    confirm: Callable[[Sequence[Group]], None]
    """They are durable."""
    take_back: Callable[[Sequence[Group], Exception], None]
    """Nothing was changed by them."""
    end: Callable[[Exception, Sequence[Group]], None]
    """They may be durable or not, and nothing can be appended behind them."""


class Pipeline:
    """The chunks under way of one log."""

    def __init__(self, records: LogRecords, fence: Fence, pace: Pace, faults: Faults, verdicts: Verdicts) -> None:
        self._records = records
        self._fence = fence
        self._pace = pace
        self._faults = faults
        self._verdicts = verdicts
        self._sendings: deque[Sending] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def has_room(self) -> bool:
        """Whether another chunk may be sent: not while it is in doubt whether those before it have landed."""
        return len(self._sendings) < CHUNKS_UNDER_WAY_MAX and not any(each.error for each in self._sendings)

    def send(self, chunk: Chunk, groups: Sequence[Group]) -> None:
        """Sends the next chunk on its way."""
        sending = Sending(chunk, groups)
        self._sendings.append(sending)
        task = asyncio.ensure_future(self._send(sending))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> list[Group]:
        """Leaves undecided what is under way, and says what that is."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        groups = [group for each in self._sendings for group in each.groups]
        self._sendings.clear()
        return groups

    async def _send(self, sending: Sending) -> None:
        clock = self._pace.clock
        began_s = clock.monotonic_s()
        try:
            await self._put(sending)
        except Exception as error:
            sending.error = error
        else:
            self._verdicts.synced(clock.monotonic_s() - began_s)
        sending.is_done = True
        self._settle()

    async def _put(self, sending: Sending) -> None:
        """Returns when the chunk is in its place."""
        backoff = Backoff(self._pace)
        self._faults.reach("segment.append.before")
        for attempts_left in reversed(range(PUT_ATTEMPTS_MAX)):
            try:
                await self._try_to_put(sending)
            except StoreFull:
                raise
            except (Retriable, OutcomeUnknown):
                if not attempts_left:
                    raise
                await backoff.pause()
            else:
                break
        self._faults.reach("segment.append.after")

    async def _try_to_put(self, sending: Sending) -> None:
        try:
            await self._fence.put(sending.position, sending.value)
        except OutcomeUnknown:
            sending.is_in_doubt = True
            if await self._records.value_at(sending.position) != sending.value:
                raise
        except (UnexpectedVersion, ConditionFailed) as error:
            # An earlier attempt has landed after all; or it was somebody else.
            if await self._records.value_at(sending.position) != sending.value:
                raise Fenced(
                    f"the log of {self._records.segment!r} has a later owner than the one of ledger "
                    f"{sending.position.ledger}: stop, and campaign again"
                ) from error
        sending.is_in_doubt = False

    def _settle(self) -> None:
        """A chunk has come to its end: confirms what can be confirmed, and judges what failed."""
        sendings = self._sendings
        while sendings and sendings[0].has_landed:
            self._verdicts.confirm(sendings.popleft().groups)
        if sendings and sendings[0].error is not None:
            self._judge_failure(list(sendings), sendings[0].error)

    def _judge_failure(self, sendings: Sequence[Sending], error: Exception) -> None:
        """The oldest chunk did not land. If none behind it did either, nothing was changed."""
        fenced = next((each.error for each in sendings if isinstance(each.error, Fenced)), None)
        if fenced is None and not all(each.is_done for each in sendings):
            return
        self._sendings.clear()
        groups = [group for each in sendings for group in each.groups]
        if fenced is None and all(each.has_changed_nothing for each in sendings):
            self._verdicts.take_back(groups, _as_told(self._records.segment, error))
            return
        stopped = LogStopped(
            f"the log of {self._records.segment!r} has stopped, for it is in doubt what is there: {error}"
        )
        stopped.__cause__ = error
        self._verdicts.end(fenced or stopped, groups)


def _as_told(segment: str, error: Exception) -> Exception:
    """A store's error in the words of segments."""
    try:
        with told(segment, "appending to"):
            raise error
    except Exception as told_error:
        return told_error
