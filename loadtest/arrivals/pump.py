"""Begins the arrivals of a flow when they are due, and tells what became of each.

Every arrival has exactly one outcome. At most `outstanding_max` are under way; those that are due meanwhile wait, and
their waiting is part of their latency. One that has waited for `start_within_s` is not begun any more: it is an error,
with the time that it waited. What was due by the end, and is not through `finish_within_s` later, is an error too.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from loadtest.arrivals.flow import Flow
from loadtest.outcomes import NOT_STARTED, UNFINISHED, Kind, Outcome, Record

AT_ONCE_MAX = 100
"""Arrivals that are begun before others have their turn."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What may wait, and for how long."""

    outstanding_max: int = 1_000
    """Arrivals under way."""
    start_within_s: float = 10.0
    """How late an arrival may be begun."""
    finish_within_s: float = 10.0
    """How long what was due by the end is waited for."""


class Arrival:
    """One arrival, as the scenario sees it that serves it."""

    __slots__ = ("_pump", "draw", "intended_s", "number", "operation", "size")

    def __init__(self, pump: Pump, number: int, intended_s: float) -> None:
        self._pump = pump
        self.number = number
        self.intended_s = intended_s
        """When it was meant to begin, by the clock of the event loop."""
        self.draw = pump.draw
        """Whatever is to be drawn is drawn from here."""
        self.operation = pump.name
        """What it turned out to be: the line on which it is counted."""
        self.size = 0
        """Bytes that came back."""

    def step(self, operation: str, began_s: float, error: BaseException | None = None) -> None:
        """Tells of a part of it that began then and ends now."""
        self._pump.tell(Kind.STEP, operation, began_s, error)


class Pump:
    """The arrivals of one flow. `run` is to be cancelled; every arrival has its outcome when `finish` returns."""

    def __init__(
        self,
        name: str,
        flow: Flow,
        serve: Callable[[Arrival], Awaitable[None]],
        record: Record,
        draw: random.Random,
        limits: Limits | None = None,
    ) -> None:
        self.name = name
        self.draw = draw
        self._flow = flow
        self._serve = serve
        self._record = record
        self._limits = limits or Limits()
        self._loop = asyncio.get_running_loop()
        self._live: dict[asyncio.Task[None], Arrival] = {}
        self._news = asyncio.Event()
        self._count = 0

    @property
    def outstanding(self) -> int:
        """How many are under way."""
        return len(self._live)

    def set_rate(self, rate: float) -> None:
        """So many arrivals a second from now on."""
        self._flow.set_rate(self._loop.time(), rate)
        self._news.set()

    async def run(self) -> None:
        """Begins what is due, for ever."""
        await self._begin_until(lambda: False)

    async def finish(self) -> None:
        """No more arrivals; returns when every one of them has its outcome."""
        self._flow.set_rate(self._loop.time(), 0.0)
        await self.drain()

    async def drain(self) -> None:
        """The same where the flow ends by itself: what is due has its time to begin and to end, and then no more."""
        try:
            async with asyncio.timeout(self._limits.finish_within_s):
                await self._begin_until(lambda: not self._live and self._flow.next_s() is None)
        except TimeoutError:
            while self._flow.next_s() is not None:
                self._miss()
            for arrival in self._live.values():
                self._settle(arrival, UNFINISHED)
            await self.close()

    async def close(self) -> None:
        """Ends what is under way, and tells nothing of it."""
        leftover = list(self._live)
        self._live.clear()
        for task in leftover:
            task.cancel()
        if leftover:
            await asyncio.wait(leftover, timeout=self._limits.finish_within_s)

    def tell(self, kind: Kind, operation: str, began_s: float, error: BaseException | None = None) -> None:
        """Tells of something that began then and ends now."""
        latency_s = self._loop.time() - began_s
        self._record(Outcome(self.name, operation, kind, began_s, latency_s, error=_name_of(error)))

    async def _begin_until(self, is_over: Callable[[], bool]) -> None:
        begun = 0
        while not is_over():
            wake_s = self._step()
            if wake_s is not None and wake_s <= self._loop.time():
                begun += 1
                if begun % AT_ONCE_MAX == 0:
                    await asyncio.sleep(0)
                continue
            await self._wait_news(wake_s)

    def _step(self) -> float | None:
        """Does what is due first; until when there is nothing more to do."""
        due_s = self._flow.next_s()
        now_s = self._loop.time()
        if due_s is None or due_s > now_s:
            return due_s
        overdue_s = due_s + self._limits.start_within_s
        if now_s >= overdue_s:
            self._miss()
            return now_s
        if not self._has_room:
            return overdue_s
        self._begin()
        return now_s

    @property
    def _has_room(self) -> bool:
        return len(self._live) < self._limits.outstanding_max

    def _begin(self) -> None:
        arrival = self._next()
        late_s = self._loop.time() - arrival.intended_s
        task = self._loop.create_task(self._answered(arrival, late_s))
        self._live[task] = arrival
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._live.pop(task, None)
        self._news.set()

    async def _answered(self, arrival: Arrival, late_s: float) -> None:
        error: str | None = None
        try:
            await self._serve(arrival)
        except Exception as caught:  # whatever it is, it is counted as what became of this arrival
            error = _name_of(caught)
        self._settle(arrival, error, late_s)

    def _miss(self) -> None:
        arrival = self._next()
        self._settle(arrival, NOT_STARTED, self._loop.time() - arrival.intended_s)

    def _next(self) -> Arrival:
        self._count += 1
        return Arrival(self, self._count, self._flow.take())

    def _settle(self, arrival: Arrival, error: str | None, late_s: float = 0.0) -> None:
        latency_s = self._loop.time() - arrival.intended_s
        self._record(
            Outcome(
                self.name, arrival.operation, Kind.ARRIVAL, arrival.intended_s, latency_s, late_s, error, arrival.size
            )
        )

    async def _wait_news(self, until_s: float | None) -> None:
        """Returns when something has ended, the rate is another, or it is that time."""
        self._news.clear()
        alarm = None if until_s is None else self._loop.call_at(until_s, self._news.set)
        try:
            await self._news.wait()
        finally:
            if alarm is not None:
                alarm.cancel()


def _name_of(error: BaseException | None) -> str | None:
    return None if error is None else type(error).__name__
