"""Transactions: through a broker process on a metastore process, and the recovery of a segment in this process."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from controller.client import EARLIEST, Client, SegmentProducer, connect
from controller.pb import broker_pb2 as pb
from loadtest.bench import recovery
from loadtest.bench.bench import Bench, Group
from loadtest.bench.figures import percentile
from loadtest.bench.model import AtLeast, AtMost, Better, Derived, Line, Lookup, Metric, Sample, Turn
from loadtest.bench.servers import Program, Server, tidemark
from loadtest.bench.settings import VALUE_BYTES, Settings
from loadtest.bench.workload import Probe

GROUP = "txn"
SIDE = "tidemark"
OPERATIONS = (1, 100, 10_000)
COMMITS_MIN = 10
"""Commits of one turn, however large they are."""
COMMIT_GROWTH_LIMIT = 1.5
THROUGHPUT_FLOOR = 0.4
RECOVERY_GROWTH_LIMIT = 1.3
MESSAGES_PER_TRANSACTION = 1_000
CLIENTS = (1, 64)
PAYLOAD = bytes(VALUE_BYTES)
PROBE = Probe("/tidemark.broker.v1.Broker/DescribeBroker", pb.DescribeBrokerRequest().SerializeToString())


def broker(store_address: str) -> Program:
    """Our broker, its segments in files."""

    def command(address: str, metrics_address: str, folder: Path) -> list[str]:
        python = [sys.executable, "-m", "metastore.commandline", "broker"]
        port = metrics_address.rpartition(":")[2]
        places = ["--store", f"oxia://{store_address}", "--data-dir", str(folder / "segments")]
        return [*python, *places, "--listen", address, "--metrics-port", port]

    return Program(SIDE, command, PROBE)


class Application:
    """A client in this process, and the producers that it has."""

    def __init__(self, address: str) -> None:
        self._runner = asyncio.Runner()
        self._client: Client = self._runner.run(connect(f"tidemark://{address}"))
        self._producers: dict[str, SegmentProducer] = {}

    async def _producer(self, topic: str) -> SegmentProducer:
        if topic not in self._producers:
            self._producers[topic] = await self._client.segment_producer(topic)
        return self._producers[topic]

    def _measured(self, work: Callable[[Turn], Awaitable[Sample]], turn: Turn) -> Sample:
        async def run() -> Sample:
            return await work(turn)

        return self._runner.run(run())

    # -- commits

    def commit(self, turn: Turn, operations: int) -> Sample:
        """Transactions of so many messages, one after the other; what is timed is the commit alone."""
        return self._measured(partial(self._commit, operations=operations), turn)

    async def _commit(self, turn: Turn, operations: int) -> Sample:
        producer = await self._producer("commits")
        waits_ms: list[float] = []
        end_s = time.perf_counter() + turn.seconds
        while len(waits_ms) < COMMITS_MIN or time.perf_counter() < end_s:
            txn = await self._client.begin()
            for _ in range(operations):
                producer.send(PAYLOAD, txn=txn)
            await producer.flush()
            began_s = time.perf_counter()
            await txn.commit()
            waits_ms.append(1000 * (time.perf_counter() - began_s))
        waits_ms.sort()
        return {"p50_ms": percentile(waits_ms, 0.50), "p99_ms": percentile(waits_ms, 0.99)}

    def see(self, turn: Turn) -> Sample:
        """From the call of a commit to the message's arrival at a reader."""
        return self._measured(self._see, turn)

    async def _see(self, turn: Turn) -> Sample:
        topic = f"seen-{turn.number}-{turn.is_warm_up}"
        producer = await self._producer(topic)
        waits_ms: list[float] = []
        async with await self._client.segment_reader(topic, start=EARLIEST) as reader:
            end_s = time.perf_counter() + turn.seconds
            while time.perf_counter() < end_s:
                txn = await self._client.begin()
                await producer.send(PAYLOAD, txn=txn)
                began_s = time.perf_counter()
                committing = asyncio.ensure_future(txn.commit())
                await reader.receive()
                waits_ms.append(1000 * (time.perf_counter() - began_s))
                await committing
        waits_ms.sort()
        return {"p50_ms": percentile(waits_ms, 0.50), "p99_ms": percentile(waits_ms, 0.99)}

    # -- throughput

    def publish(self, turn: Turn, is_transactional: bool) -> Sample:
        """Messages to one segment, as fast as they go, in transactions of a thousand or without."""
        return self._measured(partial(self._publish, is_transactional=is_transactional), turn)

    async def _publish(self, turn: Turn, is_transactional: bool) -> Sample:
        producer = await self._producer("published")
        began_s = time.perf_counter()
        sent = 0
        while time.perf_counter() - began_s < turn.seconds:
            if is_transactional:
                async with self._client.transaction() as txn:
                    for _ in range(MESSAGES_PER_TRANSACTION):
                        producer.send(PAYLOAD, txn=txn)
            else:
                await asyncio.gather(*(producer.send(PAYLOAD) for _ in range(MESSAGES_PER_TRANSACTION)))
            sent += MESSAGES_PER_TRANSACTION
        return {"rate": sent / (time.perf_counter() - began_s)}

    def transact(self, turn: Turn, clients: int) -> Sample:
        """Begin, a message to each of two segments, commit: by so many at once."""
        return self._measured(partial(self._transact, clients=clients), turn)

    async def _transact(self, turn: Turn, clients: int) -> Sample:
        producers = [await self._producer(topic) for topic in ("left", "right")]
        began_s = time.perf_counter()
        ended = 0

        async def work() -> None:
            nonlocal ended
            while time.perf_counter() - began_s < turn.seconds:
                async with self._client.transaction() as txn:
                    for producer in producers:
                        producer.send(PAYLOAD, txn=txn)
                ended += 1

        await asyncio.gather(*(work() for _ in range(clients)))
        return {"rate": ended / (time.perf_counter() - began_s)}

    def close(self) -> None:
        """Ends the client."""
        try:
            self._runner.run(self._client.close())
        finally:
            self._runner.close()


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """Transactions through a broker, and recovery."""
    title = "Transactions: a metastore process, a broker process, and the clients in this one"
    lines = [
        *map(_commit_line, OPERATIONS),
        _latency_line("visible", "commit to the message's arrival at a reader,", Application.see),
        _rate_line("publish-plain", "messages to one segment, outside transactions", False),
        _rate_line("publish-txn", f"the same in transactions of {MESSAGES_PER_TRANSACTION:,}", True),
        *map(_transact_line, CLIENTS),
    ]
    entries = [recovery.ENTRIES, 10 * recovery.ENTRIES] if settings.plan.sizes[-1] > recovery.ENTRIES else []
    recoveries = [_recovery_line(each) for each in entries]
    return [Group(GROUP, title, (SIDE,), lines, _open)] + (
        [Group(recovery.GROUP, recovery.TITLE, (SIDE,), recoveries, recovery.opened)] if recoveries else []
    )


def derived(_settings: Settings) -> Sequence[Derived]:
    """What must not grow, and what transactions may cost."""
    growing = [
        Derived(
            f"commit-{operations}-growth",
            f"commit after {operations:,} operations, p50, to after one",
            "x",
            Better.LOWER,
            partial(_ratio, over=(_commit_name(operations), "p50_ms"), under=(_commit_name(1), "p50_ms")),
            (AtMost(COMMIT_GROWTH_LIMIT),),
        )
        for operations in OPERATIONS[1:]
    ]
    throughput = Derived(
        "txn-throughput",
        "messages in transactions to messages outside",
        "x",
        Better.HIGHER,
        partial(_ratio_to_one, over=("publish-txn", "rate"), under=("publish-plain", "rate")),
        (AtLeast("plain", THROUGHPUT_FLOOR, 1.0),),
    )
    recovering = Derived(
        "recovery-growth",
        "recovery with ten times the history",
        "x",
        Better.LOWER,
        _recovery_growth,
        (AtMost(RECOVERY_GROWTH_LIMIT),),
    )
    return [*growing, throughput, recovering]


def _ratio(lookup: Lookup, over: tuple[str, str], under: tuple[str, str]) -> dict[str, float] | None:
    above, below = (lookup(f"{GROUP}/{line}", key) for line, key in (over, under))
    return None if above is None or below is None else {SIDE: above[SIDE].value / below[SIDE].value}


def _ratio_to_one(lookup: Lookup, over: tuple[str, str], under: tuple[str, str]) -> dict[str, float] | None:
    ratio = _ratio(lookup, over, under)
    return None if ratio is None else {**ratio, "plain": 1.0}


def _recovery_growth(lookup: Lookup) -> dict[str, float] | None:
    small, large = (
        lookup(f"{recovery.GROUP}/{recovery.name(entries)}", "p50_ms")
        for entries in (recovery.ENTRIES, 10 * recovery.ENTRIES)
    )
    return None if small is None or large is None else {SIDE: large[SIDE].value / small[SIDE].value}


def _commit_name(operations: int) -> str:
    return f"commit-{operations}"


def _commit_line(operations: int) -> Line[Application]:
    measure = partial(Application.commit, operations=operations)
    what = "operation" if operations == 1 else "operations"
    return _latency_line(_commit_name(operations), f"commit of {operations:,} {what},", measure)


def _latency_line(name: str, title: str, measure: Callable[[Application, Turn], Sample]) -> Line[Application]:
    metrics = (Metric("p50_ms", "p50", "ms", Better.LOWER), Metric("p99_ms", "p99", "ms", Better.LOWER))
    return Line(name, title, metrics, measure)


def _rate_line(name: str, title: str, is_transactional: bool) -> Line[Application]:
    metrics = (Metric("rate", "", "messages/s", Better.HIGHER),)
    return Line(name, title, metrics, partial(Application.publish, is_transactional=is_transactional))


def _transact_line(clients: int) -> Line[Application]:
    title = f"begin, two messages, commit, {clients} at once"
    metrics = (Metric("rate", "", "transactions/s", Better.HIGHER),)
    return Line(f"transact-{clients}", title, metrics, partial(Application.transact, clients=clients))


def _recovery_line(entries: int) -> Line[recovery.Segments]:
    title = f"a segment of {entries:,} entries, {recovery.OPEN:,} of open transactions, taken over,"
    return Line(
        recovery.name(entries),
        title,
        (Metric("p50_ms", "p50", "ms", Better.LOWER),),
        partial(recovery.Segments.recover, entries=entries),
        partial(recovery.Segments.fill, entries=entries),
        is_slow=True,
    )


@contextmanager
def _open(bench: Bench) -> Iterator[Mapping[str, Application]]:
    with ExitStack() as stack:
        folders = [stack.enter_context(bench.fresh_folder(f"{GROUP}-{what}")) for what in ("store", "broker")]
        store = stack.enter_context(Server(tidemark(), folders[0], bench.generator))
        serving = stack.enter_context(Server(broker(store.address), folders[1], bench.generator))
        application = Application(serving.address)
        stack.callback(application.close)
        yield {SIDE: application}
