"""On a real ZooKeeper: what a tree in memory cannot show."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from kazoo.security import make_digest_acl
from zookeeper_peer import bare_client, keys_at, writer_process

from metastore.interface import (
    ABSENT,
    AccessDenied,
    BatchKind,
    Change,
    ChangeKind,
    InvalidUrl,
    LimitExceeded,
    MetadataStore,
    OutcomeUnknown,
    Range,
    Retriable,
    SessionLost,
    StoreFailed,
    Unavailable,
    UnexpectedVersion,
    Watch,
    open_store,
)
from metastore.interface.checks import SESSION_TIMEOUT_MS_MIN
from metastore.providers.zookeeper import write
from metastore.providers.zookeeper.limits import ZK_VALUE_BYTES_MAX
from support.ports import LOOPBACK, free_port
from support.zookeeper import ZookeeperProcess

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def server() -> Iterator[ZookeeperProcess]:
    with ZookeeperProcess() as process:
        yield process


@asynccontextmanager
async def stores(url: str, count: int = 2) -> AsyncIterator[list[MetadataStore]]:
    """Several clients of one store, each with its own connection."""
    opened = await asyncio.gather(*[open_store(url) for _ in range(count)])
    try:
        yield opened
    finally:
        await asyncio.gather(*[store.close() for store in opened])


def run(scenario: Awaitable[None]) -> None:
    async def within_a_minute() -> None:
        async with asyncio.timeout(60):
            await scenario

    asyncio.run(within_a_minute())


async def begin(watch: Watch) -> dict[str, bytes | None]:
    """Reads the snapshot."""
    records: dict[str, bytes | None] = {}
    while (batch := await anext(watch)).kind is not BatchKind.SNAPSHOT_END:
        records.update({record.key: record.value for record in batch.records})
    return records


async def until(watch: Watch, is_last: Callable[[Change], bool]) -> list[Change]:
    """The changes up to one."""
    changes: list[Change] = []
    while not changes or not is_last(changes[-1]):
        changes += (await anext(watch)).changes
    return changes


def test_all_who_open_a_new_store_at_once_find_the_same_one(server: ZookeeperProcess) -> None:
    async def scenario() -> None:
        async with stores(server.url("opened/at/once"), 8) as opened:
            await opened[0].put("a", b"1")
            assert [await store.get("a") is not None for store in opened] == [True] * 8

    run(scenario())


def test_those_who_race_disturb_nothing(server: ZookeeperProcess) -> None:
    """For one record, one sequence, one index and one range."""

    async def write_all(store: MetadataStore, number: int) -> list[str]:
        keys = []
        for turn in range(15):
            keys.append((await store.put("s", b"", partition_key="p", sequence_deltas=[1])).key)
            await store.put(f"i/{number}", b"", indexes=[("i", f"{turn % 3}"), ("i", "x")])
            await store.delete_range(Range("r/", "r//"))
            await store.put(f"r/{number}-{turn}", b"")
            while True:
                found = await store.get("counter")
                value = 0 if found is None or found.value is None else int(found.value)
                expected = ABSENT if found is None else found.version.version_id
                try:
                    await store.put("counter", b"%d" % (value + 1), expected=expected)
                    break
                except UnexpectedVersion:
                    continue
        return keys

    async def scenario() -> None:
        async with stores(server.url("races"), 3) as opened:
            found = await asyncio.gather(*[write_all(store, number) for number, store in enumerate(opened)])
            keys = [key for each in found for key in each]
            assert sorted(keys) == [f"s-{number:020d}" for number in range(1, 46)]
            counter = await opened[0].get("counter")
            assert counter is not None
            assert counter.value == b"45"
            assert [key async for key in opened[1].list(Range("x", "y"), index="i")] == ["i/0", "i/1", "i/2"]

    run(scenario())
    assert len([key for key in keys_at(server, "races") if key.startswith("s-")]) == 45


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_process_that_dies_leaves_nothing_half(server: ZookeeperProcess, moment: str) -> None:
    async def survivors_see_to_it(url: str) -> None:
        async with await open_store(url) as store:
            watch = store.watch()
            records = await begin(watch)
            while any(key == "alive" or key.startswith("own/") for key in records):
                for change in (await anext(watch)).changes:
                    records.pop(change.key, None)
            await store.put("s", b"", partition_key="p", sequence_deltas=[1, 1])
            assert [key async for key in store.list(index="state")] == []

    for count in (1, 5, 8, 10, 12, 13, 25):
        path = f"crash-{moment}-{count}"
        with writer_process(server.url(path), f"zookeeper.commit.{moment}:{count}:kill") as process:
            assert process.wait(30) == -signal.SIGKILL
        keys_at(server, path)
        run(survivors_see_to_it(server.url(path)))
        assert "alive" not in keys_at(server, path)


def test_a_killed_owner_loses_its_records_and_watches_tell_it(server: ZookeeperProcess) -> None:
    async def scenario(url: str) -> None:
        async with await open_store(url) as store:
            with writer_process(url) as process:
                watch = store.watch(index="state")
                if "alive" not in await begin(watch):
                    await until(watch, lambda change: change.kind is ChangeKind.CREATED)
                process.kill()
                changes = await until(watch, lambda change: change.kind is ChangeKind.DELETED)
                assert (changes[-1].key, changes[-1].record) == ("alive", None)
                assert await store.get("alive") is None

    run(scenario(server.url("killed")))


def test_a_silent_server_ends_sessions_for_their_owners_first(server: ZookeeperProcess) -> None:
    async def scenario() -> None:
        async with stores(server.url("silent")) as (one, other):
            session = await one.open_session(SESSION_TIMEOUT_MS_MIN)
            await one.put("mine", b"", session=session)
            watch = other.watch()
            await begin(watch)
            server.freeze()
            try:
                await session.wait_lost()
                assert session.is_lost
                with pytest.raises(SessionLost):
                    await one.put("more", b"", session=session)
            finally:
                server.thaw()
            await until(watch, lambda change: change.key == "mine" and change.kind is ChangeKind.DELETED)
            assert await one.get("mine") is None
            async with await one.open_session(SESSION_TIMEOUT_MS_MIN) as again:
                await one.put("mine", b"", session=again, expected=ABSENT)

    run(scenario())
    assert keys_at(server, "silent") == []


def test_a_silent_server_leaves_a_write_undecided_and_a_read_undone(server: ZookeeperProcess) -> None:
    async def scenario() -> None:
        url = server.url("undecided", request_timeout="500ms")
        async with await open_store(url) as store, await open_store(server.url("undecided")) as patient:
            await store.put("a", b"1")
            server.freeze()
            try:
                with pytest.raises((OutcomeUnknown, Unavailable)):
                    await store.put("a", b"2")
                with pytest.raises(Unavailable):
                    await store.get("a")
                waiting = asyncio.ensure_future(patient.put("b", b"1"))
                await asyncio.sleep(0)
            finally:
                server.thaw()
            await waiting
            found = await patient.get("a")
            assert found is not None
            assert found.value in (b"1", b"2")

    run(scenario())
    assert keys_at(server, "undecided") == ["a", "b"]


def test_watches_and_writes_go_on_when_the_server_is_killed_and_comes_back(server: ZookeeperProcess) -> None:
    async def scenario() -> None:
        async with stores(server.url("restarts")) as (writer, watcher):
            watch, keys = watcher.watch(previous_values=True), watcher.watch_sequence("s", partition_key="p")
            assert await begin(watch) == {}

            async def write_on() -> int:
                acknowledged = 0
                while not is_back.is_set() or acknowledged < 30:
                    try:
                        await writer.put("s", b"%d" % acknowledged, partition_key="p", sequence_deltas=[1])
                        acknowledged += 1
                    except Retriable:
                        continue
                await writer.put("end", b"")
                return acknowledged

            is_back = asyncio.Event()
            writing = asyncio.ensure_future(write_on())
            await until(watch, lambda change: True)
            for _ in range(2):
                await asyncio.to_thread(server.restart)
            is_back.set()
            count = await writing
            changes = await until(watch, lambda change: change.key == "end")
            found = [key async for key in writer.list(Range("s-", "s-:"))]
            assert found == [f"s-{number:020d}" for number in range(1, count + 1)]
            told = [change.key for change in changes if change.key != "end"]
            assert told == found[count - len(told) :]
            assert all(change.kind is ChangeKind.CREATED for change in changes)
            while await anext(keys) != found[-1]:
                continue

    run(scenario())
    assert "end" in keys_at(server, "restarts")


def test_the_largest_of_everything_fits_into_a_request(
    server: ZookeeperProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the log is trimmed, which comes on top."""
    monkeypatch.setattr(write, "LOG_ENTRIES_MAX", 200)
    monkeypatch.setattr(write, "TRIM_BYTES", 1 << 30)
    value = b"v" * ZK_VALUE_BYTES_MAX

    async def scenario(path: str) -> None:
        async with await open_store(server.url(path)) as store:
            for _ in range(3):
                await store.put("a", value)
            await asyncio.gather(*[store.put(f"k{number:03d}", b"") for number in range(263)])
            await store.put("a", value)
            with pytest.raises(LimitExceeded):
                await store.put("a", value + b"v")
            indexes = [("i", f"{number:04d}" + "s" * 440) for number in range(1_000)]
            await store.put("b", b"", indexes=indexes[:500])
            room = 10_000
            while True:
                try:
                    await store.put("b", b"v" * room, indexes=indexes[:500])
                    room += 20_000
                except LimitExceeded:
                    break
            assert await store.delete("b")
            await store.delete_range(Range("a", "z"))
            assert [key async for key in store.list()] == []

    run(scenario("p" * 98))
    assert keys_at(server, "p" * 98) == []


def test_many_calls_at_once_do_not_block_the_loop(server: ZookeeperProcess) -> None:
    async def scenario() -> None:
        async with await open_store(server.url("many")) as store:
            await asyncio.gather(*[store.put(f"k{number:04d}", b"%d" % number) for number in range(1_000)])
            found = await asyncio.gather(*[store.get(f"k{number:04d}") for number in range(1_000)])
            assert [record and record.value for record in found] == [b"%d" % number for number in range(1_000)]

    run(scenario())


def test_who_is_not_allowed_is_told_so(server: ZookeeperProcess) -> None:
    async def scenario() -> None:
        async with await open_store(server.url("guarded")) as store:
            await store.put("a", b"")
            with bare_client(server) as client:
                client.set_acls("/guarded/head", [make_digest_acl("somebody", "else", all=True)])
            with pytest.raises(AccessDenied):
                await store.put("a", b"")
            with pytest.raises(AccessDenied):
                await store.get("a")

    run(scenario())


def test_what_is_no_store_is_not_opened(server: ZookeeperProcess) -> None:
    async def scenario() -> None:
        with bare_client(server) as client:
            client.create("/foreign/store", b'{"format":"something else"}\n', makepath=True)
        with pytest.raises(StoreFailed, match="something else"):
            await open_store(server.url("foreign"))
        async with await open_store(server.url("sorted", key_sorting="natural")) as store:
            assert store.key_sorting == "natural"
        async with await open_store(server.url("sorted")) as store:
            assert store.key_sorting == "natural"
        with pytest.raises(InvalidUrl, match="key_sorting=natural"):
            await open_store(server.url("sorted", key_sorting="hierarchical"))
        with pytest.raises(Unavailable, match="no ZooKeeper answered"):
            await open_store(f"zk://{LOOPBACK}:{free_port()}/nobody?request_timeout=300ms")

    run(scenario())
