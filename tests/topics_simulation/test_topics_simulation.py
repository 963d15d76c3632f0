"""Random lives of topics, judged: on 1, 4 and 8 shards, with `transact` and without.

TIDEMARK_TOPIC_ROUNDS is the number of simulations of each kind, by default 3; each takes about a second. A simulation
is named by its number, which says its kind as well, and takes the same course each time, as far as the order of sets
does (PYTHONHASHSEED): TIDEMARK_TOPIC_SEED is the first one.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from topics_simulation.topic_chaos import CHAOS, LOSSES, POINTS
from topics_simulation.topic_simulation import TopicPlan, simulate_topics
from txn_histories.checker import report
from txn_histories.totals import Totals

ROUNDS = int(os.environ.get("TIDEMARK_TOPIC_ROUNDS", "3"))
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


TOTALS = Totals()
COMMON_AFTER, ALL_AFTER = 12, 1_000
"""After so many simulations what is common must have happened; after so many everything that can."""
COMMON = (
    *("splits", "merges of two", "leaders", "committed", "aborted", "probes", "divisions"),
    *("members came", "members left", "members died", "members were replaced by their name"),
)
RARE = ("merges of several", "prunings", *CHAOS)


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS * len(KINDS)))
def test_a_simulation_of_topics_has_no_violations(seed: int) -> None:
    plan = plan_of(seed)
    findings = asyncio.run(simulate_topics(plan))
    TOTALS.add(findings)
    assert not findings.violations, f"{plan}:\n{report(findings)}"
    assert findings.counts["stored in topics"] > 0
    assert findings.counts["probes"] > 0


def test_all_that_can_happen_has_happened(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(TOTALS.table("simulations of topics"))
    if TOTALS.runs >= COMMON_AFTER:
        assert TOTALS.missing(COMMON) == []
    if TOTALS.runs >= ALL_AFTER:
        lost = {event.rpartition(" ")[2] for event in TOTALS.counts if event.startswith(LOSSES)}
        assert sorted(set(POINTS) - lost) == [], "a leader was lost at every step"
        assert TOTALS.missing(RARE) == []


def test_the_same_plan_takes_the_same_course() -> None:
    first, second = (asyncio.run(simulate_topics(plan_of(FIRST_SEED, steps=30))) for _ in range(2))
    assert first.counts == second.counts
