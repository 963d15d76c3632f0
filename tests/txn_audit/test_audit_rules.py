"""Each rule finds what was planted for it, and nothing is found where nothing was planted."""

from __future__ import annotations

from pathlib import Path

from audit_stage import audit, plant
from pyspark.sql import SparkSession

from txn.audit.dialect import DialectName
from txn.audit.faults import FAULTS, plant_fault
from txn.audit.planting import Expected, Planter
from txn.audit.rules.registry import rules_of


def test_there_is_a_fault_for_each_rule_about_a_point_in_time() -> None:
    assert set(FAULTS) == {rule.name for rule in rules_of(DialectName.TIDEMARK, history=False)}


def test_what_was_planted_is_found_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    expected: set[Expected] = set()

    async def work(planter: Planter) -> None:
        await planter.plant_clean(200)
        for rule in FAULTS:
            expected.update(await plant_fault(planter, rule, 2))

    url, as_of_ms = plant(tmp_path / "store", work)
    found = audit(spark, url, as_of_ms)
    assert sorted(map(str, expected - found)) == []
    assert sorted(map(str, found - expected)) == []
    assert {each.rule for each in found} == set(FAULTS)


def test_nothing_is_found_in_a_clean_store(spark: SparkSession, tmp_path: Path) -> None:
    url, as_of_ms = plant(tmp_path / "store", lambda planter: planter.plant_clean(100))
    assert audit(spark, url, as_of_ms) == set()
