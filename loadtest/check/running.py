"""From options to a report, and from what goes wrong to an exit code."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from controller.client import InvalidRequest as InvalidBrokerRequest
from loadtest.arrivals import run_precisely
from loadtest.bench.progress import Progress
from loadtest.check.evidence import Observer
from loadtest.check.measuring import Checked, measure, warm_up
from loadtest.check.profiles import chosen_sizes
from loadtest.check.report import Report
from loadtest.check.targets import kinds_of, metrics_of, opened, servers_of
from loadtest.check.works import Work
from metastore.clock import SystemClock
from metastore.commandline import EXIT_FAILURE, EXIT_SUCCESS, CommandError, UsageError
from metastore.interface import InvalidRequest, StoreError
from txn.model.errors import TxnError

CLEAR_WITHIN_S = 60.0
TICKS_A_PROFILE = 100


def perform(arguments: argparse.Namespace) -> int:
    """Checks every target; 0 if the smallest size that was asked for is passed everywhere."""
    interruption: list[signal.Signals] = []
    report = Report(sys.stdout, arguments.json)
    try:
        run_precisely(_interruptible(Check(arguments, report), interruption))
    except asyncio.CancelledError:
        print("tidemark: interrupted: what was written is removed", file=sys.stderr)
        return 128 + interruption[0]
    except (InvalidRequest, InvalidBrokerRequest) as error:
        raise UsageError(str(error)) from error
    except (StoreError, TxnError) as error:
        raise CommandError(str(error)) from error
    return EXIT_SUCCESS if report.passed else EXIT_FAILURE


async def _interruptible(check: Check, interruption: list[signal.Signals]) -> None:
    """Ctrl-C and SIGTERM cancel the work, and what clears it away still runs."""
    with _told_of_signals(interruption):
        await check.run()


@contextmanager
def _told_of_signals(interruption: list[signal.Signals]) -> Iterator[None]:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def interrupt(number: signal.Signals) -> None:
        if not interruption:  # once: a second one must not cut off what removes the traces
            interruption.append(number)
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, interrupt, number)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


class Check:
    """All works of all targets, one after the other."""

    def __init__(self, arguments: argparse.Namespace, report: Report) -> None:
        self._arguments = arguments
        self._report = report
        self._clock = SystemClock()
        self._sizes = chosen_sizes(arguments.profile)
        self._works = [(url, kind) for url in arguments.target for kind in kinds_of(url)]
        self._seconds = arguments.time / len(self._works) / len(self._sizes)
        self._progress = Progress(sys.stderr, self._clock)

    async def run(self) -> None:
        self._progress.expect(len(self._works) * len(self._sizes) * TICKS_A_PROFILE)
        for url, kind in self._works:
            async with opened(url, kind, self._arguments.prefix, self._arguments.discard, self._arguments.seed) as work:
                outcomes = await self._work(url, work)
            self._progress.finish()
            self._report.tell(url, work.kind, work.text, outcomes, self._sizes)

    async def _work(self, url: str, work: Work) -> list[Checked]:
        """The sizes in ascending order, up to the first that is too much."""
        observer = Observer(servers_of(url), self._arguments.metrics or metrics_of(url))
        numbers = itertools.count()
        outcomes: list[Checked] = []
        try:
            await work.prepare()
            await warm_up(work, numbers)
            for size in self._sizes:
                outcomes.append(await self._measure(work, numbers, size, observer))
                if not outcomes[-1].passed:
                    break
        finally:
            async with asyncio.timeout(CLEAR_WITHIN_S):
                await work.clear()
        return outcomes

    async def _measure(self, work: Work, numbers: Iterator[int], size: str, observer: Observer) -> Checked:
        ticks = 0

        def tell(seconds: float, answered: int) -> None:
            nonlocal ticks
            while ticks < min(1.0, seconds / self._seconds) * TICKS_A_PROFILE:
                self._progress.step(f"{work.kind}, profile {size}: {answered:,} answers")
                ticks += 1

        seed = self._arguments.seed
        return await measure(work, numbers, size, self._seconds, seed, observer, self._clock, tell)
