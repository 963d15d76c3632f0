"""The watch contract over a real Oxia: watches made of notifications and reads, over lines that break, and restarts."""

from __future__ import annotations

import asyncio
import os
from collections import Counter

import pytest

from peers.oxia import oxia_server
from watch_contract.coalesced_stage import CoalescedStage
from watch_contract.line import Line
from watch_contract.stage import Plan
from watch_contract.troubles import Troubles, opener
from watch_contract.verdict import report

RUNS = int(os.environ.get("TIDEMARK_WATCH_ROUNDS", "1"))
KILLS, BREAKS = 2, 5


@pytest.mark.peers
@pytest.mark.timeout(120 + 90 * RUNS)
@pytest.mark.parametrize("shards", [1, 8])
def test_watchers_of_a_real_oxia_miss_nothing_that_lasts(shards: int) -> None:
    """Several changes of a record may come as one; every one that comes is true, in order, and the last one comes.

    A token may be found not to say enough, and previous values cannot be resumed with, so nobody asks for them. Nor do
    ephemeral records have index entries: an Oxia leaves those behind (docs/upstream-faults.md).
    """
    counts = Counter[str]()

    async def run(seed: int) -> None:
        with oxia_server(shards, "hierarchical") as server:
            async with Line(server.port) as line:
                troubles = Troubles(server, line, seed, KILLS, BREAKS)
                plan = Plan(
                    seed,
                    shards,
                    rounds=400,
                    least={"changes": 10, "resumes": 3},
                    retention_ms=0,
                    may_ask_previous=False,
                    indexes_ephemerals=False,
                )
                stage = CoalescedStage(plan, opener(server.address), opener(line.address))
                findings = await stage.run(troubles.make)
                assert not findings.violations, f"seed {seed}: {report(findings)}"
                counts.update(findings.counts, kills=troubles.kills, breaks=line.breaks)

    for seed in range(100 * shards, 100 * shards + RUNS):
        asyncio.run(run(seed))
    print(dict(counts))
    assert counts["kills"] == KILLS * RUNS
    assert counts["breaks"] == BREAKS * RUNS
    assert counts["changes"] >= 10 * RUNS
    assert counts["resumes"] >= 3 * RUNS
    assert counts["snapshots"] >= Plan.watchers * RUNS  # each watcher has to begin with one
