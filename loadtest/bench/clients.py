"""Programs' own ways to a store, driven by many callers at once: the contract's clients, and the stock one."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from loadtest.bench.figures import percentile
from loadtest.bench.model import BenchError, Sample, Turn
from loadtest.bench.settings import SMALL_RECORDS, VALUE_BYTES
from metastore.interface import MetadataStore, open_store

VALUE = bytes(VALUE_BYTES)
OPEN_LIMIT_S = 30.0


class Putter(Protocol):
    """What a side of a client line can do."""

    def put(self, callers: int, turn: Turn) -> Sample:
        """Lets so many callers put random keys, each one after the other, for the turn's time."""

    def close(self) -> None:
        """Frees the connections."""


def random_key(chance: random.Random) -> str:
    """One of the keys that all lines of the clients write."""
    return f"/client/{chance.randrange(SMALL_RECORDS):08d}"


def sample_of(waits_s: list[float], began_s: float) -> Sample:
    """The figures of a turn from the waiting time of each put."""
    if not waits_s:
        raise BenchError("not one put was answered within a turn")
    waits_ms = sorted(1000 * wait_s for wait_s in waits_s)
    return {
        "rate": len(waits_s) / (time.perf_counter() - began_s),
        "p50_ms": percentile(waits_ms, 0.50),
        "p99_ms": percentile(waits_ms, 0.99),
    }


class ContractPutter:
    """A store by its URL: all callers are tasks of one event loop."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        try:
            self._store: MetadataStore = self._runner.run(open_store(url))
        except BaseException:
            self._runner.close()
            raise

    def put(self, callers: int, turn: Turn) -> Sample:
        """Puts from so many tasks."""
        return self._runner.run(self._put(callers, turn))

    async def _put(self, callers: int, turn: Turn) -> Sample:
        waits_s: list[float] = []
        began_s = time.perf_counter()
        end_s = began_s + turn.seconds

        async def call(number: int) -> None:
            chance = random.Random(turn.number * callers + number)
            while (sent_s := time.perf_counter()) < end_s:
                await self._store.put(random_key(chance), VALUE)
                waits_s.append(time.perf_counter() - sent_s)

        async with asyncio.TaskGroup() as tasks:
            for number in range(callers):
                tasks.create_task(call(number))
        return sample_of(waits_s, began_s)

    def close(self) -> None:
        """Closes the store and its loop."""
        try:
            self._runner.run(self._store.close())
        finally:
            self._runner.close()


class StockPutter:
    """The stock Python client of Oxia, which blocks: each caller is a thread."""

    def __init__(self, address: str) -> None:
        try:
            import oxia
        except ImportError as error:
            raise BenchError(f"the stock client is not installed: {error}") from error
        self._client: Any = _within(OPEN_LIMIT_S, lambda: oxia.Client(address))

    def put(self, callers: int, turn: Turn) -> Sample:
        """Puts from so many threads."""
        waits_s: list[float] = []
        started = threading.Barrier(callers + 1)

        def call(number: int) -> None:
            chance = random.Random(turn.number * callers + number)
            started.wait()
            while (sent_s := time.perf_counter()) < end_s[0]:
                self._client.put(random_key(chance), VALUE)
                waits_s.append(time.perf_counter() - sent_s)

        end_s = [0.0]
        with ThreadPoolExecutor(callers) as pool:
            calls = [pool.submit(call, number) for number in range(callers)]
            began_s = time.perf_counter()
            end_s[0] = began_s + turn.seconds
            started.wait()
            for each in calls:
                each.result()
        return sample_of(waits_s, began_s)

    def close(self) -> None:
        """Closes the client."""
        self._client.close()


def _within(limit_s: float, action: Callable[[], Any]) -> Any:
    """What an action that may hang returns; an error if it takes too long."""
    outcome: list[Any] = []
    thread = threading.Thread(target=lambda: outcome.append(action()), name="stock-client", daemon=True)
    thread.start()
    thread.join(limit_s)
    if not outcome:
        raise BenchError(f"the stock client did not connect within {limit_s:g} s")
    return outcome[0]
