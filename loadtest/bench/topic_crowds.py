"""Many topics on one broker: what each takes of its memory, and what all of them take of the processors when idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

from loadtest.bench import proc
from loadtest.bench.bench import Bench, Group
from loadtest.bench.model import AtMost, Better, Line, Metric, Sample, Turn
from loadtest.bench.topic_stage import SIDE, Application, Stage, staged

GROUP = "topics-idle"
CREATED_AT_ONCE = 32
IDLE_BOUND_PERCENT = 3.0
KIBI = 1 << 10


class Crowd(Application):
    """Topics that nobody uses."""

    def __init__(self, stage: Stage, topics: int, idle_s: float) -> None:
        super().__init__(stage.url)
        self._idle_s = idle_s
        self._store = stage.store
        (self._broker,) = stage.brokers
        self._topics = topics
        self._created: Sample = {}

    def create(self) -> None:
        """All topics; each is led, and its segment served, when this returns."""
        self._broker.settle()
        before = proc.memory_of(self._broker.pid).private
        began_s = time.perf_counter()
        self.run(self._create())
        rate = self._topics / (time.perf_counter() - began_s)
        self._store.settle()
        self._broker.settle()
        taken = proc.memory_of(self._broker.pid).private - before
        self._created = {"created": rate, "memory_kib": taken / self._topics / KIBI}

    async def _create(self) -> None:
        numbers = iter(range(self._topics))

        async def create() -> None:
            for number in numbers:
                await self.client.topics.create(f"idle-{number:05d}")
                await self.led(f"idle-{number:05d}")

        await asyncio.gather(*(create() for _ in range(CREATED_AT_ONCE)))

    def idle(self, turn: Turn) -> Sample:
        """What the processes do while there is nothing to be done; this one stands still as well."""
        del turn  # a processor's time is counted in coarse steps
        servers = {"broker_percent": self._broker, "store_percent": self._store}
        before = {key: proc.cpu_seconds_of(server.pid) for key, server in servers.items()}
        began_s = time.perf_counter()
        time.sleep(self._idle_s)
        elapsed_s = time.perf_counter() - began_s
        used = {key: proc.cpu_seconds_of(server.pid) - before[key] for key, server in servers.items()}
        return {**self._created, **{key: 100 * seconds / elapsed_s for key, seconds in used.items()}}


def group(topics: int, idle_s: float) -> Group[Crowd]:
    """The group of this line."""
    idle = (AtMost(IDLE_BOUND_PERCENT),)
    line = Line(
        f"topics-{topics}",
        f"{topics:,} topics:",
        (
            Metric("created", f"created and led, {CREATED_AT_ONCE} at a time", "topics/s", Better.HIGHER),
            Metric("memory_kib", "broker's private memory for each", "KiB", Better.LOWER),
            Metric("broker_percent", "broker, idle", "% of a processor", Better.LOWER, idle),
            Metric("store_percent", "metastore, idle", "% of a processor", Better.LOWER, idle),
        ),
        Crowd.idle,
        Crowd.create,
        is_slow=True,
    )
    opening = partial(_open, topics=topics, idle_s=idle_s)
    return Group(GROUP, "Many topics of one segment on one broker", (SIDE,), [line], opening)


@contextmanager
def _open(bench: Bench, topics: int, idle_s: float) -> Iterator[Mapping[str, Crowd]]:
    with ExitStack() as stack:
        stage = stack.enter_context(staged(bench, GROUP, flags=()))
        crowd = Crowd(stage, topics, idle_s)
        stack.callback(crowd.close)
        yield {SIDE: crowd}
