"""The watch contract over a real service that is killed, with lines that break, and a log trimmed under watchers.

TIDEMARK_WATCH_ROUNDS is the number of runs of each kind, by default 1; each takes some seconds, most of them for
restarts. A run is named by its seed, which decides everything but when the processes get to run.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from crash_server import SmallServer

from metastore.interface import BatchKind, InvalidToken, Put, Range, TokenExpired
from support.server import ServerProcess
from watch_contract.line import Line
from watch_contract.stage import Plan, Stage
from watch_contract.tokens import offsets_of
from watch_contract.troubles import Troubles, opener
from watch_contract.verdict import report

RUNS = int(os.environ.get("TIDEMARK_WATCH_ROUNDS", "1"))
KILLS, BREAKS = 3, 6
CHANGES, RESUMES = 500, 8
RETENTION_MS = 100
CUTS = 12
MANY, MANY_KEYS, MANY_BYTES = Range("/many/", "/many/~"), 200, 5_000


async def run(server: ServerProcess, plan: Plan, is_settled: bool) -> Counter[str]:
    """The counts of a run without violations."""
    async with Line(server.port) as line:
        troubles = Troubles(server, line, plan.seed, KILLS, BREAKS, is_settled)
        stage = Stage(plan, opener(server.address), opener(line.address))
        findings = await stage.run(troubles.make)
        assert not findings.violations, f"seed {plan.seed}: {report(findings)}"
        return findings.counts + Counter({"kills": troubles.kills, "breaks": line.breaks})


@pytest.mark.timeout(120 + 60 * RUNS)
@pytest.mark.parametrize("shards", [1, 8])
def test_watchers_of_a_killed_server_see_everything_once(shards: int) -> None:
    counts = Counter[str]()
    least = {"changes": CHANGES, "resumes": RESUMES}
    for seed in range(1000 * shards, 1000 * shards + RUNS):
        with ServerProcess(shards) as server:
            counts += asyncio.run(run(server, Plan(seed, shards, rounds=90, least=least), is_settled=False))
    print(dict(counts))
    assert counts["kills"] == KILLS * RUNS
    assert counts["breaks"] == BREAKS * RUNS
    assert counts["changes"] >= CHANGES * RUNS
    assert counts["resumes"] >= RESUMES * RUNS


@pytest.mark.timeout(120 + 60 * RUNS)
def test_watchers_of_a_server_that_trims_are_told_what_they_missed() -> None:
    """The witness has to see everything, so the server is killed when that has, and no write is under way.

    Nobody asks for previous values: they are kept for a retention after the last one who did, here a tenth of a second.
    """
    counts = Counter[str]()
    for seed in range(500, 500 + RUNS):
        with SmallServer(1, extra_args=["--notifications-retention-time", f"{RETENTION_MS}ms"]) as server:
            least = {"changes": CHANGES, "expiries": 1}
            plan = Plan(seed, 1, rounds=130, least=least, retention_ms=RETENTION_MS, may_ask_previous=False)
            counts += asyncio.run(run(server, plan, is_settled=True))
    print(dict(counts))
    assert counts["kills"] == KILLS * RUNS
    assert counts["breaks"] == BREAKS * RUNS
    assert counts["changes"] >= CHANGES * RUNS
    assert counts["expiries"] >= RUNS


def test_a_write_of_many_keys_is_told_once_wherever_the_line_breaks() -> None:
    """It comes in several messages. A watch that goes on behind a break tells no part of it, nor all again."""

    async def scenario(server: ServerProcess) -> int:
        async with (
            Line(server.port) as line,
            opener(server.address)() as writer,
            opener(line.address)() as reader,
            reader.watch(MANY, snapshot=False) as watch,
        ):
            await anext(watch)
            for number in range(CUTS):
                line.break_after(1 + number * MANY_KEYS * MANY_BYTES // CUTS)
                await writer.transact("p", [Put(f"/many/{key}", bytes(MANY_BYTES)) for key in range(MANY_KEYS)])
                batch = await anext(watch)
                while batch.kind is not BatchKind.CHANGES:
                    batch = await anext(watch)
                assert len(batch.changes) == MANY_KEYS
                assert len({(change.offset, change.key) for change in batch.changes}) == MANY_KEYS
                assert {change.record and change.record.version.modifications for change in batch.changes} == {number}
            return line.breaks

    with ServerProcess() as server:
        assert asyncio.run(scenario(server)) == CUTS


def test_a_store_that_went_back_in_time_is_found_out() -> None:
    """An older copy of the data is served: a watch and a token that know more of it say so, instead of skipping."""

    async def scenario(server: ServerProcess, copy: Path) -> None:
        async with opener(server.address)() as store, store.watch(MANY, snapshot=False) as watch:
            token = (await anext(watch)).token
            assert token is not None
            await asyncio.to_thread(server.terminate)
            shutil.copytree(server.data_directory, copy)
            await asyncio.to_thread(server.start)
            for _ in range(3):
                await store.put("/many/a", b"lost")
            told = offsets_of(token)[0]
            while told < offsets_of(token)[0] + 3:
                batch = await anext(watch)
                token_ahead, told = batch.token, told + len(batch.changes)
            await asyncio.to_thread(server.terminate)
            shutil.rmtree(server.data_directory)
            shutil.copytree(copy, server.data_directory)
            await asyncio.to_thread(server.start)
            with pytest.raises((TokenExpired, InvalidToken)):
                await anext(watch)
        async with opener(server.address)() as store, store.watch(MANY, resume=token_ahead) as watch:
            with pytest.raises((TokenExpired, InvalidToken)):
                await anext(watch)

    with ServerProcess() as server:
        asyncio.run(scenario(server, server.directory / "copy"))
