"""Takes over by itself what nobody owns: which tenures a broker begins, and when it gives up waiting for its turn.

It acts on the chart's news alone: a segment that appears, an owner that goes, a broker that comes or goes. What others
own is only known, and costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Generic, Self

from metastore.coordination import Backoff
from txn.hosting.chart import Chart
from txn.hosting.tenure import Means, Phase, ServedT, Tenure
from txn.segment.bell import Bell


class Takeover(Generic[ServedT]):
    """The tenures of a broker. `run` begins them; they end with the `async with` block at the latest."""

    def __init__(self, means: Means[ServedT], chart: Chart, bell: Bell) -> None:
        self._means = means
        self._chart = chart
        self._bell = bell
        """Rung when a tenure has come further, or has ended."""
        self._tenures: dict[str, Tenure[ServedT]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._backoffs: dict[str, Backoff] = {}
        """Of segments of which a tenure here has failed. After a quiet while a pause is a first one again."""
        self._ending: set[Tenure[ServedT]] = set()
        self._is_closing = False
        self.begun = 0
        """How often one of them has come so far as to serve."""

    def find(self, segment: str) -> ServedT | None:
        """The segment, if it is served here."""
        tenure = self._tenures.get(segment)
        return None if tenure is None else tenure.served

    def served(self) -> Mapping[str, ServedT]:
        """All segments that are served here."""
        return {name: each.served for name, each in self._tenures.items() if each.served is not None}

    def hurry(self, segment: str) -> None:
        """Somebody here wants a segment that nobody has: the turn of others is not waited for."""
        tenure = self._tenures.get(segment)
        if tenure is not None:
            tenure.hurry()

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            news = await self._chart.news()
            unowned = self._chart.descriptors.keys() - self._chart.owners.keys() if news.has_other_brokers else ()
            for segment in {*news.segments, *unowned}:
                self._review(segment)

    def _review(self, segment: str) -> None:
        """Begins a tenure, or ends one, if the chart asks for it."""
        ahead = None if self._is_closing else self._chart.standing(segment, self._means.broker)
        tenure, descriptor = self._tenures.get(segment), self._chart.descriptors.get(segment)
        if tenure is None:
            if ahead is not None:
                self._begin(segment, ahead)
            elif descriptor is None:
                self._backoffs.pop(segment, None)
        elif (tenure.phase is Phase.WAITING and tenure.ahead != ahead) or (
            # A segment on its way out is deleted under another term, for this one has opened its log.
            tenure.phase in (Phase.OPENING, Phase.SERVING) and (descriptor is None or descriptor.is_deleting)
        ):
            self._end(tenure)

    def _end(self, tenure: Tenure[ServedT]) -> None:
        """Once: a second cancellation would meet it while it closes what it has opened."""
        if tenure not in self._ending:
            self._ending.add(tenure)
            self._tasks[tenure.segment].cancel()

    def _begin(self, segment: str, ahead: int) -> None:
        tenure = Tenure(self._means, segment, ahead, self._backoffs.get(segment), self._progressed)
        task = asyncio.ensure_future(tenure.run())
        self._tenures[segment], self._tasks[segment] = tenure, task
        task.add_done_callback(lambda _: self._ended(tenure))

    def _progressed(self, tenure: Tenure[ServedT]) -> None:
        self._bell.ring()
        self.begun += tenure.phase is Phase.SERVING
        if tenure.phase is Phase.OPENING:
            self._review(tenure.segment)  # what it has read may be older than what the chart says by now

    def _ended(self, tenure: Tenure[ServedT]) -> None:
        segment = tenure.segment
        del self._tenures[segment], self._tasks[segment]
        self._ending.discard(tenure)
        if tenure.failure is not None:
            self._backoffs.setdefault(segment, Backoff(self._means.pace))
        self._bell.ring()
        self._review(segment)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closing = True
        tasks = list(self._tasks.values())
        for tenure in list(self._tenures.values()):
            self._end(tenure)
        await asyncio.gather(*tasks, return_exceptions=True)
