"""`Standalone` in a program: what it is entered for, and what becomes of it when something cannot be."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from standalone_helpers import WITHIN_S, children, lives

from controller.admin import AdminListenError
from controller.broker import BrokerConfig, ConfigError
from controller.client import connect, embedded
from controller.standalone import DirectoryTaken, MetadataFailed, Standalone, StandaloneConfig
from controller.standalone.config import url_of
from controller.standalone.locking import INHERITED, ORPHAN_WITHIN_S, DirectoryLock
from controller.standalone.relaying import LINE_BYTES_MAX, read, relay
from metastore.clock import ManualClock
from metastore.coordination import Pace
from metastore.interface import open_store
from support.log_lines import lines_of

TOPIC = "topic://public/default/orders"


def test_clients_stores_and_other_brokers_use_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(WITHIN_S), Standalone(StandaloneConfig.on_free_ports(tmp_path)) as one:
            assert one.admin_url is not None
            assert one.admin_url.startswith("http://127.0.0.1:")
            async with await connect(one.url) as client, await client.producer(TOPIC) as producer:
                await producer.send(b"two bicycles")
            async with await embedded(one.store_url) as client:
                assert [name async for name in client.topics.list("public/default")] == [TOPIC]
            async with await open_store(one.store_url) as store:
                assert [key async for key in store.list()]
            pid = one.metadata.pid
            assert pid is not None
            assert lives(pid)
        assert not lives(pid)

    asyncio.run(scenario())
    assert {each.name for each in tmp_path.iterdir()} == {"LOCK", "LOCK.metadata", "metadata", "segments"}


def test_what_its_block_raises_comes_out_as_it_is(tmp_path: Path) -> None:
    others = children(os.getpid())  # of other tests' libraries

    async def scenario() -> None:
        async with asyncio.timeout(WITHIN_S), Standalone(StandaloneConfig.on_free_ports(tmp_path)):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        asyncio.run(scenario())
    assert set(children(os.getpid())) <= set(others)


def test_an_address_that_is_taken_leaves_nothing_running(tmp_path: Path) -> None:
    others = children(os.getpid())

    async def scenario() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        async with asyncio.timeout(WITHIN_S), server:
            taken = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with pytest.raises(AdminListenError, match=taken):
                await Standalone(StandaloneConfig.on_free_ports(tmp_path, admin=taken)).__aenter__()
            assert set(children(os.getpid())) <= set(others)
            metadata = StandaloneConfig(tmp_path, taken, 0, broker=StandaloneConfig.on_free_ports(tmp_path).broker)
            with pytest.raises(MetadataFailed, match=f"cannot listen on {taken}"):
                await Standalone(metadata).__aenter__()
            assert set(children(os.getpid())) <= set(others)
            async with Standalone(StandaloneConfig.on_free_ports(tmp_path, admin=None)) as one:
                assert one.admin_url is None

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (StandaloneConfig(metadata="nowhere"), "metadata: HOST:PORT"),
        (StandaloneConfig(metadata="0.0.0.0:6648"), "open to the network"),
        (StandaloneConfig(metadata_metrics_port=-1), "metadata-metrics-port"),
        (StandaloneConfig(shards=0), "shards must be"),
        (StandaloneConfig(broker=BrokerConfig(log="paper")), "log must be one of"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(config: StandaloneConfig, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Standalone(config)


def test_a_trusted_network_is_served_and_its_metadata_is_reached_from_here() -> None:
    broker = BrokerConfig(listen="0.0.0.0:6650", advertise="here:6650", insecure=True)
    assert StandaloneConfig(metadata="0.0.0.0:6648", broker=broker).check().metadata_metrics == "0.0.0.0:8080"
    assert url_of("0.0.0.0:6648") == "oxia://127.0.0.1:6648"
    assert url_of("[::]:6648") == "oxia://[::1]:6648"
    assert url_of("127.0.0.1:1") == "oxia://127.0.0.1:1"


# ---- locks


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Somebody else has this lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def test_the_rest_of_a_dead_one_is_waited_for(tmp_path: Path) -> None:
    slept: list[float] = []

    async def scenario() -> None:
        with held(tmp_path / INHERITED):
            clock = ManualClock()

            async def sleep(seconds: float) -> None:
                slept.append(seconds)
                clock.advance_ms(round(seconds * 1000))

            with pytest.raises(DirectoryTaken, match="does not end within 10 s"):
                await DirectoryLock(tmp_path, Pace(clock=clock, sleep=sleep)).take()
            assert sum(slept) >= ORPHAN_WITHIN_S
        lock = DirectoryLock(tmp_path, Pace())
        await lock.take()
        with pytest.raises(DirectoryTaken, match="in use by another"):
            await DirectoryLock(tmp_path, Pace()).take()
        lock.close()
        lock.close()

    asyncio.run(scenario())


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DirectoryTaken, match="cannot be used: "):
        asyncio.run(DirectoryLock(tmp_path / "file", Pace()).take())


# ---- the log


def test_log_lines_of_the_metadata_service_are_ours(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        lines = asyncio.StreamReader(limit=LINE_BYTES_MAX)
        lines.feed_data(b'{"level": "warning", "message": "a", "trace": "b"}\n')
        lines.feed_data(b"x" * (2 * LINE_BYTES_MAX) + b"\nc\n")
        lines.feed_eof()
        await relay(lines)

    with caplog.at_level(logging.DEBUG, logger="tidemark.metastore"):
        asyncio.run(scenario())
    assert lines_of("tidemark.metastore", caplog) == [
        "a\nb",
        f"the metadata service has logged more than {LINE_BYTES_MAX} bytes at once: left out",
        "c",
    ]


@pytest.mark.parametrize(
    ("line", "level", "text"),
    [
        ('{"level": "info", "message": "ready"}', logging.DEBUG, "ready"),
        ('{"level": "error", "message": "bad", "trace": "where"}', logging.ERROR, "bad\nwhere"),
        ('{"level": "strange", "message": "x"}', logging.WARNING, '{"level": "strange", "message": "x"}'),
        ("[1]", logging.WARNING, "[1]"),
        ("Fatal Python error", logging.WARNING, "Fatal Python error"),
    ],
)
def test_what_is_no_record_is_a_warning(line: str, level: int, text: str) -> None:
    assert read(line) == (level, text)
