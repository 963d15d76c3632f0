"""Reads of many callers, put together: each batch costs one sync, and what several ask for is asked for once."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from metastore.providers.zookeeper.limits import BATCHES_IN_FLIGHT_MAX, READS_PER_BATCH_MAX

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.5


class Cut(Exception):
    """The connection was lost while a request was under way."""


class Read(NamedTuple):
    """The data of a znode, or the names of its children."""

    path: str
    is_list: bool = False
    watch: Callable[[object], None] | None = None
    """Called once, in a thread of kazoo's, when this has changed or the connection is lost."""


@dataclass(eq=False, slots=True)
class _Call:
    reads: Sequence[Read]
    answers: asyncio.Future[list[Any]]

    def succeed(self, answers: list[Any]) -> None:
        if not self.answers.done():
            self.answers.set_result(answers)

    def fail(self, error: Exception) -> None:
        if not self.answers.done():
            self.answers.set_exception(error)


class ReadBatches:
    """Sends batches of reads, a few at a time, until each has succeeded or nobody waits for it."""

    def __init__(self, send: Callable[[Sequence[Read]], Awaitable[list[Any]]]) -> None:
        self._send = send
        """Reads in this order, all in one session of ZooKeeper's; raises Cut where that cannot be had."""
        self._waiting: deque[_Call] = deque()
        self._batches: set[asyncio.Task[None]] = set()

    async def read(self, reads: Sequence[Read]) -> list[Any]:
        """The answers. The first read comes before all others, which may come in several batches."""
        chunks = [reads[start : start + READS_PER_BATCH_MAX] for start in range(0, len(reads), READS_PER_BATCH_MAX)]
        answers = list(await self._ask(chunks[0])) if chunks else []
        for more in await asyncio.gather(*map(self._ask, chunks[1:])):
            answers += more
        return answers

    async def drain(self) -> None:
        """Waits until nothing is under way any more; for when what sends refuses to."""
        while self._batches:
            await asyncio.wait(self._batches)

    def _ask(self, reads: Sequence[Read]) -> asyncio.Future[list[Any]]:
        call = _Call(reads, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        self._start()
        return call.answers

    def _start(self) -> None:
        if self._waiting and len(self._batches) < BATCHES_IN_FLIGHT_MAX:
            batch = asyncio.create_task(self._run())
            self._batches.add(batch)
            batch.add_done_callback(self._end)

    def _end(self, batch: asyncio.Task[None]) -> None:
        self._batches.discard(batch)
        self._start()

    async def _run(self) -> None:
        calls = self._take()
        pause_s = FIRST_PAUSE_S
        while calls := [call for call in calls if not call.answers.done()]:
            # What one call wants first may be what another wants behind something else: then it is read twice.
            firsts = list(dict.fromkeys(call.reads[0] for call in calls))
            others = list(dict.fromkeys(read for call in calls for read in call.reads[1:]))
            try:
                answers = await self._send([*firsts, *others])
            except Cut:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            except Exception as error:
                for call in calls:
                    call.fail(error)
            else:
                first = dict(zip(firsts, answers[: len(firsts)], strict=True))
                other = dict(zip(others, answers[len(firsts) :], strict=True))
                for call in calls:
                    call.succeed([first[call.reads[0]], *[other[read] for read in call.reads[1:]]])

    def _take(self) -> list[_Call]:
        """The calls that have waited longest, as many as fit into a batch."""
        calls: list[_Call] = []
        size = 0
        while self._waiting and size + len(self._waiting[0].reads) <= READS_PER_BATCH_MAX:
            calls.append(self._waiting.popleft())
            size += len(calls[-1].reads)
        return calls
