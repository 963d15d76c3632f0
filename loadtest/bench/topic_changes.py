"""Topics that change under load: how long a producer waits while its segment is split, or while its broker is dead."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

from controller.client import Producer
from controller.topics.errors import OperationUnderWay
from loadtest.bench.bench import Bench, Group
from loadtest.bench.figures import percentile
from loadtest.bench.model import BenchError, Better, Line, Metric, Sample, Summary, Turn
from loadtest.bench.servers import Server
from loadtest.bench.topic_rates import PAYLOAD
from loadtest.bench.topic_stage import PATIENCE_S, SIDE, STILL, Application, Stage, staged
from txn.model.errors import TxnRetriable

GROUP = "topics-changes"
BROKERS = 2
SESSION_TIMEOUT_MS = 2_000
"""The least that brokers take."""
PRODUCERS = 4
KEYS_OF_EACH = 8
"""Each key has one message under way."""
SETTLED_S = 0.1
"""Of load before and behind what is measured."""


class Pauses:
    """Keeps a producer busy, a message of each key after the other, and knows its longest wait."""

    def __init__(self, producer: Producer, number: int) -> None:
        self._producer = producer
        self._keys = [f"producer-{number}-key-{key}" for key in range(KEYS_OF_EACH)]
        self.longest_s = 0.0
        self.confirmed = 0

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for key in self._keys:
                tasks.create_task(self._send(key))

    async def _send(self, key: str) -> None:
        while True:
            began_s = time.perf_counter()
            await self._producer.send(PAYLOAD, key=key)
            self.longest_s = max(self.longest_s, time.perf_counter() - began_s)
            self.confirmed += 1


class Changing(Application):
    """A client of two brokers, of which one is killed now and then."""

    def __init__(self, stage: Stage, splits: int) -> None:
        super().__init__(stage.url)
        self._brokers = {each.address: each for each in stage.brokers}
        self._splits = splits
        self._topics = 0

    # -- splits

    def split(self, turn: Turn) -> Sample:
        """Each time a topic of one segment, so that all its producers have to move; and as long without a split."""
        del turn  # the work has a size of its own
        return self.run(self._split_often())

    async def _split_often(self) -> Sample:
        pauses: list[float] = []
        calm: list[float] = []
        calls: list[float] = []
        for _ in range(self._splits):
            topic = await self._fresh_topic(1)
            producers = [await self.client.producer(topic) for _ in range(PRODUCERS)]
            before, after, call_ms = await self._split_under_load(topic, producers)
            calm += before
            pauses += after
            calls.append(call_ms)
            await asyncio.gather(*(each.close() for each in producers))
        return {
            "p99_ms": percentile(sorted(pauses), 0.99),
            "p50_ms": percentile(sorted(pauses), 0.50),
            "calm_p99_ms": percentile(sorted(calm), 0.99),
            "call_ms": percentile(sorted(calls), 0.50),
        }

    async def _split_under_load(self, topic: str, producers: list[Producer]) -> tuple[list[float], list[float], float]:
        """The longest waits of the producers, in ms: before the split, and over it; and how long the call took."""
        loads = [Pauses(producer, number) for number, producer in enumerate(producers)]
        tasks = [asyncio.create_task(load.run()) for load in loads]
        try:
            await self._have_confirmed(loads)  # streams are opened
            self._reset(loads)
            await asyncio.sleep(2 * SETTLED_S)
            calm = [1000 * load.longest_s for load in loads]
            self._reset(loads)
            began_s = time.perf_counter()
            state = await self.client.topics.split(topic, 0)
            call_ms = 1000 * (time.perf_counter() - began_s)
            if len(state.layout.active) != 2:
                raise BenchError(f"{topic} has {len(state.layout.active)} segments after a split")
            await self._have_confirmed(loads)
            await asyncio.sleep(SETTLED_S)
        finally:
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome
        return calm, [1000 * load.longest_s for load in loads], call_ms

    @staticmethod
    def _reset(loads: list[Pauses]) -> None:
        for load in loads:
            load.longest_s = 0.0

    @staticmethod
    async def _have_confirmed(loads: list[Pauses]) -> None:
        """Returns when each producer has had confirmations for all that was under way, and for what came then."""
        wanted = {load: load.confirmed + 2 * KEYS_OF_EACH for load in loads}
        async with asyncio.timeout(PATIENCE_S):
            while any(load.confirmed < count for load, count in wanted.items()):
                await asyncio.sleep(SETTLED_S / 10)

    # -- the death of a leader

    def fail_over(self, turn: Turn) -> Sample:
        """Kills the leader; then splits by the other one, and sends, until that has succeeded."""
        del turn  # the work has a size of its own
        topic, killed = self.run(self._choose())
        killed.kill()
        try:
            return self.run(self._go_on(topic))
        finally:
            killed.start()

    async def _choose(self) -> tuple[str, Server]:
        topic = await self._fresh_topic(2)
        state = await self.led(topic)
        assert state.leader is not None, "it was waited for"
        return topic, self._brokers[state.leader.address]

    async def _go_on(self, topic: str) -> Sample:
        began_s = time.perf_counter()
        split_s, written_s = await asyncio.gather(self._split(topic), self._write(topic))
        return {"split_s": split_s - began_s, "written_s": written_s - began_s}

    async def _split(self, topic: str) -> float:
        segments = 2
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    state = await self.client.topics.split(topic, 0)
                except (OperationUnderWay, TxnRetriable):
                    state = await self.client.topics.describe(topic)
                if len(state.layout.active) > segments:
                    return time.perf_counter()

    async def _write(self, topic: str) -> float:
        """A message to every segment."""
        async with await self.client.producer(topic) as producer:
            await asyncio.gather(*(producer.send(PAYLOAD, key=f"key-{number}") for number in range(KEYS_OF_EACH)))
            return time.perf_counter()

    async def _fresh_topic(self, segments: int) -> str:
        self._topics += 1
        topic = f"changing-{self._topics}"
        await self.client.topics.create(topic, segments=segments)
        await self.led(topic)
        return topic


def group(splits: int) -> Group[Changing]:
    """The group of these lines."""
    load = f"{PRODUCERS} producers with {KEYS_OF_EACH} keys each"
    split = Line(
        "split-under-load",
        f"{splits} splits under {load}:",
        (
            Metric("p99_ms", "a producer's longest wait, p99", "ms", Better.LOWER, summary=Summary.WORST),
            Metric("p50_ms", "a producer's longest wait, p50", "ms", Better.LOWER),
            Metric("calm_p99_ms", "the same without a split, p99", "ms", Better.LOWER),
            Metric("call_ms", "the call itself, p50", "ms", Better.LOWER),
        ),
        Changing.split,
        is_slow=True,
    )
    failover = Line(
        "leader-failover",
        f"leader killed, session timeout {SESSION_TIMEOUT_MS / 1000:g} s:",
        (
            Metric("split_s", "until a split has succeeded", "s", Better.LOWER),
            Metric("written_s", "until messages are stored", "s", Better.LOWER),
        ),
        Changing.fail_over,
        is_slow=True,
    )
    title = f"Topics that change: {BROKERS} broker processes"
    return Group(GROUP, title, (SIDE,), [split, failover], partial(_open, splits=splits))


@contextmanager
def _open(bench: Bench, splits: int) -> Iterator[Mapping[str, Changing]]:
    with ExitStack() as stack:
        flags = (*STILL, "--session-timeout-ms", str(SESSION_TIMEOUT_MS))
        stage = stack.enter_context(staged(bench, GROUP, flags, BROKERS))
        changing = Changing(stage, splits)
        stack.callback(changing.close)
        yield {SIDE: changing}
