"""URLs and directories of the embedded store: what opens, what is refused and how, and what survives."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import local_writer
import pytest
from local_helpers import WITHIN_S, opened, run

import metastore
from metastore.directory import DataDirectory, NamespaceConfig
from metastore.interface import (
    Environment,
    InvalidUrl,
    StoreClosed,
    StoreError,
    StoreFailed,
    StoreUrl,
    Unavailable,
    open_store,
)
from metastore.providers.local import opening
from metastore.providers.local.data import OpenDirectory
from metastore.providers.local.settings import Settings
from support.server import ServerProcess

ACKNOWLEDGED = 400


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("lmdb://", "names no directory"),
        ("lmdb:///", "names no directory"),
        ("lmdb://.", "names no directory"),
        ("lmdb:///a%00b", "names no directory"),
        ("lmdb://var/lib/x", "names a host"),
        ("lmdb://.:80/x", "names a host"),
        ("lmdb://a,b/x", "names a host"),
        ("lmdb:///x?shard=2", "unknown option 'shard'"),
        ("lmdb:///x?shards=0", "between 1 and 1024"),
        ("lmdb:///x?shards=1025", "between 1 and 1024"),
        ("lmdb:///x?shards=two", "no number of shards"),
        ("lmdb:///x?key_sorting=random", "hierarchical, natural"),
        ("lmdb:///x?sync=yes", "true or false"),
        ("lmdb:///x?retention=long", "not a duration"),
        ("lmdb:///x?quota=much", "not a size"),
        ("lmdb:///x?quota=0", "must be positive"),
        ("lmdb:///x?namespace=a/b", "letters, digits"),
    ],
)
def test_a_bad_url_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(InvalidUrl, match=complaint):
        Settings.of(StoreUrl.parse(url))


def test_what_a_url_says() -> None:
    def settings(url: str) -> Settings:
        return Settings.of(StoreUrl.parse(url))

    assert settings("lmdb:///var/lib/x").path == Path("/var/lib/x")
    assert settings("lmdb:///a%20b").path == Path("/a b")
    assert settings("lmdb://./beside/x").path == Path("beside/x")
    assert settings("lmdb://../x").path == Path("../x")
    plain, full = settings("lmdb:///x").options, settings("lmdb:///x?sync=false&retention=90s&quota=1GiB").options
    assert (plain.log.sync, plain.retention_ms, plain.quota_bytes) == (True, 3_600_000, None)
    assert (full.log.sync, full.retention_ms, full.quota_bytes) == (False, 90_000, 1 << 30)


def test_a_relative_path_is_beside_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario() -> None:
        async with await open_store("lmdb://./deep/down") as store:
            await store.put("/a", b"1")

    run(scenario)
    assert (tmp_path / "deep" / "down" / "tidemark.json").exists()


def test_a_directory_keeps_its_shape(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path, "shards=3&key_sorting=natural") as store:
            for number in range(20):
                await store.put(f"/{number}/x", b"")
        async with await opened(tmp_path) as store:
            assert (len(store.shards), store.key_sorting) == (3, "natural")
            assert len([key async for key in store.list()]) == 20
        for options in ("shards=2", "key_sorting=hierarchical", "shards=4&key_sorting=natural"):
            with pytest.raises(InvalidUrl, match="Ask for"):
                await opened(tmp_path, options)
        async with await opened(tmp_path, "namespace=other&shards=2") as store:
            assert [shard.shard_id for shard in store.shards] == [3, 4]
            assert [key async for key in store.list()] == []

    run(scenario)


def test_a_directory_is_one_store_s_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path):
            with pytest.raises(Unavailable, match="in use by another process"):
                await opened(tmp_path)
        async with await opened(tmp_path):
            pass

    run(scenario)


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    async def refusal(path: Path) -> StoreError:
        with pytest.raises(StoreFailed) as refused:
            await opened(path)
        return refused.value

    async def scenario() -> None:
        (tmp_path / "file").write_text("")
        assert "cannot be used" in str(await refusal(tmp_path / "file"))
        (tmp_path / "broken").mkdir()
        (tmp_path / "broken" / "tidemark.json").write_text("{")
        assert "damaged" in str(await refusal(tmp_path / "broken"))
        async with await opened(tmp_path / "lost") as store:
            await store.put("/a", b"")
        for segment in (tmp_path / "lost" / "shards" / "0000" / "log").iterdir():
            segment.write_bytes(b"x" * 100)
        assert "0000" in str(await refusal(tmp_path / "lost"))

    run(scenario)


def test_cancelling_the_opening_leaves_the_directory_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, may_go_on, closed = threading.Event(), threading.Event(), threading.Event()

    class SlowDirectory(OpenDirectory):
        def __init__(self, settings: Settings, environment: Environment) -> None:
            begun.set()
            assert may_go_on.wait(WITHIN_S)
            super().__init__(settings, environment)

        def close(self) -> None:
            super().close()
            closed.set()

    monkeypatch.setattr(opening, "OpenDirectory", SlowDirectory)

    async def scenario() -> None:
        in_thread = asyncio.get_running_loop().run_in_executor
        cancelled = asyncio.ensure_future(opened(tmp_path))
        await in_thread(None, begun.wait)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        may_go_on.set()
        await in_thread(None, closed.wait)
        async with await opened(tmp_path):
            pass

    run(scenario)


def test_a_server_and_a_program_take_turns_on_a_directory() -> None:
    with ServerProcess(shards=3) as server:

        async def through_the_server() -> None:
            async with await open_store(f"oxia://{server.address}") as store:
                await asyncio.gather(*(store.put(f"/{number}", b"server") for number in range(50)))

        async def in_process() -> None:
            async with await opened(server.data_directory) as store:
                assert len(store.shards) == 3
                assert len([key async for key in store.list()]) == 50
                await asyncio.gather(*(store.put(f"/{number}", b"program") for number in range(50)))

        async def through_the_server_again() -> None:
            async with await open_store(f"oxia://{server.address}") as store:
                records = [record async for record in store.scan()]
                assert {record.value for record in records} == {b"program"}
                assert len(records) == 50

        run(through_the_server)
        server.terminate()
        run(in_process)
        server.start()
        run(through_the_server_again)


def test_the_directory_of_a_server_without_an_identity_gets_one(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    first.namespaces((NamespaceConfig(),))
    first.close()
    manifest = tmp_path / "tidemark.json"
    manifest.write_text(manifest.read_text().replace(f'"identity": "{first.identity}",', ""))
    second = DataDirectory(tmp_path)
    second.namespaces((NamespaceConfig(),))
    second.close()
    third = DataDirectory(tmp_path)
    third.close()
    assert first.identity != second.identity == third.identity


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    root = str(Path(metastore.__path__[0]).parent)
    writer = subprocess.Popen(
        [sys.executable, local_writer.__file__, f"lmdb://{tmp_path}?shards=2"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert writer.stdout is not None
    told = [writer.stdout.readline() for _ in range(ACKNOWLEDGED)]
    writer.send_signal(signal.SIGKILL)
    rest, _ = writer.communicate()
    # The last line may be cut: then nobody was told that key.
    acknowledged = {line.rstrip() for line in [*told, *rest.splitlines(keepends=True)] if line.endswith("\n")}
    assert writer.returncode == -signal.SIGKILL

    async def scenario() -> None:
        async with await opened(tmp_path) as store:
            records = {record.key: record.value async for record in store.scan()}
            assert acknowledged <= set(records)
            assert all(value == key.encode() for key, value in records.items())
            assert {key async for key in store.list(index="by-number")} == set(records)

    run(scenario)
    assert len(acknowledged) >= ACKNOWLEDGED


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await opened(tmp_path)
        await store.put("/a", b"")
        keys = store.list()
        await store.close()
        await store.close()
        with pytest.raises(StoreClosed):
            await store.put("/a", b"")
        with pytest.raises(StoreClosed):
            await store.get("/a")
        with pytest.raises(StoreClosed):
            await anext(keys)
        with pytest.raises(StoreClosed):
            store.watch()
        with pytest.raises(StoreClosed):
            await store.open_session()

    run(scenario)
