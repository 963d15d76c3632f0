"""`tidemark standalone` as a process: it serves all that it says, and dies and comes back in every way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest
from standalone_helpers import ANY, FREE_PORTS, WITHIN_S, StandaloneProcess, command, lives

from controller.client import EARLIEST, connect
from metastore.commandline import main
from metastore.interface import open_store
from support.stock_client import stock_client

TOPIC = "topic://public/default/orders"
BETWEEN_LOOKS_S = 0.02


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=WITHIN_S) as answer:
        return str(answer.read().decode())


def until_gone(*pids: int) -> None:
    due_s = time.monotonic() + WITHIN_S
    while any(map(lives, pids)):
        assert time.monotonic() < due_s, f"one of {pids} lives"
        time.sleep(BETWEEN_LOOKS_S)


async def send(url: str, *payloads: bytes) -> None:
    async with asyncio.timeout(WITHIN_S), await connect(url) as client, await client.producer(TOPIC) as producer:
        for payload in payloads:
            await producer.send(payload, key="k")


async def receive(url: str, count: int) -> list[bytes]:
    async with (
        asyncio.timeout(WITHIN_S),
        await connect(url) as client,
        await client.checkpoint_consumer(TOPIC, start=EARLIEST) as consumer,
    ):
        return [(await consumer.receive()).payload for _ in range(count)]


def test_everything_is_there_and_everything_is_found_again() -> None:
    with StandaloneProcess() as one:
        asyncio.run(send(one.url, b"a", b"b"))
        assert asyncio.run(receive(one.url, 2)) == [b"a", b"b"]
        listed = json.loads(fetched(f"{one.places['admin']}/admin/v2/scalable/public/default"))
        assert listed == [TOPIC]
        assert "oxia_server" in fetched(one.places["metrics"]) or "tidemark_" in fetched(one.places["metrics"])
        assert "tidemark_topics_led 1.0" in fetched(f"http://127.0.0.1:{one.places['broker_metrics']}/metrics")
        child = one.child()
        assert one.end(signal.SIGTERM) == 0, one.log
        until_gone(child)
        assert "Traceback" not in one.log
        told = [line.split(" INFO tidemark.standalone: ")[1] for line in one.lines if "tidemark.standalone" in line]
        assert [line.split()[0] for line in told] == ["ready", "asked", "stopped"]
        one.start()
        assert asyncio.run(receive(one.url, 2)) == [b"a", b"b"]
        assert one.end(signal.SIGINT) == 0, one.log


def test_the_metadata_is_for_oxia_clients_and_for_the_contract_of_stores() -> None:
    async def keys() -> list[str]:
        async with await open_store(one.store_url) as store:
            return [key async for key in store.list()]

    with StandaloneProcess("--shards", "2") as one:
        asyncio.run(send(one.url, b"a"))
        with stock_client(one.places["metadata"]) as client:
            client.put("/mine", "here")
        found = asyncio.run(keys())
        assert "/mine" in found
        assert len(found) > 1


def test_a_metadata_service_that_is_killed_comes_back_and_nothing_is_lost() -> None:
    async def scenario(one: StandaloneProcess) -> list[bytes]:
        async with (
            asyncio.timeout(WITHIN_S),
            await connect(one.url) as client,
            await client.producer(TOPIC) as producer,
        ):
            await producer.send(b"0", key="k")
            victim = one.child()
            os.kill(victim, signal.SIGKILL)
            await asyncio.to_thread(until_gone, victim)
            await client.topics.create("another")
            for number in range(1, 5):
                await producer.send(b"%d" % number, key="k")
            assert one.child() != victim
        return await receive(one.url, 5)

    with StandaloneProcess() as one:
        places = dict(one.places)
        assert asyncio.run(scenario(one)) == [b"0", b"1", b"2", b"3", b"4"]
        assert "the metadata service ended with code -9; starting it again" in one.log
        assert f"the metadata service is back on {places['metadata']}" in one.log
        assert one.end(signal.SIGTERM) == 0


@pytest.mark.parametrize("log", ["local", "metastore"])
def test_kill_9_leaves_no_process_and_the_next_start_finds_everything(log: str) -> None:
    with StandaloneProcess("--log", log, "--session-timeout-ms", "2000") as one:
        asyncio.run(send(one.url, b"a", b"b"))
        child = one.child()
        one.end(signal.SIGKILL)
        one.start()  # at once: it waits for the child
        assert not lives(child)
        assert asyncio.run(receive(one.url, 2)) == [b"a", b"b"]
        asyncio.run(send(one.url, b"c"))
        child = one.child()
        one.end(signal.SIGKILL)
        until_gone(child)


def test_a_directory_has_one_at_a_time() -> None:
    with StandaloneProcess() as one:
        ended = refused("--data-dir", str(one.data_dir), *FREE_PORTS)
        assert ended.returncode == 1
        assert "is in use by another `tidemark standalone`" in ended.stderr


@pytest.mark.parametrize("option", ["--listen", "--admin", "--metadata", "--metrics-port", "--metadata-metrics-port"])
def test_a_port_that_is_taken_is_named(option: str, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        value = str(port) if option.endswith("-port") else f"127.0.0.1:{port}"
        ended = refused("--data-dir", str(tmp_path), *FREE_PORTS, option, value)
    *_, told = ended.stderr.splitlines()  # gRPC may have printed words of its own before
    assert (ended.returncode, "Traceback" in ended.stderr) == (1, False)
    assert told.startswith("tidemark: ")
    assert str(port) in told
    assert "in use" in told.lower() or "taken" in told
    assert processes_on(tmp_path) == []


def processes_on(directory: Path) -> list[str]:
    """The command lines of what runs on a directory."""
    lines = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(each.read_bytes().decode(errors="replace"))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [line for line in lines if f"{directory}/metadata" in line]


def refused(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=WITHIN_S)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--metadata", "nowhere"), "metadata: HOST:PORT is expected"),
        (("--metadata", "0.0.0.0:0"), "keep it on this machine"),
        (("--metadata-metrics-port", "70000"), "metadata-metrics-port must be between"),
        (("--shards", "0"), "shards must be at least 1"),
        (("--listen", "nowhere"), "listen: HOST:PORT is expected"),
        (("--admin", "0.0.0.0:0"), "admin 0.0.0.0:0 is open to the network"),
        (("--scalable-topic-max-segments", "0"), "maxSegments"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    arguments: Sequence[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["standalone", "--data-dir", str(tmp_path / "data"), *arguments]) == 2
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert words in told.err
    assert not (tmp_path / "data").exists()


def test_another_number_of_shards_than_there_is_is_refused(tmp_path: Path) -> None:
    with StandaloneProcess() as one:
        assert one.end(signal.SIGTERM) == 0
        ended = refused("--data-dir", str(one.data_dir), *FREE_PORTS, "--shards", "2")
    assert ended.returncode == 1
    assert "has 1 shards, not 2" in ended.stderr
    assert "--shards 1" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_its_help_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["standalone", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for words in ("examples:", "--metadata HOST:PORT", "--scalable-topic-max-segments", ANY):
        assert words in text
