"""The watch contract over a real service that is killed, with lines that break, and a log trimmed under watchers.

TIDEMARK_WATCH_ROUNDS is the number of runs of each kind, by default 1; each takes some seconds, most of them for
restarts. A run is named by its seed, which decides everything but when the processes get to run.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path

import pytest
from crash_server import SmallServer
from watch_contract_troubles import Troubles, opener

from support.server import ServerProcess
from watch_contract.line import Line
from watch_contract.stage import Plan, Stage
from watch_contract.verdict import report

RUNS = int(os.environ.get("TIDEMARK_WATCH_ROUNDS", "1"))
KILLS, BREAKS = 3, 6
RETENTION_MS = 100


async def run(server: ServerProcess, plan: Plan, is_settled: bool) -> Counter[str]:
    """The counts of a run without violations."""
    async with Line(server.port) as line:
        troubles = Troubles(server, line, plan.seed, KILLS, BREAKS, is_settled)
        stage = Stage(plan, opener(server.address), opener(line.address))
        findings = await stage.run(troubles.make)
        assert not findings.violations, f"seed {plan.seed}: {report(findings)}"
        return findings.counts + Counter({"kills": troubles.kills, "breaks": line.breaks})


@pytest.mark.timeout(120 + 60 * RUNS)
@pytest.mark.parametrize("shards", [1, 8])
def test_watchers_of_a_killed_server_see_everything_once(shards: int) -> None:
    counts = Counter[str]()
    for seed in range(1000 * shards, 1000 * shards + RUNS):
        with ServerProcess(shards) as server:
            counts += asyncio.run(run(server, Plan(seed, shards, rounds=90), is_settled=False))
    print(dict(counts))
    assert counts["kills"] == KILLS * RUNS
    assert counts["breaks"] >= RUNS
    assert counts["changes"] >= 500 * RUNS
    assert counts["resumes"] >= 8 * RUNS


@pytest.mark.timeout(120 + 60 * RUNS)
def test_watchers_of_a_server_that_trims_are_told_what_they_missed(tmp_path: Path) -> None:
    """The witness has to see everything, so the server is killed when that has, and no write is under way."""
    counts = Counter[str]()
    for seed in range(500, 500 + RUNS):
        with SmallServer(1, extra_args=["--notifications-retention-time", f"{RETENTION_MS}ms"]) as server:
            plan = Plan(seed, 1, rounds=130, retention_ms=RETENTION_MS)
            counts += asyncio.run(run(server, plan, is_settled=True))
    print(dict(counts))
    assert counts["kills"] == KILLS * RUNS
    assert counts["changes"] >= 500 * RUNS
    assert counts["expiries"] >= RUNS
