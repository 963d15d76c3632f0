"""All of a soak, from beginning to end."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

from soak.epochs import LOGS, OF_ALL, Epoch, Epochs, topics_url
from soak.grounds import Considerate, Grounds, SoakServer
from soak.leaks import Figures, Process
from topics_end_to_end.whole_cluster import Cluster, brokers_on
from topics_end_to_end.whole_plan import WholePlan

TROUBLED_PART = 0.6
EPOCHS_MAX = 10_000
AUDIT_WITHIN_S = 300.0


@dataclass
class Soaked:
    """What came of it."""

    counts: Counter[str] = field(default_factory=Counter)
    figures: Figures = field(default_factory=Figures)

    def report(self) -> str:
        counted = "\n".join(f"{what}: {count:,}" for what, count in sorted(self.counts.items()))
        return f"{counted}\n{self.figures.report()}"


@asynccontextmanager
async def stage() -> AsyncIterator[tuple[Grounds, Cluster]]:
    """The processes."""
    with SoakServer() as server:
        grounds = Grounds(server)
        kill = partial(Considerate(grounds).restart, "kill")
        async with brokers_on(topics_url(grounds), WholePlan(LOGS, OF_ALL), kill) as cluster:
            yield grounds, cluster


async def soak(minutes: float, first_epoch: int) -> Soaked:
    """Epochs for so long, the last part of them calm; raises the first thing that is wrong."""
    soaked = Soaked()
    began_s = time.monotonic()
    async with stage() as (grounds, cluster):
        epochs = Epochs(grounds, cluster)
        for number in range(first_epoch, first_epoch + EPOCHS_MAX):
            spent = (time.monotonic() - began_s) / 60 / minutes
            if spent >= 1:
                break
            is_calm = spent >= TROUBLED_PART
            counts = await epochs.run(Epoch(number, is_calm))
            soaked.counts.update(counts)
            soaked.counts["calm epochs"] += is_calm
            print(f"epoch {number}, {'calm' if is_calm else 'troubled'}, {spent:.0%} of the time: {dict(counts)}")
            if is_calm:
                for process in processes(grounds, cluster):
                    soaked.figures.take(process)
        soaked.counts["kills of the metadata service"] = grounds.kills
        soaked.counts["violations of the audit"] = await audit(topics_url(grounds))
    return soaked


def processes(grounds: Grounds, cluster: Cluster) -> list[Process]:
    """All there are, by names that stay."""
    brokers = [Process(f"broker {n}", each.pid, each.directory) for n, each in enumerate(cluster.brokers)]
    return [Process("metastore", grounds.server.process.pid, grounds.server.data_directory), *brokers]


async def audit(url: str) -> int:
    """What the audit of all transaction records finds, with Spark."""
    command = (sys.executable, "-m", "metastore.commandline", "audit", "run", "--store", url, "--json")
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(AUDIT_WITHIN_S):
        told, errors = await process.communicate()
    assert process.returncode in (0, 1), errors.decode()
    rows = [json.loads(line) for line in told.splitlines()]
    assert process.returncode == 0, f"{rows}\n{errors.decode()}"
    return 0
