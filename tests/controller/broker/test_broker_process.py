"""`tidemark broker` as a process: it starts, says so, stops when it is asked to, and is followed when it is killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import grpc
import pytest

from controller.pb import broker_pb2 as pb
from metastore.commandline import main
from metastore.coordination import Pace, View
from metastore.interface import exactly, open_store
from support.broker_helpers import (
    WireClient,
    answers,
    published,
    read_all,
    sends,
)
from support.broker_process import BrokerProcess
from support.server import ServerProcess
from txn.hosting import Owner
from txn.model import paths

LONG_S = 60


def test_it_serves_until_it_is_asked_to_stop(tmp_path: Path) -> None:
    async def scenario(process: BrokerProcess) -> None:
        await process.ready()
        async with WireClient(process.address) as client:
            await client.call("CreateSegment", segment="s")
            await published(client, "s", "a")
            producer = await client.produce("s", "p")
            ended = await asyncio.to_thread(process.terminate)
            refused = await producer.refusal()
            assert (refused.name, refused.code) == ("BrokerStopping", grpc.StatusCode.UNAVAILABLE)
        assert ended == 0, process.log
        assert f"ready on {process.address}: broker here" in process.log
        assert "Traceback" not in process.log

    url, data = f"lmdb://{tmp_path}/store", str(tmp_path / "segments")
    for _ in range(2):
        with BrokerProcess(url, "--data-dir", data, "--name", "here") as process:
            asyncio.run(scenario(process))


def test_it_says_everything_as_json_if_asked_to(tmp_path: Path) -> None:
    async def scenario() -> None:
        with BrokerProcess("memory://", "--log", "metastore", "--log-json") as process:
            await process.ready()
            assert await asyncio.to_thread(process.terminate) == 0
            lines = [json.loads(line) for line in process.log.splitlines()]
            assert {"time", "level", "logger", "message"} == set(lines[0])
            assert lines[-1]["message"] == "stopped"

    asyncio.run(scenario())


async def other_owner(url: str, broker: str) -> None:
    """Returns when the segment has another owner, which takes as long as a session lasts."""
    async with (
        asyncio.timeout(LONG_S),
        await open_store(url) as store,
        View(store, exactly(paths.owner_key("s")), partition_key="s", pace=Pace()) as view,
    ):
        while not view.records or any(Owner.of_grant(each).broker == broker for each in view.records.values()):
            await view.news()


@pytest.mark.parametrize("log", ["local", "metastore"])
def test_one_that_is_killed_is_followed_and_nothing_is_lost(log: str, tmp_path: Path) -> None:
    arguments = ("--log", log, "--data-dir", str(tmp_path / "segments"), "--session-timeout-ms", "2000")

    async def scenario(url: str, first: BrokerProcess, second: BrokerProcess) -> None:
        await first.ready()
        await second.ready()
        async with WireClient(first.address) as one, WireClient(second.address) as two:
            await one.call("CreateSegment", segment="s")
            owner = await one.call("LookupSegment", segment="s")
            victim, left, client = (first, two, one) if owner.address == first.address else (second, one, two)
            txn_id = (await client.call("BeginTransaction", timeout_ms=60_000)).txn_id
            producer = await client.produce("s", "p")
            await producer.say(sends("a"))
            await producer.say(sends("b", first=1, txn_id=txn_id))
            await answers(producer, 2)
            await asyncio.to_thread(victim.kill)
            await other_owner(url, owner.broker)
            later = await left.call("LookupSegment", segment="s")
            assert later.address != owner.address
            assert later.term > owner.term
            assert await read_all(left, "s") == ["a"]
            producer = await left.produce("s", "p")
            await producer.say(sends("a"))
            await producer.say(sends("b", first=1, txn_id=txn_id))
            await producer.say(sends("c", first=2))
            assert [each.is_duplicate for each in await answers(producer, 3)] == [True, True, False]
            await left.call("EndTransaction", txn_id=txn_id, outcome=pb.COMMIT)
            reader = left.read("s", is_following=True, entries_max=3)
            await reader.next()
            read: list[bytes] = []
            while (response := await reader.next()) is not None:
                read += [each.payload for each in response.deliveries.deliveries]
            assert read == [b"a", b"b", b"c"]

    with ServerProcess() as server:
        url = f"oxia://{server.address}"
        with BrokerProcess(url, *arguments) as first, BrokerProcess(url, *arguments) as second:
            asyncio.run(scenario(url, first, second))


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "store must be the URL"),
        (("--store", "memory://", "--listen", "nowhere"), 2, "listen"),
        (("--store", "strange://"), 2, "unknown scheme 'strange'"),
        (("--store", "memory://", "--tokens-file", "/no/such/file"), 1, "cannot be read"),
        (("--config", "/no/such/file"), 2, "cannot be read"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(arguments: Sequence[str], code: int, words: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "metastore.commandline", "broker", "--metrics-port", "0", *arguments]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LONG_S)
    assert ended.returncode == code
    assert words in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stdout == ""


def test_its_help_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["broker", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for words in ("examples:", "--tls-client-ca-file", "--session-timeout-ms", "local,metastore"):
        assert words in text
