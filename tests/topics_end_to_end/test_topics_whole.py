"""Three brokers that are killed, frozen and started again under topics that split and merge: nothing is lost.

TIDEMARK_TOPIC_ROUNDS is the number of runs for each kind of log, by default 1; each takes about half a minute.
TIDEMARK_TOPIC_SEED is the first seed: a seed says what is done, and in which order, but not what meets what.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from topics_end_to_end.whole_plan import USE, Trouble, WholePlan
from topics_end_to_end.whole_run import run_whole
from txn_histories.checker import report
from txn_histories.totals import Totals

ROUNDS = int(os.environ.get("TIDEMARK_TOPIC_ROUNDS", "1"))
FIRST_SEED = int(os.environ.get("TIDEMARK_TOPIC_SEED", "0"))
LOGS = ("metastore", "local")
TOTALS = Totals()
ALL_AFTER = 20
"""After so many runs everything that can has happened."""
COMMON = (
    *("splits", "taken over", "committed", "dead letters", "given back", "seeks", "producers opened again"),
    *("claims", "claimants killed", "sends: ProducerFenced", "delayed deliveries", "divisions"),
)
RARE = ("merges of two", "merges of several", "prunings", "aborted", "duplicates told")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS))
@pytest.mark.parametrize("log", LOGS)
def test_whatever_befalls_brokers_topics_keep_what_they_promise(log: str, seed: int) -> None:
    plan = WholePlan(log, 2 * seed + LOGS.index(log))
    findings = asyncio.run(run_whole(plan))
    TOTALS.add(findings)
    assert not findings.violations, f"{plan}:\n{report(findings)}"


def test_all_that_can_happen_has_happened(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(TOTALS.table("topics end to end"))
    if TOTALS.runs >= len(LOGS):
        assert TOTALS.missing([*COMMON, *(each.name for each in USE)]) == []
    if TOTALS.runs >= ALL_AFTER:
        assert TOTALS.missing([*RARE, *(each.name for each in Trouble)]) == []


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_says_what_is_done(seed: int) -> None:
    plan = WholePlan("local", seed)
    assert plan.troubles == WholePlan("local", seed).troubles
    kinds = {each.trouble for each in plan.troubles}
    assert {Trouble.KILL, Trouble.FREEZE, Trouble.SPLIT, Trouble.MERGE, Trouble.SEEK} <= kinds
    assert plan.troubles[-1].trouble in (Trouble.KILL, Trouble.FREEZE)
    assert plan.is_eager is not WholePlan("local", seed + 1).is_eager
