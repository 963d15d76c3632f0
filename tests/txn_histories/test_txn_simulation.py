"""Random histories of brokers, clients, faults and time, judged: on 1, 4 and 8 shards, with `transact` and without.

TIDEMARK_TXN_ROUNDS is the number of simulations of each kind, by default 1; each takes a few seconds. A simulation is
named by its seed, and takes the same course each time: TIDEMARK_TXN_SEED is the first one.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from txn_histories.checker import report
from txn_histories.simulation import Plan, simulate

ROUNDS = int(os.environ.get("TIDEMARK_TXN_ROUNDS", "1"))
FIRST_SEED = int(os.environ.get("TIDEMARK_TXN_SEED", "0"))
KINDS = {
    "1 shard": (1, ()),
    "4 shards": (4, ()),
    "8 shards": (8, ()),
    "plain 1 shard": (1, ("transact",)),
    "plain 8 shards": (8, ("transact", "every_change", "index_order")),
}


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS))
@pytest.mark.parametrize("kind", KINDS)
def test_a_simulation_has_no_violations(kind: str, seed: int) -> None:
    shards, lacks = KINDS[kind]
    plan = Plan(seed, shards, lacks)
    findings = asyncio.run(simulate(plan))
    print(f"{plan}: {report(findings)}")
    assert not findings.violations, f"{plan}:\n{report(findings)}"
    assert findings.counts["messages"] > 0
