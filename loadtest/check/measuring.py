"""One profile of a work, under way: begins each piece when it is due, takes down what becomes of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from loadtest.arrivals import Flow, Spacing, points
from loadtest.arrivals.pump import Arrival, Limits, Pump
from loadtest.check.evidence import Observer
from loadtest.check.profiles import RATES
from loadtest.check.recorder import Measured, Recorder
from loadtest.check.usage import Evidence, Usage, usages
from loadtest.check.verdict import Finding, findings, is_passed
from loadtest.check.works import Work
from loadtest.outcomes import NOT_STARTED, UNFINISHED
from metastore.clock import Clock

WARM_UP_PIECES = 20
"""Before the clock starts: connections, and what is made when it is first needed."""
WARM_UP_LIMIT_S = 30.0
GRACE_S = 5.0
"""How long behind the end of the schedule what has begun may take."""
TICK_S = 0.2

REASONS = {
    NOT_STARTED: "never begun: too many were under way",
    UNFINISHED: f"no answer within {GRACE_S:g} s after the end",
}
"""Why some have failed that no error tells."""

Tell = Callable[[float, int], None]
"""Seconds since the beginning, and answers up to now."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A profile of a work, done."""

    size: str
    rate: float
    began_ms: int
    measured: Measured
    found: tuple[Finding, ...]
    evidence: Evidence

    @property
    def passed(self) -> bool:
        return is_passed(self.found)

    @property
    def used(self) -> tuple[Usage, ...]:
        return usages(self.evidence, self.measured.p50_s)


async def warm_up(work: Work, numbers: Iterator[int]) -> None:
    """Does a few pieces that do not count; their errors are errors of the whole."""
    async with asyncio.timeout(WARM_UP_LIMIT_S):
        for number in islice(numbers, WARM_UP_PIECES):
            await work.do(number)


async def measure(
    work: Work,
    numbers: Iterator[int],
    size: str,
    seconds: float,
    seed: int,
    observer: Observer,
    clock: Clock,
    tell: Tell,
) -> Checked:
    """Does pieces of the work by these numbers, at the rate of a size, for so long."""
    rate = RATES[work.kind][size]
    await observer.begin()
    loop = asyncio.get_running_loop()
    began_s, began_ms = loop.time(), clock.wall_ms()
    recorder = Recorder(began_s)
    chance = random.Random(seed)
    flow = Flow(points(Spacing.EVEN, chance))
    flow.set_rate(began_s, rate)
    flow.set_rate(began_s + seconds, 0.0)

    async def serve(arrival: Arrival) -> None:
        arrival.operation = await work.do(next(numbers))

    async def tick() -> None:
        while True:
            tell(loop.time() - began_s, recorder.answered)
            await asyncio.sleep(TICK_S)

    pump = Pump(work.kind, flow, serve, recorder.record, chance, Limits(work.under_way_max, GRACE_S, GRACE_S))
    under_way = [asyncio.create_task(pump.run()), asyncio.create_task(tick())]
    try:
        await asyncio.sleep(seconds)
        await pump.drain()
    finally:
        for task in under_way:
            task.cancel()
        await pump.close()
    evidence = await observer.end()
    measured = recorder.measured(seconds, REASONS)
    return Checked(size, rate, began_ms, measured, findings(measured, rate), evidence)
