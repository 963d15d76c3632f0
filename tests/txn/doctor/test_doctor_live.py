"""`tidemark txn show --follow` on a live server, and what the doctor sees on stores that can do less."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from doctor_program import running, stage_all
from doctor_stage import BILLS, ORDERS, Stage

from metastore.commandline import EXIT_INTERRUPTED
from metastore.coordination import Pace
from metastore.interface import open_store
from peers.oxia import oxia_server
from support.server import ServerProcess, Sorting
from txn.doctor import horizon, statistics
from txn.doctor.layout import RecordsKind
from txn.doctor.listing import Wanted, list_transactions
from txn.doctor.portrait import read
from txn.doctor.reading import Records, detect
from txn.model.ids import TxnId

CLOCK = Pace().clock


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ServerProcess(shards=3) as server:
        yield f"oxia://{server.address}"


def next_row(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_transaction_is_followed_until_it_is_collected(url: str) -> None:
    async def act(stage: Stage, txn_id: TxnId, step: str) -> None:
        match step:
            case "write":
                await stage.write(txn_id)
            case "commit":
                await stage.coordinator.commit(txn_id, principal="ann")
            case "apply":
                await stage.apply(txn_id)
            case "collect":
                await stage.collect(txn_id)

    async def scenario() -> None:
        async with await open_store(url) as store:
            stage = Stage(store, Pace())
            txn_id = await stage.begin()
            with running("--store", url, "show", str(txn_id), "--follow", "--json") as process:
                told = [await asyncio.to_thread(next_row, process) for _ in range(2)]
                assert [row["type"] for row in told] == ["header", "event"]
                for step, event in (
                    ("write", "first operation"),
                    ("commit", "decided"),
                    ("apply", "applied"),
                    ("collect", "collected"),
                ):
                    await act(stage, txn_id, step)
                    row = await asyncio.to_thread(next_row, process)
                    assert (row["type"], row["event"]) == ("event", event)
                output, errors = await asyncio.to_thread(process.communicate)
                assert (process.returncode, output, errors) == (0, "", "")

    asyncio.run(scenario())


def test_following_is_ended_by_an_interrupt(url: str) -> None:
    async def begin() -> TxnId:
        async with await open_store(url) as store:
            return await Stage(store, Pace()).begin()

    txn_id = asyncio.run(begin())
    with running("--store", url, "show", str(txn_id), "--follow", "--json") as process:
        next_row(process)
        next_row(process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        assert (process.returncode, errors) == (EXIT_INTERRUPTED, "")


SORTINGS: tuple[Sorting, ...] = ("hierarchical", "natural")
LESSER = [
    "memory://doctor-natural?shards=3&key_sorting=natural",
    "memory://doctor-lacking?shards=3&lacks=transact,every_change,index_order",
]


async def check_answers(url: str) -> None:
    async with await open_store(url) as store:
        staged = await stage_all(store)
        layout = await detect(store)
        assert layout.kind is RecordsKind.TIDEMARK
        records, now_ms = Records(store, layout), CLOCK.wall_ms()
        listing = await list_transactions(records, Wanted(), now_ms)
        assert [found.row.txn_id for found in listing.found] == [staged.holder, staged.behind]
        portrait = await read(records, staged.committed)
        assert portrait is not None
        assert [(str(part.participant), part.pending is None) for part in portrait.parts] == [
            (f"{BILLS} (billing)", False),
            (ORDERS, True),
        ]
        found = await horizon.look(records, ORDERS)
        assert found.holder is not None
        assert found.holder.txn_id == staged.holder
        figures = await statistics.gather(records, now_ms)
        assert (figures.operations, figures.unapplied, figures.aborted) == (5, 1, {BILLS: 1})
        assert records.odd == []


@pytest.mark.parametrize("lesser", LESSER)
def test_every_store_shows_the_same(lesser: str) -> None:
    asyncio.run(check_answers(lesser))


@pytest.mark.peers
@pytest.mark.parametrize("sorting", SORTINGS)
def test_a_real_oxia_shows_the_same(sorting: Sorting) -> None:
    with oxia_server(4, sorting) as server:
        asyncio.run(check_answers(f"oxia://{server.address}?key_sorting={sorting}"))
