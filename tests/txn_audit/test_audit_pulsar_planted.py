"""Each rule finds what was planted for it among records of Pulsar, and nothing is found where nothing was planted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from audit_stage import SHARDS, elsewhere, found, source_at
from pyspark.sql import SparkSession

from metastore.clock import SystemClock
from metastore.interface import MetadataStore, open_store
from metastore.spark import pin
from txn.audit.dialect import PULSAR, DialectName
from txn.audit.ledger import Ledger
from txn.audit.planting import Expected
from txn.audit.pulsar_faults import LATER_MS, PULSAR_FAULTS, PULSAR_IMPLIED, PulsarPlanter
from txn.audit.rules.model import OnTables
from txn.audit.rules.registry import rules_of
from txn.audit.tables import Tables
from txn.audit.views import pulsar

POINT_IN_TIME = rules_of(DialectName.PULSAR, history=False)
OF_WHOLE_TABLES = [rule.name for rule in POINT_IN_TIME if any(isinstance(each, OnTables) for each in rule.checks)]
"""These look at more than a row, and at nothing where sums say that they need not: each is alone in a store."""

SEGMENT = "segment://public/default/orders/0000-ffff-0"


def plant(folder: Path, work: Callable[[MetadataStore], Awaitable[None]]) -> str:
    """A store that something was planted into; its URL."""

    async def run() -> None:
        async with await open_store(f"lmdb://{folder}?shards={SHARDS}") as store:
            await work(store)

    asyncio.run(run())
    return f"lmdb://{folder}"


def audit(spark: SparkSession, url: str, as_of_ms: int) -> set[Expected]:
    """What the audit finds."""
    with pin(url) as point:
        return found(Tables(source_at(spark, url, point, as_of_ms), PULSAR), POINT_IN_TIME)


def test_there_is_a_fault_for_each_rule_about_a_point_in_time() -> None:
    assert set(PULSAR_FAULTS) == {rule.name for rule in POINT_IN_TIME}


@pytest.mark.timeout(300)
def test_each_fault_is_found_in_its_realm_by_its_rule_and_by_no_other(spark: SparkSession, tmp_path: Path) -> None:
    expected: dict[str, set[Expected]] = {}
    as_of_ms = SystemClock().wall_ms() + LATER_MS

    async def work(store: MetadataStore) -> None:
        for realm, rule in enumerate(PULSAR_FAULTS):
            planter = PulsarPlanter(store, as_of_ms, elsewhere, realm)
            await planter.plant_clean()
            expected[rule] = set(await PULSAR_FAULTS[rule](planter))

    found = audit(spark, plant(tmp_path / "store", work), as_of_ms)
    assert sorted(map(str, set().union(*expected.values()) - found)) == []
    assert sorted(map(str, found - set().union(*expected.values()))) == []
    for rule, planted in expected.items():
        assert {each.rule for each in planted} == {rule, *PULSAR_IMPLIED.get(rule, ())}


@pytest.mark.parametrize("rule", OF_WHOLE_TABLES)
def test_a_fault_alone_in_a_store_is_found_by_its_rule_and_by_no_other(
    spark: SparkSession, tmp_path: Path, rule: str
) -> None:
    expected: set[Expected] = set()
    as_of_ms = SystemClock().wall_ms() + LATER_MS

    async def work(store: MetadataStore) -> None:
        planter = PulsarPlanter(store, as_of_ms, elsewhere)
        await planter.plant_clean()
        expected.update(await PULSAR_FAULTS[rule](planter))

    assert audit(spark, plant(tmp_path / "store", work), as_of_ms) == expected


def test_what_cannot_have_become_what_is_now_is_found(spark: SparkSession, tmp_path: Path) -> None:
    ledger = Ledger(spark, tmp_path / "ledger", PULSAR)
    as_of_ms = SystemClock().wall_ms() + LATER_MS

    async def before(store: MetadataStore) -> None:
        await PulsarPlanter(store, as_of_ms, elsewhere).plant_clean()

    async def after(store: MetadataStore) -> None:
        planter = PulsarPlanter(store, as_of_ms, elsewhere)
        await planter.watermark(3)
        await planter.numbers(90)

    url = plant(tmp_path / "store", before)
    with pin(url) as point:
        ledger.append(source_at(spark, url, point, as_of_ms))
    plant(tmp_path / "store", after)
    with pin(url) as point, ledger.past() as past:
        tables = Tables(source_at(spark, url, point, as_of_ms), PULSAR, history=past)
        violations = found(tables, rules_of(DialectName.PULSAR, history=True))
    assert violations == {
        Expected("watermark-went-back", None, SEGMENT),
        Expected("numbers-went-back", key=f"{pulsar.NUMBERS}/0"),
    }
