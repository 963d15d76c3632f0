"""Each rule finds what was planted for it, and nothing is found where nothing was planted."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_stage import audit, elsewhere, plant
from pyspark.sql import SparkSession

from metastore.directory import read_manifest, shard_directory
from metastore.engine.change import Table
from metastore.engine.keys import key_order
from metastore.engine.store import Store, StoreOptions
from txn.audit.dialect import DialectName
from txn.audit.faults import FAULTS, IMPLIED, plant_fault
from txn.audit.planting import Expected, Planter, Subject
from txn.audit.rules.model import OnTables
from txn.audit.rules.registry import rules_of
from txn.model import paths


def test_there_is_a_fault_for_each_rule_about_a_point_in_time() -> None:
    assert set(FAULTS) == {rule.name for rule in rules_of(DialectName.TIDEMARK, history=False)}


@pytest.mark.timeout(300)
def test_each_fault_is_found_in_its_realm_by_its_rule_and_by_no_other(spark: SparkSession, tmp_path: Path) -> None:
    """Realms have nothing in common, so what one row is found by cannot hide what another is."""
    expected: dict[int, set[Expected]] = {}

    async def work(planter: Planter) -> None:
        for realm, rule in enumerate(FAULTS):
            own = Planter(planter.store, planter.as_of_ms, elsewhere, realm)
            await own.plant_clean(10)
            expected[realm] = await plant_fault(own, rule, 2)

    url, as_of_ms = plant(tmp_path / "store", work)
    found = audit(spark, url, as_of_ms)
    assert sorted(map(str, set().union(*expected.values()) - found)) == []
    assert sorted(map(str, found - set().union(*expected.values()))) == []
    for realm, rule in enumerate(FAULTS):
        assert {each.rule for each in expected[realm]} == {rule, *IMPLIED.get(rule, ())}


OF_WHOLE_TABLES = [
    rule.name
    for rule in rules_of(DialectName.TIDEMARK, history=False)
    if any(isinstance(check, OnTables) for check in rule.checks)
]
"""These look at more than a row, and at nothing where sums say that they need not: each is alone in a store."""


@pytest.mark.parametrize("rule", OF_WHOLE_TABLES)
def test_a_fault_alone_in_a_store_is_found_by_its_rule_and_by_no_other(
    spark: SparkSession, tmp_path: Path, rule: str
) -> None:
    expected: set[Expected] = set()

    async def work(planter: Planter) -> None:
        await planter.plant_clean(10)
        expected.update(await plant_fault(planter, rule))

    url, as_of_ms = plant(tmp_path / "store", work)
    assert audit(spark, url, as_of_ms) == expected
    assert {each.rule for each in expected} == {rule, *IMPLIED.get(rule, ())}


def test_an_entry_in_the_index_of_another_kind_is_found(spark: SparkSession, tmp_path: Path) -> None:
    """A write that is found as an acknowledgement: under the same key, so that only the index is wrong."""
    expected: set[Expected] = set()

    async def work(planter: Planter) -> None:
        await planter.plant_clean(10)
        txn_id = await planter.put(Subject(planter.open_header()))
        operation = planter.write(planter.segment(0))
        wrong = [(paths.ACKS_BY_SUBSCRIPTION, key) for _, key in operation.indexes()]
        key = await planter.put_operation(txn_id, operation, indexes=wrong)
        expected.update({Expected("record-not-indexed", str(txn_id)), Expected("index-leads-nowhere", key=key)})

    url, as_of_ms = plant(tmp_path / "store", work)
    assert audit(spark, url, as_of_ms) == expected


def test_an_unreadable_aborted_transaction_is_found_where_nothing_else_is(spark: SparkSession, tmp_path: Path) -> None:
    key = ""

    async def work(planter: Planter) -> None:
        nonlocal key
        await planter.plant_segments()
        segment = planter.segment(0)
        key = f"{paths.aborted_path(segment)}/nobody"
        await planter.store.put(key, b"{}", partition_key=segment)

    url, as_of_ms = plant(tmp_path / "store", work)
    assert audit(spark, url, as_of_ms) == {Expected("unreadable-record", key=key)}


def lose_record(folder: Path, key: str) -> None:
    """Takes a record out of a store that nobody serves, and leaves its index entries, as no store should."""
    _, (namespace,) = read_manifest(folder)
    for shard in namespace.shard_ids:
        store = Store(shard_directory(folder, shard) / "index", StoreOptions())
        with store.environment.begin(write=True) as transaction:
            encoded = key_order(namespace.key_sorting).encode(key.encode())
            store.trees[Table.RECORDS].delete_all(transaction, [encoded])
        store.close()


def test_an_index_entry_whose_record_is_lost_is_found(spark: SparkSession, tmp_path: Path) -> None:
    lost: list[str] = []

    async def work(planter: Planter) -> None:
        await planter.plant_clean(10)
        txn_id = await planter.put(Subject(planter.open_header()))
        for place in range(2):
            lost.append(await planter.put_operation(txn_id, planter.write(planter.segment(place))))

    url, as_of_ms = plant(tmp_path / "store", work)
    lose_record(tmp_path / "store", lost[-1])
    assert audit(spark, url, as_of_ms) == {Expected("index-leads-nowhere", key=lost[-1])}
