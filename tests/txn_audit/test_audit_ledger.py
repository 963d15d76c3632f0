"""The ledger keeps what was seen, once, and rules over history find what cannot have become what is now."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from audit_stage import found, plant, source_at
from pyspark.sql import SparkSession

from metastore.spark import pin
from txn.audit.dialect import TIDEMARK, DialectName
from txn.audit.ledger import Ledger
from txn.audit.ledger.rows import FILES_OF_A_SIZE_MAX, SEEN
from txn.audit.planting import CLOSED, LONG_AGO_MS, SUBSCRIPTION, Expected, Planter, Subject, segment_named
from txn.audit.rules.registry import rules_of
from txn.audit.tables import Tables
from txn.coordinator.numbering import NUMBERS
from txn.model import paths
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import CursorState
from txn.segment.log.state import LogState

LATER_MS = 20_000
COVERED = Position(3, 6)
"""What the cursors of planted segments have acknowledged."""
REVERSED, TWICE, VANISHED, LOST, KEPT = (TxnId(0, 1_000 + each) for each in range(5))


async def plant_before(planter: Planter) -> None:
    """What the first audit sees."""
    await planter.plant_segments()
    committed = planter.ended(TxnState.COMMITTED, LONG_AGO_MS)
    await planter.put(Subject(committed), REVERSED)
    await planter.put(Subject(planter.open_header()), TWICE)
    await planter.put(Subject(planter.open_header()), VANISHED)
    await planter.put(Subject(committed, [planter.acknowledgement(planter.segment(0), LONG_AGO_MS)]), LOST)
    await planter.put(Subject(committed, [planter.acknowledgement(planter.segment(1), LONG_AGO_MS, COVERED)]), KEPT)


async def plant_after(planter: Planter) -> None:
    """What has become of it."""
    store = planter.store
    await planter.put_header(REVERSED, planter.ended(TxnState.ABORTED, LONG_AGO_MS + LATER_MS))
    await planter.put_header(TWICE, planter.open_header())
    await store.delete(paths.header_key(VANISHED), partition_key=paths.partition(VANISHED))
    for each in (LOST, KEPT):
        key = f"{paths.operations_path(each)}/-{1:020}"
        await store.delete(key, partition_key=paths.partition(each))
    await planter.put_cursor(planter.segment(2), SUBSCRIPTION, CursorState(Position(1, 20)))
    segment = planter.segment(3)
    older = LogState(segment, 2, "mark", CLOSED[:1])
    await store.put(f"{paths.segment_path(segment)}/log", older.encode(), partition_key=segment)
    value = json.dumps({"format": 1, "next": 5}).encode()
    await store.put(f"{NUMBERS}/0", value, partition_key=f"{NUMBERS}/0")


def test_what_cannot_have_become_what_is_now_is_found(spark: SparkSession, tmp_path: Path) -> None:
    ledger = Ledger(spark, tmp_path / "ledger", TIDEMARK)
    url, as_of_ms = plant(tmp_path / "store", plant_before)
    with pin(url) as point:
        ledger.append(source_at(spark, url, point, as_of_ms))
    plant(tmp_path / "store", plant_after, as_of_ms + LATER_MS)
    rules = rules_of(DialectName.TIDEMARK, history=True)
    with pin(url) as point:
        source = source_at(spark, url, point, as_of_ms + LATER_MS)
        with ledger.past() as past:
            violations = found(Tables(source, TIDEMARK, history=past), rules)
        segments = [segment_named(number) for number in range(4)]
        assert violations == {
            Expected("decision-reversed", str(REVERSED)),
            Expected("id-given-twice", str(TWICE)),
            Expected("open-transaction-vanished", str(VANISHED)),
            Expected("acknowledgement-lost", str(LOST), segments[0], SUBSCRIPTION),
            Expected("cursor-went-back", None, segments[2], SUBSCRIPTION),
            Expected("log-went-back", None, segments[3]),
            Expected("numbers-went-back", key=f"{NUMBERS}/0"),
        }
        # What was decided twice in between, two audits do not see: only what was recorded shows it.
        assert {each.rule for each in violations} == {rule.name for rule in rules} - {"decided-twice"}


def test_small_files_are_put_together_and_old_days_go(spark: SparkSession, tmp_path: Path) -> None:
    ledger = Ledger(spark, tmp_path / "ledger", TIDEMARK)
    url, as_of_ms = plant(tmp_path / "store", lambda planter: planter.plant_clean(20))
    with pin(url) as point:
        ledger.append(source_at(spark, url, point, as_of_ms))
    before = ledger.read("headers").count()
    day = next((tmp_path / "ledger" / "headers").glob("day=*"))
    file = next(day.glob("*.parquet"))
    for number in range(FILES_OF_A_SIZE_MAX):  # as many batches of one day leave them
        shutil.copy(file, day / f"more-{number}.parquet")
    rows = ledger.read("headers").count()
    assert rows > before
    with ledger.past():
        assert ledger.compact([day]) == 0, "nothing is taken away from those who read"
    assert ledger.compact([day]) == 1
    assert len(list(day.glob("*.parquet"))) == 1
    assert ledger.read("headers").count() == rows
    assert ledger.compact([day]) == 0
    assert ledger.expire(1_000, as_of_ms) == 0
    assert ledger.expire(1_000, as_of_ms + 3 * 86_400_000) > 0
    assert ledger.is_empty


def files_read(spark: SparkSession) -> int:
    """How many files this session has read in all its queries."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    store = spark._jsparkSession.sharedState().statusStore()
    queries, count = store.executionsList(), 0
    for query in (queries.apply(place) for place in range(queries.size())):
        metrics, values = query.metrics(), store.executionMetrics(query.executionId())
        for metric in (metrics.apply(place) for place in range(metrics.size())):
            found = values.get(metric.accumulatorId())
            if metric.name() == "number of files read" and found.isDefined():
                count += int(found.get())
    return count


def test_what_has_not_changed_is_kept_once_and_what_adding_reads_does_not_grow_with_the_ledger(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "ledger"
    ledger = Ledger(spark, path, TIDEMARK)
    url, as_of_ms = plant(tmp_path / "store", lambda planter: planter.plant_clean(20))
    with pin(url) as point:
        ledger.append(source_at(spark, url, point, as_of_ms))
        assert ledger.read("ops").count() > 0
        for day in list(path.glob("[!_]*/day=*")):
            for number in range(1, 8):
                shutil.copytree(day, day.with_name(f"day=2026-01-{number:02}"))
        seen, rows, read = len(list((path / SEEN).rglob("*.parquet"))), ledger.read("ops").count(), files_read(spark)
        ledger.append(source_at(spark, url, point, as_of_ms + 1))
        assert files_read(spark) - read == seen
    assert ledger.read("ops").count() == rows


def test_a_column_that_came_later_is_null_in_what_was_written_before(spark: SparkSession, tmp_path: Path) -> None:
    ledger = Ledger(spark, tmp_path / "ledger", TIDEMARK)
    old = spark.sql("SELECT 'md_0_1' AS txn_id, 'OPEN' AS state, '/txn/md_0_1' AS key, 1L AS version_id")
    old.write.parquet(str(tmp_path / "ledger" / "headers" / "day=2026-01-01"))
    row = ledger.read("headers").collect()[0]
    assert (row.txn_id, row.state, row.owner, row.offset, row.as_of) == ("md_0_1", "OPEN", None, None, None)
