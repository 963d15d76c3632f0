"""Reads of many callers in common batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from metastore.interface import AccessDenied
from metastore.providers.zookeeper.batching import Cut, Read, ReadBatches
from metastore.providers.zookeeper.limits import BATCHES_IN_FLIGHT_MAX, READS_PER_BATCH_MAX


class Server:
    """Answers each read with how many were read before it."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.accidents: list[Exception] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._reads = 0

    async def send(self, reads: Sequence[Read]) -> list[Any]:
        self.batches.append([read.path for read in reads])
        await self.gate.wait()
        if self.accidents:
            raise self.accidents.pop(0)
        answers = []
        for read in reads:
            answers.append((read.path, self._reads))
            self._reads += 1
        return answers


def run(scenario: Callable[[Server, ReadBatches], Awaitable[None]]) -> None:
    async def with_a_server() -> None:
        server = Server()
        await scenario(server, ReadBatches(server.send))

    asyncio.run(with_a_server())


def reads(*paths: str) -> list[Read]:
    return [Read(path) for path in paths]


async def make_busy(server: Server, batches: ReadBatches) -> list[asyncio.Future[list[Any]]]:
    """As many batches as may be under way."""
    server.gate.clear()
    busy: list[asyncio.Future[list[Any]]] = []
    while len(busy) < BATCHES_IN_FLIGHT_MAX:
        busy.append(asyncio.ensure_future(batches.read(reads(f"busy{len(busy)}"))))
        while len(server.batches) < len(busy):
            await asyncio.sleep(0)
    return busy


def test_what_waits_goes_together_and_is_asked_for_once() -> None:
    async def scenario(server: Server, batches: ReadBatches) -> None:
        busy = await make_busy(server, batches)
        waiting = [asyncio.ensure_future(batches.read(reads("head", f"r{number}"))) for number in range(3)]
        await asyncio.sleep(0)
        server.gate.set()
        await asyncio.gather(*busy)
        answers = await asyncio.gather(*waiting)
        assert server.batches[BATCHES_IN_FLIGHT_MAX:] == [["head", "r0", "r1", "r2"]]
        assert [[path for path, _ in answer] for answer in answers] == [["head", f"r{n}"] for n in range(3)]

    run(scenario)


def test_the_first_read_of_a_call_comes_before_its_others_whoever_else_asks_for_them() -> None:
    async def scenario(server: Server, batches: ReadBatches) -> None:
        busy = await make_busy(server, batches)
        calls = [("x", "y"), ("head", "x"), ("y", "x"), ("head", "y")]
        waiting = [asyncio.ensure_future(batches.read(reads(*paths))) for paths in calls]
        await asyncio.sleep(0)
        server.gate.set()
        await asyncio.gather(*busy)
        for (_, first), *others in await asyncio.gather(*waiting):
            assert all(first < other for _, other in others)

    run(scenario)


def test_long_calls_are_cut_and_begin_with_their_first_read() -> None:
    async def scenario(server: Server, batches: ReadBatches) -> None:
        paths = [f"p{number}" for number in range(3 * READS_PER_BATCH_MAX + 1)]
        answers = await batches.read(reads(*paths))
        assert [path for path, _ in answers] == paths
        assert min(answers, key=lambda answer: answer[1])[0] == "p0"
        assert max(map(len, server.batches)) == READS_PER_BATCH_MAX
        assert await batches.read([]) == []

    run(scenario)


def test_a_batch_that_was_cut_is_read_again_as_a_whole() -> None:
    async def scenario(server: Server, batches: ReadBatches) -> None:
        server.accidents = [Cut("once"), Cut("twice")]
        assert [path for path, _ in await batches.read(reads("a", "b"))] == ["a", "b"]
        assert server.batches == [["a", "b"]] * 3

    run(scenario)


def test_what_nobody_waits_for_any_more_is_not_read_again() -> None:
    async def scenario(server: Server, batches: ReadBatches) -> None:
        server.gate.clear()
        server.accidents = [Cut("once")]
        reading = asyncio.ensure_future(batches.read(reads("a")))
        while not server.batches:
            await asyncio.sleep(0)
        reading.cancel()
        server.gate.set()
        await batches.drain()
        assert server.batches == [["a"]]

    run(scenario)


def test_a_failure_reaches_its_caller() -> None:
    async def scenario(server: Server, batches: ReadBatches) -> None:
        server.accidents = [AccessDenied("no")]
        with pytest.raises(AccessDenied):
            await batches.read(reads("a"))
        assert [path for path, _ in await batches.read(reads("a"))] == ["a"]

    run(scenario)
