"""Random lives of topics, judged: on 1, 4 and 8 shards, with `transact` and without.

TIDEMARK_TOPIC_ROUNDS is the number of simulations of each kind, by default 1; each takes about a second. A simulation
is named by its number, which says its kind as well, and takes the same course each time, as far as the order of sets
does (PYTHONHASHSEED): TIDEMARK_TOPIC_SEED is the first one.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from topics_simulation.topic_simulation import TopicPlan, simulate_topics
from txn_histories.checker import report

ROUNDS = int(os.environ.get("TIDEMARK_TOPIC_ROUNDS", "1"))
FIRST_SEED = int(os.environ.get("TIDEMARK_TOPIC_SEED", "0"))
KINDS: list[tuple[int, tuple[str, ...]]] = [
    (1, ()),
    (4, ()),
    (1, ("transact",)),
    (8, ("transact", "every_change", "index_order")),
]
"""Shards, and what the store lacks."""


def plan_of(seed: int, steps: int = 60) -> TopicPlan:
    """The simulation of that number."""
    shards, lacks = KINDS[seed % len(KINDS)]
    return TopicPlan(seed, shards, lacks, steps)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS * len(KINDS)))
def test_a_simulation_of_topics_has_no_violations(seed: int) -> None:
    plan = plan_of(seed)
    findings = asyncio.run(simulate_topics(plan))
    print(f"{plan}: {report(findings)}")
    assert not findings.violations, f"{plan}:\n{report(findings)}"
    assert findings.counts["stored in topics"] > 0
    assert findings.counts["probes"] > 0


def test_the_same_plan_takes_the_same_course() -> None:
    first, second = (asyncio.run(simulate_topics(plan_of(FIRST_SEED, steps=30))) for _ in range(2))
    assert first.counts == second.counts
