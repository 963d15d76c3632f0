"""`tidemark audit record`: every change of the store is in the ledger once, and stays when the store forgets."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from audit_stage import LATER_MS, elsewhere, found, source_at
from pyspark.sql import SparkSession

from metastore.clock import SystemClock
from metastore.commandline import main
from metastore.interface import open_store
from metastore.spark import pin
from support.server import ServerProcess
from support.spark import FEW_ROWS, JAVA_OPTIONS
from support.spark_stores import fill
from support.spark_victim import WITHIN_S, Victim
from txn.audit.dialect import TIDEMARK, DialectName
from txn.audit.ledger import Ledger
from txn.audit.ledger.folder import Folder
from txn.audit.planting import RECENT_MS, Expected, Planter, Subject
from txn.audit.rules.registry import rules_of
from txn.audit.tables import Tables
from txn.model import paths
from txn.model.header import TxnState
from txn.model.ids import TxnId

pytestmark = pytest.mark.timeout(600)

Life = list[tuple[str, str]]


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    """A service of two shards."""
    with ServerProcess(shards=2) as process:
        yield process


def plant_into(server: ServerProcess, work: Callable[[Planter], Awaitable[None]], as_of_ms: int | None = None) -> None:
    """Plants something, seen from a moment, or from now."""

    async def run() -> None:
        async with await open_store(f"oxia://{server.address}") as store:
            await work(Planter(store, as_of_ms or SystemClock().wall_ms(), elsewhere))

    asyncio.run(run())


async def begin(planter: Planter, ids: list[TxnId]) -> None:
    """Transactions with an operation each, open."""
    for txn_id in ids:
        await planter.put(Subject(planter.open_header(2 * RECENT_MS), [planter.write(planter.segment(0))]), txn_id)


async def end(planter: Planter, ids: list[TxnId]) -> None:
    """Their decision, and then all that collects them: nothing of them is left."""
    for txn_id in ids:
        header, partition = planter.ended(TxnState.COMMITTED), paths.partition(txn_id)
        key, segment = paths.header_key(txn_id), planter.segment(0)
        await planter.store.put(key, header.encode(), partition_key=partition, indexes=header.indexes())
        await planter.put_applied(txn_id, segment, None)
        for gone in (f"{paths.operations_path(txn_id)}/-{1:020}", paths.applied_key(txn_id, segment), key):
            await planter.store.delete(gone, partition_key=partition)


def record(server: ServerProcess, ledger: Path, *options: str) -> int:
    """Records what there is, in this process."""
    return main(["audit", "record", "--store", f"oxia://{server.address}", "--ledger", str(ledger), *options])


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """What programs were told."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def lives(spark: SparkSession, ledger: Path) -> Life:
    """All that the ledger has of headers, in order."""
    rows = Ledger(spark, ledger, TIDEMARK).read("headers").select("txn_id", "state", "as_of").collect()
    return [(row.txn_id, row.state) for row in sorted(rows, key=lambda row: (row.txn_id, row.as_of, row.state))]


def test_what_the_store_has_collected_stays_and_what_no_audit_has_seen_is_found(
    spark: SparkSession, server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after, twice, vanished = (TxnId(0, number) for number in range(4))
    now_ms = SystemClock().wall_ms()

    async def plant_first(planter: Planter) -> None:
        await planter.plant_segments()
        await begin(planter, [before])

    async def plant_behind(planter: Planter) -> None:
        await end(planter, [before])
        await begin(planter, [after, twice, vanished])
        header, partition = planter.ended(TxnState.COMMITTED), paths.partition(twice)
        await planter.store.put(
            paths.header_key(twice), header.encode(), partition_key=partition, indexes=header.indexes()
        )
        await end(planter, [after, twice])
        await planter.store.delete(paths.header_key(vanished), partition_key=paths.partition(vanished))

    plant_into(server, plant_first, now_ms)
    assert record(server, tmp_path, "--once", "--json") == 0
    assert [line["type"] for line in lines(capsys)] == ["begin", "end"]
    plant_into(server, plant_behind, now_ms)
    assert record(server, tmp_path, "--once", "--json", "--rows", "15") == 0
    *batches, last = lines(capsys)
    assert len(batches) > 1
    assert last == {"type": "end", "batches": len(batches), "rows": last["rows"]}
    assert last["rows"] == {"headers": 7, "ops": 3, "applied": 3, "removed": 10}
    assert len(Ledger(spark, tmp_path, TIDEMARK).read("ops").collect()) == 4
    states = {before: ["OPEN", "COMMITTED"], after: ["OPEN", "COMMITTED"]}
    states |= {twice: ["OPEN", "COMMITTED", "COMMITTED"], vanished: ["OPEN"]}
    expected = sorted((str(txn_id), state) for txn_id, each in states.items() for state in each)
    assert sorted(lives(spark, tmp_path)) == expected
    assert record(server, tmp_path, "--once") == 0
    assert capsys.readouterr().out == "recorded 0 batches: nothing\n"
    store = f"oxia://{server.address}"
    with pin(store) as point, Ledger(spark, tmp_path, TIDEMARK).past() as past:
        source = source_at(spark, store, point, now_ms + LATER_MS)
        violations = found(Tables(source, TIDEMARK, history=past), rules_of(DialectName.TIDEMARK, history=True))
    assert violations == {
        Expected("decided-twice", str(twice)),
        Expected("open-transaction-vanished", str(vanished)),
    }


def test_two_do_not_record_in_one_ledger(
    spark: SparkSession, server: ServerProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Folder(tmp_path).writing():
        assert record(server, tmp_path, "--once") == 1
    assert "another process adds to the ledger" in capsys.readouterr().err


def test_changes_that_are_no_longer_kept_are_an_error_and_a_bridge_leaves_the_gap(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, txn_id = tmp_path / "ledger", TxnId(0, 1)
    with ServerProcess(extra_args=["--notifications-retention-time", "1s"]) as server:
        assert record(server, ledger, "--once") == 0
        plant_into(server, lambda planter: begin(planter, [txn_id]))
        assert record(server, ledger, "--once") == 0
        value = bytes(1 << 20)
        deadline_s = time.monotonic() + WITHIN_S
        log = server.data_directory / "shards" / "0000" / "log"
        while (log / f"{0:020}.log").exists():
            assert time.monotonic() < deadline_s, "the log was not trimmed"
            fill(f"oxia://{server.address}", {f"/large/{number}": value for number in range(24)})
        plant_into(server, lambda planter: begin(planter, [TxnId(0, 2)]))
        capsys.readouterr()
        assert record(server, ledger, "--once") == 1
        told = capsys.readouterr().err
        assert "what came between is not in the ledger" in told
        assert "Traceback" not in told
        assert record(server, ledger, "--once", "--bridge") == 0
        plant_into(server, lambda planter: begin(planter, [TxnId(0, 3)]))
        assert record(server, ledger, "--once") == 0
    assert lives(spark, ledger) == [(f"md_0_{number}", "OPEN") for number in (1, 2, 3)]


OPTIONS = ["--rows", "60", "--every", "1ms", "--json"]
EACH = 120
"""So many transactions, of two records each, are begun at a time."""


def test_every_change_is_recorded_once_across_kills_of_the_query_and_of_the_store(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    plant_into(server, lambda planter: planter.plant_segments())
    assert record(server, ledger, "--once") == 0
    settings = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": JAVA_OPTIONS, **FEW_ROWS}
    arguments = ["-m", "metastore.commandline", "audit", "record", "--store", f"oxia://{server.address}"]
    arguments += ["--ledger", str(ledger), *OPTIONS]
    arguments += [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    ids: list[TxnId] = []

    def go_on() -> None:
        more = [TxnId(0, len(ids) + number) for number in range(EACH)]
        plant_into(server, lambda planter: begin(planter, more))
        ids.extend(more)

    for kills_store_first in (False, True):
        go_on()
        Victim(arguments, ledger / "_stream", tmp_path).die(server, batches=2, store_first=kills_store_first)
    go_on()
    victim = Victim(arguments, ledger / "_stream", tmp_path)
    try:
        victim.wait(batches=1)
        victim.process.send_signal(signal.SIGTERM)
        assert victim.process.wait(WITHIN_S) == 0, victim.said()
        assert '{"type": "end"' in victim.said()
    finally:
        victim.kill()
    assert record(server, ledger, "--once") == 0
    assert lives(spark, ledger) == sorted((str(txn_id), "OPEN") for txn_id in ids)
    operations = Ledger(spark, ledger, TIDEMARK).read("ops").select("txn_id").collect()
    assert sorted(row.txn_id for row in operations) == sorted(map(str, ids))
