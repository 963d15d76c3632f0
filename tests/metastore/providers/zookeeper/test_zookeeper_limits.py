"""Every limit of this provider, at the limit and beyond; and removals that are larger than one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData, Transaction
from kazoo.security import OPEN_ACL_UNSAFE
from zookeeper_audit import audit
from zookeeper_tree import ROOT, Tree, TreeConnection, new_tree, store_on

from metastore.interface import (
    ABSENT,
    BatchKind,
    ChangeKind,
    Comparison,
    InvalidUrl,
    LimitExceeded,
    Overloaded,
    Put,
    Range,
    StoreFailed,
)
from metastore.providers.zookeeper.head import Head
from metastore.providers.zookeeper.layout import Layout
from metastore.providers.zookeeper.limits import LOG_ENTRIES_MAX, ZK_VALUE_BYTES_MAX
from metastore.providers.zookeeper.opening import check
from metastore.providers.zookeeper.operations import Kind, Operation, bytes_of
from metastore.providers.zookeeper.settings import Settings
from metastore.providers.zookeeper.store import ZookeeperStore

LAYOUT = Layout(ROOT)
PACKAGE = "metastore.providers.zookeeper"
Scenario = Callable[[Tree, ZookeeperStore, TreeConnection], Awaitable[None]]


def run(scenario: Scenario) -> None:
    async def with_a_store() -> None:
        tree = new_tree()
        async with asyncio.timeout(60), store_on(tree) as (store, connection):
            await scenario(tree, store, connection)

    asyncio.run(with_a_store())


def keys_of(tree: Tree) -> list[str]:
    records = audit({path: data for path, (data, _) in tree.nodes.items()}, LAYOUT)
    return sorted(each.identity.key for each in records)


def head_of(tree: Tree) -> Head:
    return Head.decode(tree.nodes[LAYOUT.head][0])


def test_the_greatest_value_can_be_stored_replaced_and_removed() -> None:
    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        value = b"v" * ZK_VALUE_BYTES_MAX
        for _ in range(2):
            await store.put("a", value, indexes=[("i", "x")])
        with pytest.raises(LimitExceeded, match="ZK_VALUE_BYTES_MAX"):
            await store.put("a", value + b"v")
        with pytest.raises(LimitExceeded, match="ZK_VALUE_BYTES_MAX"):
            await store.transact("p", [Put("a", value + b"v")])
        found = await store.get("a")
        assert found is not None
        assert found.value == value
        assert await store.delete("a")
        assert keys_of(tree) == []

    run(scenario)


def test_what_is_larger_than_one_request_is_refused_and_what_was_stored_can_be_removed() -> None:
    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        value, secondary_keys = b"v" * 120_000, [f"{number}" + "s" * 60_000 for number in range(5)]
        await store.put("k4", value, indexes=[("i", key) for key in secondary_keys[:4]])
        with pytest.raises(LimitExceeded, match="ZK_WRITE_BYTES_MAX"):
            await store.put("k5", value, indexes=[("i", key) for key in secondary_keys])
        assert keys_of(tree) == ["k4"]
        assert await store.delete("k4")
        with pytest.raises(LimitExceeded, match="ZK_WRITE_BYTES_MAX"):
            await store.transact("p", [Put(f"k{number}", b"v" * 300_000) for number in range(4)])
        assert keys_of(tree) == []

    run(scenario)


def test_what_does_not_fit_into_one_request_together_goes_in_several() -> None:
    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        await asyncio.gather(*[store.put(f"k{number}", b"v" * 300_000) for number in range(9)])
        assert len(keys_of(tree)) == 9
        assert tree.commits >= 3

    run(scenario)


def test_only_so_many_writes_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{PACKAGE}.writer.WAITING_WRITES_MAX", 5)
    monkeypatch.setattr(f"{PACKAGE}.writer.GROUP_WRITES_MAX", 1)

    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        connection.is_up.clear()
        first = asyncio.ensure_future(store.put("first", b""))
        for _ in range(5):
            await asyncio.sleep(0)
        waiting = [asyncio.ensure_future(store.put(f"k{number}", b"")) for number in range(5)]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="WAITING_WRITES_MAX"):
            await store.put("one too many", b"")
        connection.is_up.set()
        await asyncio.gather(first, *waiting)
        assert keys_of(tree) == ["first", *[f"k{number}" for number in range(5)]]

    run(scenario)


def test_who_is_always_too_late_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{PACKAGE}.writer.CONFLICTS_MAX", 5)

    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        conflicts = 0

        def be_faster() -> None:
            nonlocal conflicts
            conflicts += 1
            if conflicts <= allowed:
                data, version = tree.nodes[LAYOUT.head]
                tree.apply([Operation(Kind.SET, LAYOUT.head, data, version)])

        connection.before_commit = be_faster
        allowed = 4
        await store.put("a", b"")
        conflicts, allowed = 0, 5
        with pytest.raises(Overloaded, match="CONFLICTS_MAX"):
            await store.put("b", b"")
        assert keys_of(tree) == ["a"]

    run(scenario)


def test_who_is_far_away_is_given_room() -> None:
    """Its commits take longer than the others leave time for, who write all the time."""

    async def scenario(tree: Tree, near: ZookeeperStore, connection: TreeConnection) -> None:
        async def write_on() -> None:
            while True:
                await near.put("near", b"")

        async with store_on(tree) as (far, way):
            way.turns = 400
            writing = asyncio.ensure_future(write_on())
            for number in range(3):
                await far.put(f"far{number}", b"")
            while tree.children(LAYOUT.askers):
                await asyncio.sleep(0)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        assert keys_of(tree) == ["far0", "far1", "far2", "near"]

    run(scenario)


def test_the_log_keeps_so_many_writes_and_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{PACKAGE}.write.LOG_BYTES_MAX", 100_000)

    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        for _ in range(40):
            await store.put("a", b"v" * 10_000)
        head = head_of(tree)
        assert 5 <= head.next - head.oldest <= 10
        assert head.log_bytes <= 110_000
        assert keys_of(tree) == ["a"]
        assert head.next - head.oldest < LOG_ENTRIES_MAX

    run(scenario)


@pytest.fixture
def short_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three records at a time."""
    monkeypatch.setattr(f"{PACKAGE}.plans.SWEEP_RECORDS_MAX", 3)


async def fill(store: ZookeeperStore, count: int) -> None:
    await asyncio.gather(*[store.put(f"k{n:02d}", b"", indexes=[("i", f"{n}")]) for n in range(count)])


@pytest.mark.usefixtures("short_sweeps")
def test_a_large_range_is_gone_at_one_instant_for_all_who_read() -> None:
    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        await fill(store, 20)
        async with store_on(tree) as (other, _):
            found: set[int] = set()
            deleting = asyncio.ensure_future(store.delete_range(Range("k", "l")))
            while not deleting.done():
                found.add(len([key async for key in other.list()]))
                found.add(len([record async for record in other.scan(index="i")]))
            await deleting
            assert found <= {0, 20}
            assert keys_of(tree) == []
            assert head_of(tree).sweep is None

    run(scenario)


def test_large_records_are_removed_in_portions_too() -> None:
    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        for number in range(5):
            await store.put(f"k{number}", b"v" * 250_000)
        before = head_of(tree).next
        await store.delete_range(Range("k", "l"))
        assert keys_of(tree) == []
        assert head_of(tree).next == before + 1 + 3

    run(scenario)


@pytest.mark.usefixtures("short_sweeps")
def test_what_one_began_to_remove_the_next_one_finishes() -> None:
    """The first ends right behind the announcement."""

    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        await fill(store, 10)
        tree.after_commit = connection.is_up.clear
        deleting = asyncio.ensure_future(store.delete_range(Range("k02", "k09")))
        while head_of(tree).sweep is None:
            await asyncio.sleep(0)
        tree.after_commit = None
        await store.close()
        await asyncio.gather(deleting, return_exceptions=True)
        assert len(keys_of(tree)) == 10
        async with store_on(tree) as (other, _):
            assert await other.get("k05") is None
            assert await other.get("k09") is not None
            assert len(keys_of(tree)) == 10
            result = await other.put("k05", b"new", expected=ABSENT)
            assert result.version.modifications == 0
            nearest = await other.get("k03", comparison=Comparison.CEILING)
            assert nearest is not None
            assert nearest.key == "k05"
        assert keys_of(tree) == ["k00", "k01", "k05", "k09"]

    run(scenario)


@pytest.mark.usefixtures("short_sweeps")
def test_writes_that_wait_together_with_a_large_removal_come_before_or_behind_it() -> None:
    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        await fill(store, 10)
        before = asyncio.ensure_future(store.put("k03", b"before"))
        removal = asyncio.ensure_future(store.delete_range(Range("k", "l")))
        behind = asyncio.ensure_future(store.put("k04", b"behind", expected=ABSENT))
        await asyncio.gather(before, removal, behind)
        assert keys_of(tree) == ["k04"]

    run(scenario)


@pytest.mark.usefixtures("short_sweeps")
def test_a_watch_tells_every_record_of_a_large_removal() -> None:
    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        await fill(store, 10)
        watch = store.watch()
        while (await anext(watch)).kind is not BatchKind.SNAPSHOT_END:
            continue
        await store.delete_range(Range("k", "k08"))
        told: list[tuple[ChangeKind, str]] = []
        while len(told) < 8:
            told += [(change.kind, change.key) for change in (await anext(watch)).changes]
        assert sorted(key for _, key in told) == [f"k{number:02d}" for number in range(8)]
        assert {kind for kind, _ in told} == {ChangeKind.DELETED}

    run(scenario)


@pytest.mark.usefixtures("short_sweeps")
def test_an_announcement_whose_answer_is_lost_is_made_once() -> None:
    async def scenario(tree: Tree, store: ZookeeperStore, connection: TreeConnection) -> None:
        await fill(store, 10)
        before = head_of(tree).next
        connection.accidents.append("unanswered")
        await store.delete_range(Range("k", "l"))
        assert keys_of(tree) == []
        assert head_of(tree).next == before + 1 + 4

    run(scenario)


def test_sizes_are_those_on_the_wire() -> None:
    """As kazoo writes a transaction, with its header."""
    operations = [
        Operation(Kind.CHECK, "/a"),
        Operation(Kind.CREATE, "/a/b", b"data"),
        Operation(Kind.SET, "/a", b"more", 3),
        Operation(Kind.DELETE, "/a/c"),
    ]
    requests = [
        CheckVersion("/a", -1),
        Create("/a/b", b"data", OPEN_ACL_UNSAFE, 0),
        SetData("/a", b"more", 3),
        Delete("/a/c", -1),
    ]
    assert bytes_of(operations) == 8 + len(Transaction(requests).serialize())


def test_a_store_must_be_what_the_url_says() -> None:
    settings = Settings(("h:1",), "/p", "natural")
    fields = {"format": "tidemark-zookeeper-1", "key_sorting": "natural"}
    assert check(fields, settings) == "natural"
    with pytest.raises(InvalidUrl, match="key_sorting=hierarchical"):
        check(fields | {"key_sorting": "hierarchical"}, settings)
    with pytest.raises(StoreFailed, match="format"):
        check(fields | {"format": "tidemark-zookeeper-9"}, settings)
