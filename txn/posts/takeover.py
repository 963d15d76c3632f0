"""Takes over by itself what nobody owns: which tenures a broker begins, and when it gives up waiting for its turn.

It acts on the chart's news alone: a post that appears, a holder that goes, a broker that comes or goes. What others
have is only known, and costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import TracebackType
from typing import Generic, Self

from metastore.coordination import Backoff
from txn.posts.chart import Chart
from txn.posts.tenure import Means, Phase, ServedT, Tenure
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
        """Of posts of which a tenure here has failed. After a quiet while a pause is a first one again."""
        self._ending: set[Tenure[ServedT]] = set()
        self._is_closing = False
        self.begun = 0
        """How often one of them has come so far as to serve."""

    def find(self, post: str) -> ServedT | None:
        """The post, if it is served here."""
        tenure = self._tenures.get(post)
        return None if tenure is None else tenure.served

    def served(self) -> Mapping[str, ServedT]:
        """All posts that are served here."""
        return {name: each.served for name, each in self._tenures.items() if each.served is not None}

    def hurry(self, post: str) -> None:
        """Somebody here wants a post that nobody has: the turn of others is not waited for."""
        tenure = self._tenures.get(post)
        if tenure is not None:
            tenure.hurry()

    async def run(self) -> None:
        """Works until cancelled."""
        while True:
            news = await self._chart.news()
            unowned = self._chart.unowned() if news.has_other_brokers else ()
            for post in {*news.posts, *unowned}:
                self._review(post)

    def _review(self, post: str) -> None:
        """Begins a tenure, or ends one, if the chart asks for it."""
        ahead = None if self._is_closing else self._chart.standing(post, self._means.broker)
        tenure = self._tenures.get(post)
        if tenure is None:
            if ahead is not None:
                self._begin(post, ahead)
            elif not self._chart.exists(post):
                self._backoffs.pop(post, None)
        elif (tenure.phase is Phase.WAITING and tenure.ahead != ahead) or (
            tenure.phase in (Phase.OPENING, Phase.SERVING) and not self._chart.is_served(post)
        ):
            self._end(tenure)

    def _end(self, tenure: Tenure[ServedT]) -> None:
        """Once: a second cancellation would meet it while it closes what it has opened."""
        if tenure not in self._ending:
            self._ending.add(tenure)
            self._tasks[tenure.post].cancel()

    def _begin(self, post: str, ahead: int) -> None:
        tenure = Tenure(self._means, post, ahead, self._backoffs.get(post), self._progressed)
        task = asyncio.ensure_future(tenure.run())
        self._tenures[post], self._tasks[post] = tenure, task
        task.add_done_callback(lambda _: self._ended(tenure))

    def _progressed(self, tenure: Tenure[ServedT]) -> None:
        self._bell.ring()
        self.begun += tenure.phase is Phase.SERVING
        if tenure.phase is Phase.OPENING:
            self._review(tenure.post)  # what it has read may be older than what the chart says by now

    def _ended(self, tenure: Tenure[ServedT]) -> None:
        post = tenure.post
        del self._tenures[post], self._tasks[post]
        self._ending.discard(tenure)
        if tenure.failure is not None:
            self._backoffs.setdefault(post, Backoff(self._means.pace))
        self._bell.ring()
        self._review(post)

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
