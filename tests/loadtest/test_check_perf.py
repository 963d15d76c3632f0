"""`tidemark check perf` on real services: the verdict is that of its figures, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from controller.client import connect
from loadtest.check.command import DEFAULT_PREFIX
from metastore.interface import BatchKind, children_of, open_store
from support.broker_process import BrokerProcess
from support.server import ServerProcess

TOPIC = DEFAULT_PREFIX.strip("/")
WITHIN_S = 60.0
CHECK = (sys.executable, "-m", "metastore.commandline", "check", "perf")


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as server:
        yield server


def check(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*CHECK, *arguments], capture_output=True, text=True, timeout=WITHIN_S, env=os.environ)


def rows(ended: subprocess.CompletedProcess[str], kind: str) -> list[dict[str, Any]]:
    return [row for row in map(json.loads, ended.stdout.splitlines()) if row["type"] == kind]


def is_verdict_passed(profile: dict[str, Any]) -> bool:
    """What a profile's row says, which is what its figures and the documented bounds mean."""
    means_passed = bool(
        profile["failed"] == 0
        and profile["reached_per_s"] >= 0.9 * profile["wanted_per_s"]
        and profile["slowest_ms"] <= 500
        and profile["p99_ms"] <= 100
        and profile["deviation_ms"] <= 100
    )
    assert profile["verdict"] == ("PASS" if means_passed else "FAIL"), profile
    assert profile["conclusion"]
    return means_passed


async def keys_left(server: ServerProcess) -> list[str]:
    async with await open_store(f"oxia://{server.address}") as store:
        return [key async for key in store.list(children_of(DEFAULT_PREFIX))]


async def put(server: ServerProcess, key: str, value: bytes) -> None:
    async with await open_store(f"oxia://{server.address}") as store:
        await store.put(key, value)


def test_puts_are_checked_and_removed(server: ServerProcess) -> None:
    where = (f"oxia://{server.address}", "--metrics", server.metrics_address)
    ended = check(*where, "--profile", "s", "--time", "1s", "--json")
    assert ended.stderr == ""
    (profile,) = rows(ended, "profile")
    # How fast this machine is at the moment is not what is tested, but that the verdict follows from what is told.
    assert ended.returncode == (0 if is_verdict_passed(profile) else 1)
    assert profile["answered"] + profile["failed"] == pytest.approx(150, abs=1)
    assert (profile["failed"], len(rows(ended, "slowest"))) == (0, 5)
    assert all(row["what"].startswith(DEFAULT_PREFIX + "/") for row in rows(ended, "slowest"))
    assert {"server's processor", "disk", "network", "all processors", "this program"} <= {
        row["resource"] for row in rows(ended, "used")
    }
    assert asyncio.run(keys_left(server)) == []


def test_people_get_tables_and_what_cannot_be_known_is_said(server: ServerProcess) -> None:
    nowhere = "127.0.0.1:1"
    ended = check(f"oxia://{server.address}", "--metrics", nowhere, "--profile", "s", "--time", "1s")
    assert "WANTED/S" in ended.stdout
    assert f"Not known: the metrics at {nowhere}" in ended.stdout
    assert ended.stdout.rstrip().splitlines()[-1].startswith(("PASS: records", "FAIL: records"))


def test_it_does_not_begin_where_something_is(server: ServerProcess) -> None:
    where, small = f"oxia://{server.address}", ("--profile", "s", "--time", "1s")
    key = f"{DEFAULT_PREFIX}/000001"
    asyncio.run(put(server, key, b"tidemark check perf leftover"))
    refused = check(where, *small)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--discard" in refused.stderr
    assert asyncio.run(keys_left(server)) == [key]
    assert rows(check(where, *small, "--discard", "--json"), "profile")
    assert asyncio.run(keys_left(server)) == []

    asyncio.run(put(server, key, b"somebody's"))
    refused = check(where, *small, "--discard")
    assert refused.returncode == 2
    assert "has not made" in refused.stderr
    assert asyncio.run(keys_left(server)) == [key]
    elsewhere = check(where, *small, "--prefix", "/elsewhere", "--json")
    assert all(row["what"].startswith("/elsewhere/") for row in rows(elsewhere, "slowest"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_check_leaves_nothing(number: signal.Signals) -> None:
    async def interrupted(server: ServerProcess) -> tuple[int, bytes]:
        async with (
            await open_store(f"oxia://{server.address}") as store,
            store.watch(children_of(DEFAULT_PREFIX), snapshot=False) as watch,
        ):
            process = await asyncio.create_subprocess_exec(
                *CHECK, f"oxia://{server.address}", "--time", "60s", stderr=asyncio.subprocess.PIPE
            )
            async for batch in watch:
                if batch.kind is BatchKind.CHANGES:
                    break
            process.send_signal(number)
            _, told = await process.communicate()
            assert process.returncode is not None
            return process.returncode, told

    with ServerProcess() as server:
        code, told = asyncio.run(interrupted(server))
        assert (code, told.count(b"\n")) == (128 + number, 1)
        assert asyncio.run(keys_left(server)) == []


def test_messages_and_transactions_are_checked_and_their_topic_is_deleted(server: ServerProcess) -> None:
    async def topics(broker: BrokerProcess) -> list[str]:
        async with await connect(f"tidemark://{broker.address}") as client:
            return [each async for each in client.topics.list("public/default")]

    async def create(broker: BrokerProcess) -> None:
        async with await connect(f"tidemark://{broker.address}") as client:
            await client.topics.create(TOPIC)

    with BrokerProcess(f"oxia://{server.address}") as broker:
        asyncio.run(broker.ready())
        where = (f"tidemark://{broker.address}", "--profile", "s", "--time", "2s", "--json")
        metrics = ("--metrics", f"127.0.0.1:{broker.metrics_port}", "--metrics", server.metrics_address)
        ended = check(*where, *metrics)
        assert ended.stderr == ""
        profiles = rows(ended, "profile")
        assert [row["work"] for row in profiles] == ["messages", "transactions"]
        assert [row["failed"] for row in profiles] == [0, 0]
        inside = [row["work"] for row in rows(ended, "inside") if "log of a segment" in row["text"]]
        assert inside == ["messages", "transactions"]
        assert ended.returncode == (0 if all(list(map(is_verdict_passed, profiles))) else 1)
        assert asyncio.run(topics(broker)) == []

        asyncio.run(create(broker))
        refused = check(*where, "--discard")
        assert refused.returncode == 2
        assert "was not made by this check" in refused.stderr
        assert len(asyncio.run(topics(broker))) == 1


def test_nobody_there_is_said_in_one_line() -> None:
    ended = check("oxia://127.0.0.1:1", "--time", "1s")
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert "nobody listens at 127.0.0.1:1" in ended.stderr
