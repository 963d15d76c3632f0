"""Scans and watches see states that there were, whatever is written meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from random import Random
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zookeeper_audit import audit
from zookeeper_tree import ROOT, Tree, new_tree, store_on

from metastore.interface import (
    ALL,
    BatchKind,
    Change,
    ChangeKind,
    Comparison,
    Delete,
    Put,
    Range,
    TokenExpired,
    Unavailable,
    Watch,
    WatchBatch,
    exactly,
)
from metastore.providers.zookeeper.head import Head
from metastore.providers.zookeeper.layout import Layout
from metastore.providers.zookeeper.store import ZookeeperStore

LAYOUT = Layout(ROOT)
KEYS = ["a", "a/b", "a/c", "b", "c/d", "e"]
State = dict[str, bytes]
Scenario = Callable[[Tree, ZookeeperStore, ZookeeperStore], Awaitable[None]]
T = TypeVar("T")


def run(scenario: Scenario) -> None:
    async def with_two_stores() -> None:
        tree = new_tree()
        async with store_on(tree) as (one, _), store_on(tree) as (other, _):
            await scenario(tree, one, other)

    asyncio.run(with_two_stores())


async def collect(items: AsyncIterable[T]) -> list[T]:
    return [item async for item in items]


def state_of(tree: Tree, index: str | None = None) -> State:
    """The values by key; with an index, of the records in it."""
    records = audit({path: data for path, (data, _) in tree.nodes.items()}, LAYOUT)
    return {
        each.identity.key: each.value
        for each in records
        if index is None or any(name == index for name, _ in each.header.indexes)
    }


async def write_at_random(store: ZookeeperStore, choice: Random, count: int) -> None:
    for number in range(count):
        key = choice.choice(KEYS)
        if choice.random() < 0.3:
            await store.delete(key, partition_key="t")
        elif choice.random() < 0.3:
            await store.transact("t", [Put(key, b"t%d" % number, indexes=(("i", key),)), Delete(choice.choice("xyz"))])
        else:
            indexes = [("i", choice.choice("123"))] if choice.random() < 0.5 else []
            await store.put(key, b"%d" % number, partition_key="t", indexes=indexes)


@settings(max_examples=30, deadline=None, database=None, derandomize=True)
@given(st.integers(0, 1 << 32), st.sampled_from([None, "i"]))
def test_a_scan_sees_a_state_that_there_was(seed: int, index: str | None) -> None:
    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        await write_at_random(other, Random(seed + 1), 10)
        states = [state_of(tree, index)]
        tree.after_commit = lambda: states.append(state_of(tree, index))
        writing = asyncio.ensure_future(write_at_random(other, Random(seed), 20))
        for _ in range(3):
            del states[:-1]
            found = {record.key: record.value or b"" for record in await collect(one.scan(index=index))}
            assert found in states
            del states[:-1]
            keys = await collect(one.list(index=index))
            assert set(keys) in [set(state) for state in states]
        await writing

    run(scenario)


def test_a_get_of_the_nearest_sees_one_state() -> None:
    """A record moves to and fro between two keys; looking for it never fails."""

    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        await other.put("d/1", b"", partition_key="p")

        async def move() -> None:
            for number in range(40):
                here, there = ("d/1", "e/1") if number % 2 == 0 else ("e/1", "d/1")
                await other.transact("p", [Delete(here), Put(there, b"")])

        moving = asyncio.ensure_future(move())
        while not moving.done():
            assert await one.get("d/", comparison=Comparison.CEILING, partition_key="p") is not None
        await moving

    run(scenario)


class Told:
    """What a watch told."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.state: State = {}
        self.changes: list[Change] = []
        self.tokens: list[tuple[str, int]] = []
        """Each token, and how many changes had been told by then."""

    async def step(self) -> WatchBatch:
        batch = await anext(self.watch)
        for record in batch.records:
            self.state[record.key] = record.value or b""
        for change in batch.changes:
            self.changes.append(change)
            if change.kind in (ChangeKind.DELETED, ChangeKind.LEFT):
                del self.state[change.key]
            else:
                assert change.record is not None
                self.state[change.key] = change.record.value or b""
        if batch.token is not None:
            self.tokens.append((batch.token, len(self.changes)))
        return batch


@settings(max_examples=25, deadline=None, database=None, derandomize=True)
@given(st.integers(0, 1 << 32), st.sampled_from([None, "i"]))
def test_a_watch_tells_every_change_and_goes_on_from_each_token(seed: int, index: str | None) -> None:
    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        await write_at_random(other, Random(seed + 1), 5)
        told = Told(one.watch(index=index, previous_values=True))
        while not told.tokens:
            await told.step()
        assert told.state == state_of(tree, index)
        before = dict(told.state)
        writing = asyncio.ensure_future(write_at_random(other, Random(seed), 20))
        await other.put("middle", b"", indexes=[("i", "1")])
        while "middle" not in told.state:
            await told.step()
        await writing
        await other.put("end", b"end", indexes=[("i", "end")])
        while "end" not in told.state:
            await told.step()
        assert told.state == state_of(tree, index)
        check_previous(before, told.changes)
        for token, count in told.tokens[::5]:
            again = one.watch(index=index, previous_values=True, resume=token)
            found: list[Change] = []
            while len(found) < len(told.changes) - count:
                found += (await anext(again)).changes
            assert found == told.changes[count:]

    run(scenario)


def check_previous(before: State, changes: list[Change]) -> None:
    """Each change says what the one before it left."""
    for change in changes:
        previous = None if change.previous is None else change.previous.value
        if change.kind in (ChangeKind.CREATED, ChangeKind.ENTERED):
            assert change.key not in before
        else:
            assert previous == before.pop(change.key)
        if change.kind not in (ChangeKind.DELETED, ChangeKind.LEFT):
            assert change.record is not None
            before[change.key] = change.record.value or b""


def test_a_wait_that_is_cancelled_has_taken_nothing() -> None:
    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        told = Told(one.watch())
        while not told.tokens:
            await told.step()
        for number in range(10):
            waiting = asyncio.ensure_future(anext(told.watch))
            await other.put("k", b"%d" % number)
            for _ in range(number):
                await asyncio.sleep(0)
            waiting.cancel()
            outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
            if isinstance(outcome, WatchBatch):
                told.changes += outcome.changes
        while len(told.changes) < 10:
            await told.step()
        assert [change.record.value for change in told.changes if change.record] == [b"%d" % n for n in range(10)]

    run(scenario)


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of eight writes or a few more."""
    for name, limit in (("LOG_ENTRIES_MAX", 8), ("TRIM_ENTRIES", 2), ("TRIM_ENTRIES_MIN", 1)):
        monkeypatch.setattr(f"metastore.providers.zookeeper.write.{name}", limit)


@pytest.mark.usefixtures("short_log")
def test_the_log_is_trimmed_and_old_tokens_expire() -> None:
    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        told = Told(one.watch(Range("a", "b")))
        while not told.tokens:
            await told.step()
        [(token, _)] = told.tokens
        for number in range(50):
            await other.put("a", b"%d" % number)
        head = Head.decode(tree.nodes[LAYOUT.head][0])
        assert 8 <= head.next - head.oldest <= 10
        assert state_of(tree) == {"a": b"49"}
        with pytest.raises(TokenExpired) as caught:
            await anext(one.watch(Range("a", "b"), resume=token))
        assert caught.value.oldest_offset == head.oldest
        with pytest.raises(TokenExpired):
            await told.step()

    run(scenario)


@pytest.mark.usefixtures("short_log")
def test_a_scan_that_the_log_cannot_make_good_is_to_be_repeated() -> None:
    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        for number in range(60):
            await other.put(f"k{number:02d}", b"")
        scanning = one.scan()
        await anext(scanning)
        for _ in range(20):
            await other.put("k59", b"changed")
        with pytest.raises(Unavailable, match="begin it again"):
            await collect(scanning)
        assert len(await collect(one.scan())) == 60

    run(scenario)


@pytest.mark.usefixtures("short_log")
def test_a_snapshot_that_the_log_cannot_make_good_begins_anew() -> None:
    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        for number in range(60):
            await other.put(f"k{number:02d}", b"")
        told = Told(one.watch())
        kinds = [(await told.step()).kind, (await told.step()).kind]
        for _ in range(20):
            await other.put("k59", b"changed")
        while not told.tokens:
            kinds.append((await told.step()).kind)
        begin, some, end = BatchKind.SNAPSHOT_BEGIN, BatchKind.SNAPSHOT, BatchKind.SNAPSHOT_END
        assert kinds == [begin, some, begin, some, some, end]
        assert told.state == state_of(tree)

    run(scenario)


@pytest.mark.usefixtures("short_log")
def test_a_snapshot_begins_anew_so_many_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metastore.providers.zookeeper.watch.SCAN_ATTEMPTS_MAX", 3)

    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        for number in range(60):
            await other.put(f"k{number:02d}", b"")
        told = Told(one.watch())
        for _ in range(3):
            assert (await told.step()).kind is BatchKind.SNAPSHOT_BEGIN
            for _ in range(20):
                await other.put("k59", b"changed")
        with pytest.raises(Unavailable, match="SCAN_ATTEMPTS_MAX"):
            await told.step()

    run(scenario)


def test_so_much_of_the_log_is_kept_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metastore.providers.zookeeper.tail.LOG_CACHE_ENTRIES", 10)
    monkeypatch.setattr("metastore.providers.zookeeper.tail.LOG_CACHE_BYTES", 50_000)

    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        for size in (0, 20_000):
            told = Told(one.watch(snapshot=False, previous_values=True))
            await told.step()
            for number in range(40):
                await other.put("k", b"%d" % number + b"v" * size)
            while len(told.changes) < 40:
                await told.step()
            cached = one._tail._cache.values()
            assert 0 < len(cached) <= 10
            assert sum(size for _, size in cached) == one._tail._cache_bytes <= 50_000

    run(scenario)


@pytest.mark.usefixtures("short_log")
def test_a_slow_reader_of_a_sequence_misses_some_and_not_the_last() -> None:
    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        keys = one.watch_sequence("s", partition_key="p")
        await other.put("s", b"", partition_key="p", sequence_deltas=[1])
        assert await anext(keys) == f"s-{1:020d}"
        for _ in range(30):
            await other.put("s", b"", partition_key="p", sequence_deltas=[1])
        assert await anext(keys) == f"s-{31:020d}"

    run(scenario)


def test_progress_is_told_now_and_then() -> None:
    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        watch = one.watch(Range("a", "b"), snapshot=False)
        first = await anext(watch)
        for number in range(200):
            await other.put("z", b"%d" % number)
        second = await anext(watch)
        assert (first.kind, second.kind) == (BatchKind.PROGRESS, BatchKind.PROGRESS)
        await other.put("a", b"")
        third = await anext(one.watch(Range("a", "b"), resume=second.token))
        while third.kind is BatchKind.PROGRESS:
            third = await anext(one.watch(Range("a", "b"), resume=third.token))
        assert [change.key for change in third.changes] == ["a"]

    run(scenario)


def test_many_watches_read_the_log_once() -> None:
    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        watches = [Told(one.watch(exactly(f"k{number}"), snapshot=False)) for number in range(50)]
        await asyncio.gather(*[told.step() for told in watches])
        waiting = [asyncio.ensure_future(told.step()) for told in watches]
        await asyncio.sleep(0)
        reads = tree.reads
        for number in range(50):
            await other.put(f"k{number}", b"")
        await asyncio.gather(*waiting)
        assert [change.key for told in watches for change in told.changes] == [f"k{number}" for number in range(50)]
        # Of each write, five reads that make it; the entry, the head, and the record for the one that is told of it.
        assert tree.reads - reads < 50 * 10

    run(scenario)


def test_every_watch_of_a_closed_store_ends() -> None:
    async def scenario(tree: Tree, one: ZookeeperStore, other: ZookeeperStore) -> None:
        watch = one.watch(ALL, snapshot=False)
        await anext(watch)
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await watch.close()
        with pytest.raises(StopAsyncIteration):
            await waiting
        with pytest.raises(StopAsyncIteration):
            await anext(watch)

    run(scenario)
