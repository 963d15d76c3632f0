"""Three brokers that are killed, frozen and started again under topics that split and merge: nothing is lost.

TIDEMARK_TOPIC_ROUNDS is the number of runs for each kind of log, by default 1; each takes about half a minute.
TIDEMARK_TOPIC_SEED is the first seed: a seed says what is done, and in which order, but not what meets what.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from topics_end_to_end.whole_plan import Trouble, WholePlan
from topics_end_to_end.whole_run import run_whole
from txn_histories.checker import report

ROUNDS = int(os.environ.get("TIDEMARK_TOPIC_ROUNDS", "1"))
FIRST_SEED = int(os.environ.get("TIDEMARK_TOPIC_SEED", "0"))
LOGS = ("metastore", "local")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + ROUNDS))
@pytest.mark.parametrize("log", LOGS)
def test_whatever_befalls_brokers_topics_keep_what_they_promise(log: str, seed: int) -> None:
    plan = WholePlan(log, 2 * seed + LOGS.index(log))
    findings = asyncio.run(run_whole(plan))
    print(f"{plan}: {report(findings)}")
    assert not findings.violations, f"{plan}:\n{report(findings)}"
    assert findings.counts["committed"] > 0
    assert findings.counts["dead letters"] > 0


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_says_what_is_done(seed: int) -> None:
    plan = WholePlan("local", seed)
    assert plan.troubles == WholePlan("local", seed).troubles
    kinds = {each.trouble for each in plan.troubles}
    assert {Trouble.KILL, Trouble.FREEZE, Trouble.SPLIT, Trouble.MERGE, Trouble.SEEK} <= kinds
    assert plan.troubles[-1].trouble in (Trouble.KILL, Trouble.FREEZE)
    assert plan.is_eager is not WholePlan("local", seed + 1).is_eager
