"""The records of a real Pulsar: every one is understood, and what they add up to is what happened in truth."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from doctor_vectors import dump_names, load, vectors

from metastore.interface import open_store
from peers.oxia import oxia_server
from txn.decoding import pulsar
from txn.decoding.rows import AbortedRow, OddRow, OperationRow, Row, TransactionRow, WatermarkRow
from txn.doctor import horizon, statistics
from txn.doctor.horizon import Verdict
from txn.doctor.layout import LAYOUTS, RecordsKind
from txn.doctor.listing import DECIDED, Wanted, list_transactions
from txn.doctor.portrait import read
from txn.doctor.reading import Records, detect
from txn.model.header import TxnState

LAST = "49-n-loaded"
OPEN_STAGE = "03-a-open"
BEHIND_STAGE = "11-c-open"


def rows_of(name: str) -> list[Row]:
    found: list[Row] = []
    for key, value, created_ms, modified_ms in vectors()["dumps"][name]["records"]:
        row = pulsar.decode(key, value.encode(), created_ms, modified_ms)
        assert row is not None, key
        assert not isinstance(row, OddRow), row
        found.append(row)
    return found


def truth_of(name: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = vectors()["truth"]["s4" if name.startswith("s4") else "main"]
    return found


def with_truth() -> list[str]:
    return [name for name in dump_names() if not name.startswith("alt")]


@pytest.mark.parametrize("name", dump_names())
def test_every_record_is_understood(name: str) -> None:
    assert len(rows_of(name)) == len(vectors()["dumps"][name]["records"])


@pytest.mark.parametrize("name", with_truth())
def test_headers_are_those_that_there_were_in_truth(name: str) -> None:
    dump = vectors()["dumps"][name]
    begun_ms, ended_ms = dump["begun_ms"], dump["ended_ms"]
    headers = {row.txn_id: row for row in rows_of(name) if isinstance(row, TransactionRow)}
    truth = truth_of(name)
    assert headers.keys() <= truth.keys()
    for txn_id, true in truth.items():
        deleted_ms, decided_ms = true.get("headerDeletedAtMs"), true.get("decidedAtMs")
        if true["openedAtMs"] < begun_ms and (deleted_ms is None or deleted_ms > ended_ms):
            row = headers[txn_id]
            if decided_ms is None or decided_ms > ended_ms:
                assert row.is_open
            elif decided_ms < begun_ms:
                assert row.finalized_ms is not None
                assert f'"state":"{row.state.value}"' in true["header"]
                assert 0 <= decided_ms - row.finalized_ms < 1_000
        elif deleted_ms is not None and deleted_ms < begun_ms:
            assert txn_id not in headers


@pytest.mark.parametrize("name", with_truth())
def test_operations_are_those_that_there_were_in_truth(name: str) -> None:
    dump = vectors()["dumps"][name]
    counts = Counter(row.txn_id for row in rows_of(name) if isinstance(row, OperationRow))
    compared = 0
    for txn_id, true in truth_of(name).items():
        left = true["opRowsCreated"] - true["opRowsDeleted"]
        deleted = true.get("opRowsDeletedMs") or [0]
        is_over = true.get("decidedAtMs", dump["ended_ms"]) < dump["begun_ms"] and deleted[-1] < dump["begun_ms"]
        if is_over or name == LAST:
            assert counts[txn_id] == left, txn_id
            compared += 1
        else:
            assert counts[txn_id] <= true["opRowsCreated"], txn_id
    assert compared or name.removeprefix("s4-") < "05"  # before the first end


async def check_indexes(url: str, name: str) -> None:
    """What the indexes lead to is what the records themselves say."""
    async with await open_store(url) as store:
        await load(store, name)
        layout = await detect(store)
        assert layout.kind is RecordsKind.PULSAR
        records, rows = Records(store, layout), rows_of(name)
        headers = {row.txn_id for row in rows if isinstance(row, TransactionRow)}
        found = {row.txn_id async for row in records.open_headers()}
        found |= {row.txn_id async for row in records.decided_headers(*DECIDED)}
        assert found == headers
        operations = [row for row in rows if isinstance(row, OperationRow)]
        assert sorted([row.key async for row in records.operations()]) == sorted(row.key for row in operations)
        for txn_id in headers:
            mine = {row.key for row in operations if row.txn_id == txn_id}
            assert {row.key async for row in records.operations_of(txn_id)} == mine
        for segment in {row.segment for row in operations}:
            mine = {row.key for row in operations if row.segment == segment}
            writes = {row.key async for row in records.writes_to(segment)}
            acknowledgements = {row.key async for row in records.acknowledgements_of(segment)}
            assert writes.isdisjoint(acknowledgements)
            assert writes | acknowledgements == mine
        aborted = {row.key for row in rows if isinstance(row, AbortedRow)}
        assert {row.key async for row in records.aborted()} == aborted
        for watermark in [row for row in rows if isinstance(row, WatermarkRow)]:
            kept = await records.watermark(watermark.segment)
            assert kept is not None
            assert kept.position == watermark.position
        assert records.odd == []


@pytest.mark.parametrize("name", [OPEN_STAGE, BEHIND_STAGE, "39-m-open", "s4-16-n-read", LAST])
def test_what_is_found_by_index_is_what_there_is(name: str) -> None:
    asyncio.run(check_indexes(f"memory://doctor-{name}?shards=3", name))


@pytest.mark.peers
def test_what_is_found_by_index_in_a_real_oxia_is_what_there_is() -> None:
    with oxia_server(4, "hierarchical") as server:
        asyncio.run(check_indexes(f"oxia://{server.address}", "39-m-open"))


def test_statistics_of_the_last_stage() -> None:
    async def scenario() -> None:
        async with await open_store("memory://doctor-pulsar-stats?shards=3") as store:
            await load(store, LAST)
            records, rows = Records(store, LAYOUTS[RecordsKind.PULSAR]), rows_of(LAST)
            now_ms = vectors()["dumps"][LAST]["ended_ms"]
            found = await statistics.gather(records, now_ms)
            states = Counter(row.state for row in rows if isinstance(row, TransactionRow))
            assert found.states == states
            assert found.operations == 11
            assert found.aborted.total() == 115
            headers = {row.txn_id: row for row in rows if isinstance(row, TransactionRow)}
            orphans = [row for row in rows if isinstance(row, OperationRow) and row.txn_id not in headers]
            assert found.orphans == len(orphans)
            # A topic was deleted before its transactions ended: nobody is left to carry them out.
            assert any("k-gone" in participant.segment for participant in found.stuck)

    asyncio.run(scenario())


def test_the_list_the_portrait_and_the_horizon_of_an_open_transaction() -> None:
    async def scenario() -> None:
        async with await open_store("memory://doctor-pulsar-open?shards=3") as store:
            await load(store, OPEN_STAGE)
            records = Records(store, LAYOUTS[RecordsKind.PULSAR])
            now_ms = vectors()["dumps"][OPEN_STAGE]["ended_ms"]
            listing = await list_transactions(records, Wanted(), now_ms)
            assert [found.row.txn_id for found in listing.found] == ["1_0"]
            assert listing.found[0].tally.operations == 21
            portrait = await read(records, "1_0")
            assert portrait is not None
            assert portrait.header.state is TxnState.OPEN
            assert sum(part.operations for part in portrait.parts) == 21
            assert all(part.first_ms is not None and part.applied is None for part in portrait.parts)
            segment = portrait.parts[-1].participant.segment
            found = await horizon.look(records, segment)
            assert found.verdict is Verdict.HELD
            assert found.holder is not None
            assert found.holder.txn_id == "1_0"
            assert "commit or an abort by its client" in horizon.explanation(found, now_ms, knows_owners=False)

    asyncio.run(scenario())
