"""The exclusive right to produce to a topic: who has it, who waits for it, and who hears of it.

A claim is a number, and numbers only grow. Before a producer is told its number, it is written down, and every segment
that takes messages has heard of it: so whoever had the right before cannot produce any more. A producer keeps its claim
while its connection lasts, and for a grace behind it, in which it comes back by its number, to this leader or the next.
Who comes without a number is somebody new, even by the same name: it gets another one, and the first is fenced. Who
comes back later than its grace is told that it has lost the right, even if nobody has it: others had it meanwhile, or
may have, and what the producer has under way was not meant to come behind what they have sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from enum import Enum

from controller.leading.errors import ProducerBusy
from controller.leading.line import Line
from controller.operations import LeaderRecords, SegmentWork
from controller.operations.work import each_of
from controller.subscriptions import LimitReached
from controller.topics import NotLeader, paths
from controller.topics.claims import Claim
from metastore.coordination import Backoff, Pace
from txn.model.errors import TxnRetriable
from txn.segment.bell import Bell
from txn.segment.errors import ProducerFenced

CLAIM_GRACE_S = 10.0
"""How long a producer may be away before others can have its right."""
CLAIMS_WAITING_MAX = 1_000
"""Producers that wait until the right to a topic is to be had."""


class ClaimMode(Enum):
    """What is done about somebody else who has the right."""

    EXCLUSIVE = "exclusive"
    """Nothing: ProducerBusy."""
    FENCING = "fencing"
    """It is taken from him."""
    WAIT = "wait"
    """He is waited for."""


class Hold:
    """A producer's connection, which has the right until it is gone."""

    def __init__(self, claims: Claims, claim: Claim) -> None:
        self.number = claim.number
        self._claims = claims
        self._ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_over(self) -> bool:
        """Whether it has the right no longer."""
        return self._ending.done()

    def disconnect(self) -> None:
        """The connection is gone, and the producer's grace begins. If it has no right any more, nothing happens."""
        self._claims.disconnected(self)

    def end(self, error: Exception | None) -> None:
        """It has the right no longer; no error if it was given back."""
        if not self._ending.done():
            self._ending.set_result(None) if error is None else self._ending.set_exception(error)
            self._ending.exception()  # whether anybody is told depends on who is faster

    async def wait_over(self) -> None:
        """Returns when the right was given back; ProducerFenced, or NotLeader, when it is over otherwise."""
        await asyncio.shield(self._ending)


class Claims:
    """The claims of one topic, at its leader. `run` works for them until cancelled."""

    def __init__(
        self,
        records: LeaderRecords,
        claim: Claim | None,
        segments: Callable[[], Sequence[str]],
        work: SegmentWork,
        line: Line,
        pace: Pace,
        grace_s: float,
    ) -> None:
        self._records = records
        self._claim = claim or Claim(0, None)
        """As it is written down."""
        self._is_told = claim is None
        """Whether all segments that take messages have heard of it."""
        self._segments = segments
        self._work = work
        self._line = line
        self._pace = pace
        self._grace_s = grace_s
        self._hold: Hold | None = None
        self._until_s: float | None = None
        """When the grace of a producer is over that is away."""
        self._waiting = 0
        self._queue = asyncio.Lock()
        """Held by who is the next to have the right of those who wait for it."""
        self._is_closed = False
        self._bell = Bell()
        self._begin_grace()

    @property
    def claim(self) -> Claim:
        """The newest one."""
        return self._claim

    async def take(self, producer: str, mode: ClaimMode) -> Hold:
        """The right, for that producer: when this returns nobody else can produce any more."""
        paths.checked(producer, "producer")
        if mode is not ClaimMode.WAIT:
            return await self._take(producer, mode)
        if self._claim.producer == producer:
            with suppress(ProducerBusy):
                return await self._take(producer, mode)  # who comes back waits behind nobody
        async with self._queued():
            while True:
                await self._bell.until(lambda: self._is_closed or self._claim.producer in (None, producer))
                with suppress(ProducerBusy):  # somebody else was faster
                    return await self._take(producer, mode)

    @asynccontextmanager
    async def _queued(self) -> AsyncIterator[None]:
        """Within the block it is one's turn to wait for the right; all others wait behind."""
        if self._waiting >= CLAIMS_WAITING_MAX:
            raise LimitReached(
                f"{CLAIMS_WAITING_MAX} producers wait for {self._records.topic} (CLAIMS_WAITING_MAX): come back later"
            )
        self._waiting += 1
        try:
            async with self._queue:
                yield
        finally:
            self._waiting -= 1

    async def keep(self, producer: str, number: int) -> Hold:
        """The right that a producer has had since it was told that number. ProducerFenced if it has lost it."""

        async def look() -> Claim:
            if self._claim != Claim(number, producer):
                raise ProducerFenced(f"claim {number} of {producer!r} to {self._records.topic} was lost meanwhile")
            return self._claim

        return await self._hold_on(look)

    async def _take(self, producer: str, mode: ClaimMode) -> Hold:
        return await self._hold_on(lambda: self._write_down(producer, mode))

    async def _hold_on(self, decide: Callable[[], Awaitable[Claim]]) -> Hold:
        while (claim := await self._line.do(decide)) != self._claim:
            pass  # taken away again, before anybody was told
        hold = self._connected(claim)
        try:
            await self._tell()
            if hold.is_over:
                await hold.wait_over()
        except BaseException:
            hold.disconnect()
            raise
        return hold

    async def release(self, producer: str, number: int) -> None:
        """Gives a claim back, unless there is a newer one."""
        given = Claim(number, producer)

        async def write_down() -> None:
            if self._claim == given:
                await self._give_back()

        await self._line.do(write_down)
        await self._tell()

    def disconnected(self, hold: Hold) -> None:
        """See `Hold.disconnect`."""
        if self._hold is hold:
            self._hold = None
            self._begin_grace()

    # -- the record

    async def _write_down(self, producer: str, mode: ClaimMode) -> Claim:
        there = self._claim
        if there.producer not in (None, producer) and mode is not ClaimMode.FENCING:
            raise ProducerBusy(
                f"producer {there.producer!r} has the exclusive right to produce to {self._records.topic}: wait until "
                "it is gone, or take the right from it by fencing"
            )
        await self._become(Claim(there.number + 1, producer))
        self._end_hold(ProducerFenced(f"another producer has the right to {self._records.topic} by now"))
        self._begin_grace()
        return self._claim

    async def _give_back(self) -> None:
        await self._become(Claim(self._claim.number, None))
        self._until_s = None
        self._end_hold(None)

    async def _become(self, claim: Claim) -> None:
        await self._records.set_claim(claim)
        self._claim, self._is_told = claim, False
        self._bell.ring()

    # -- who has it

    def _connected(self, claim: Claim) -> Hold:
        assert self._claim == claim, "the right is this producer's"
        self._end_hold(ProducerFenced(f"another producer has the right to {self._records.topic} by now"))
        self._hold, self._until_s = Hold(self, claim), None
        return self._hold

    def _end_hold(self, error: Exception | None) -> None:
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.end(error)

    def _begin_grace(self) -> None:
        """Somebody has the right who is not connected."""
        if not self._claim.is_released:
            self._until_s = self._pace.clock.monotonic_s() + self._grace_s
            self._bell.ring()

    # -- who hears of it

    async def _tell(self) -> None:
        """Returns when all segments that take messages have heard of the newest claim."""
        backoff = Backoff(self._pace)
        while not self._is_told:
            try:
                await self._line.do(self._tell_once)
            except NotLeader:
                raise
            except TxnRetriable:
                await backoff.pause()

    async def _tell_once(self) -> None:
        claim = self._claim
        if not self._is_told:
            number, is_released = claim.number, claim.is_released
            await each_of(self._segments(), lambda name: self._work.set_claim(name, number, is_released))
            self._is_told = self._claim == claim

    # -- from beginning to end

    async def run(self) -> None:
        """Gives back the right of producers whose grace is over, until cancelled."""
        await self._tell()
        while True:
            await self._bell.until(lambda: self._until_s is not None)
            assert self._until_s is not None
            await self._pace.sleep(max(0.0, self._until_s - self._pace.clock.monotonic_s()))
            await self._line.do(self._expire)
            await self._tell()

    async def _expire(self) -> None:
        if self._until_s is not None and self._until_s <= self._pace.clock.monotonic_s():
            await self._give_back()

    def close(self) -> None:
        """The topic is led here no longer: producers have their grace at the next leader."""
        self._is_closed = True
        self._end_hold(NotLeader(f"{self._records.topic} is led by somebody else, or will be: look who leads it"))
        self._bell.ring()
