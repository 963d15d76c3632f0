"""Scenarios at work: each with a pump of its own, all on one event loop and over shared connections."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Self

from loadtest.arrivals import Flow, Settings, Spacing, points
from loadtest.arrivals.pump import Limits, Pump
from loadtest.outcomes import Mark, Outcome, Record, Timeline
from loadtest.scenarios import SCENARIOS, Scenario, Stage


class Collected:
    """Keeps outcomes as a timeline."""

    def __init__(self) -> None:
        self.timeline = Timeline()
        self._offset_s = wall_offset_s()

    def record(self, outcome: Outcome) -> None:
        """One more."""
        self.timeline.add(int(outcome.began_s + self._offset_s), outcome)

    def note(self, scenario: str, text: str) -> None:
        """Something that happened now."""
        self.timeline.marks.append(Mark(int(time.time()), scenario, text))


class Generator:
    """Load for a block: it is prepared when that begins, and cleared up when it ends."""

    def __init__(
        self,
        names: Iterable[str],
        settings: Settings,
        record: Record,
        note: Callable[[str, str], None],
        limits: Limits | None = None,
        spacing: Spacing = Spacing.RANDOM,
    ) -> None:
        self._names = sorted(names)
        self._stage = Stage(settings, record, note)
        self._limits = limits or Limits()
        self._spacing = spacing
        self._scenarios: dict[str, Scenario] = {}
        self._pumps: dict[str, Pump] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        try:
            for name in self._names:
                scenario = SCENARIOS[name](self._stage)
                await scenario.prepare()
                self._scenarios[name] = scenario
                self._pumps[name] = pump = self._pump(scenario)
                self._running.add(asyncio.create_task(pump.run(), name=f"pump of {name}"))
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def set_rates(self, rates: Mapping[str, float]) -> None:
        """So many arrivals a second of each scenario from now on; of those that are not named, as many as before."""
        for name, rate in rates.items():
            self._pumps[name].set_rate(rate)

    @property
    def outstanding(self) -> int:
        """Arrivals under way."""
        return sum(pump.outstanding for pump in self._pumps.values())

    async def failure(self) -> None:
        """Raises what keeps a scenario from going on, when that happens; waits for it."""
        waited: list[asyncio.Future[None]] = [scenario.failed for scenario in self._scenarios.values()]
        done, _ = await asyncio.wait([*waited, *self._running], return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()

    async def finish(self) -> None:
        """No more arrivals; returns when every one of them has its outcome."""
        await asyncio.gather(*(pump.finish() for pump in self._pumps.values()))

    async def close(self) -> None:
        """Ends everything, and removes what was made only for this run."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running)
        for pump in self._pumps.values():
            await pump.close()
        try:
            for scenario in self._scenarios.values():
                await scenario.close()
        finally:
            await self._stage.close()

    def _pump(self, scenario: Scenario) -> Pump:
        seed = f"{self._stage.settings.seed} {scenario.name}"
        flow = Flow(points(self._spacing, random.Random(f"{seed} arrivals")))
        draw = random.Random(f"{seed} draws")
        return Pump(scenario.name, flow, scenario.serve, self._stage.record, draw, self._limits)


def wall_offset_s() -> float:
    """What to add to the event loop's time for seconds since the epoch."""
    return time.time() - asyncio.get_running_loop().time()
