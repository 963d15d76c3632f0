"""Sessions: records that go with them, and owners that know in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from zookeeper_audit import audit
from zookeeper_tree import ROOT, Tree, TreeConnection, new_tree, store_on

from metastore.clock import ManualClock
from metastore.interface import ChangeKind, InvalidRequest, Put, SessionLost
from metastore.providers.zookeeper import session as session_module
from metastore.providers.zookeeper.layout import Layout
from metastore.providers.zookeeper.session import (
    HEARTBEATS_PER_TIMEOUT,
    ZookeeperSession,
    asked_of_zookeeper_ms,
    relied_upon_ms,
)
from metastore.providers.zookeeper.store import ZookeeperStore

LAYOUT = Layout(ROOT)
TIMEOUT_MS = 12_000


class World:
    """A tree, a clock, two stores and the connections of their sessions."""

    def __init__(self, tree: Tree, clock: ManualClock, one: ZookeeperStore, other: ZookeeperStore) -> None:
        self.tree = tree
        self.clock = clock
        self.one = one
        self.other = other
        self.connections: list[TreeConnection] = []
        self.grants_ms: list[int] = []
        """What ZooKeeper grants to the next sessions, where it is not what they ask for."""
        self.accidents: list[str] = []
        """What becomes of the first requests of the next sessions."""

    def connect(self, _servers: object, timeout_ms: int, _root: str) -> TreeConnection:
        granted = self.grants_ms.pop() if self.grants_ms else timeout_ms
        connection = TreeConnection(self.tree, granted)
        connection.accidents.extend(self.accidents)
        self.connections.append(connection)
        return connection

    def audit(self) -> list[str]:
        records = audit({path: data for path, (data, _) in self.tree.nodes.items()}, LAYOUT)
        return sorted(each.identity.key for each in records)


async def open_session(store: ZookeeperStore) -> ZookeeperSession:
    session = await store.open_session(TIMEOUT_MS, identity="me")
    assert isinstance(session, ZookeeperSession)
    return session


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[World], Awaitable[None]]], None]:
    @asynccontextmanager
    async def world() -> AsyncIterator[World]:
        tree, clock = new_tree(), ManualClock()
        async with store_on(tree, clock=clock) as (one, _), store_on(tree, clock=clock) as (other, _):
            made = World(tree, clock, one, other)
            monkeypatch.setattr(session_module, "Connection", made.connect)
            yield made

    def run_in_a_world(scenario: Callable[[World], Awaitable[None]]) -> None:
        async def scene() -> None:
            async with world() as made, asyncio.timeout(30):
                await scenario(made)

        asyncio.run(scene())

    return run_in_a_world


Run = Callable[[Callable[[World], Awaitable[None]]], None]


def test_what_is_relied_upon_ends_before_what_is_granted() -> None:
    for timeout_ms in (2_000, 15_000, 299_999):
        granted_ms = asked_of_zookeeper_ms(timeout_ms)
        assert timeout_ms <= relied_upon_ms(granted_ms) <= timeout_ms + 1
        unheard_of_ms = granted_ms / 4 + timeout_ms / HEARTBEATS_PER_TIMEOUT
        assert timeout_ms + unheard_of_ms <= granted_ms


def test_an_owner_knows_in_time_without_hearing_of_it(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await open_session(world.one)
        world.connections[0].is_up.clear()
        assert (session.is_lost, session.timeout_ms) == (False, TIMEOUT_MS)
        assert session.remaining_s == TIMEOUT_MS / 1000
        world.clock.advance_ms(TIMEOUT_MS - 1)
        assert session.remaining_s == pytest.approx(0.001)
        world.clock.advance_ms(1)
        assert (session.is_lost, session.remaining_s) == (True, 0)
        with pytest.raises(SessionLost):
            await world.one.put("a", b"", session=session)
        world.connections[0].is_up.set()
        await session.wait_lost()
        assert session.is_lost

    run(scenario)


def test_a_session_that_is_granted_less_promises_less(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.grants_ms = [4_500]
        session = await open_session(world.one)
        assert session.timeout_ms == 3_000
        assert session.remaining_s == 3

    run(scenario)


def test_heartbeats_count_from_when_they_were_sent(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "HEARTBEATS_PER_TIMEOUT", 10_000)

    async def scenario(world: World) -> None:
        session = await open_session(world.one)
        connection = world.connections[0]
        for answer_after_ms in (5_000, 11_000, 11_999):
            connection.is_up.clear()
            while not connection.is_touching:
                await asyncio.sleep(0)
            world.clock.advance_ms(answer_after_ms)
            answered = connection.heartbeats
            connection.is_up.set()
            while connection.heartbeats == answered:
                await asyncio.sleep(0)
            assert session.remaining_s == pytest.approx((TIMEOUT_MS - answer_after_ms) / 1000)
            while connection.heartbeats == answered + 1:
                await asyncio.sleep(0)
        assert not session.is_lost

    run(scenario)


def test_a_heartbeat_that_is_answered_too_late_does_not_count(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "HEARTBEATS_PER_TIMEOUT", 10_000)

    async def scenario(world: World) -> None:
        session = await open_session(world.one)
        connection = world.connections[0]
        connection.is_up.clear()
        while not connection.is_touching:
            await asyncio.sleep(0)
        world.clock.advance_ms(TIMEOUT_MS)
        connection.is_up.set()
        await session.wait_lost()
        assert session.is_lost
        while not connection.is_over:
            await asyncio.sleep(0)
        assert world.tree.children(LAYOUT.sessions) == []

    run(scenario)


def test_when_the_marker_is_gone_the_session_is_lost_and_its_records_go(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await open_session(world.one)
        await world.one.put("a", b"", session=session, indexes=[("i", "x")])
        await world.one.transact("p", [Put("b", b"", is_ephemeral=True), Put("c", b"")], session=session)
        await world.one.put("k" * 500, b"", session=session, partition_key="p")
        assert world.audit() == ["a", "b", "c", "k" * 500]
        watch = world.other.watch()
        changes: list[tuple[ChangeKind, str]] = []
        while (await anext(watch)).token is None:
            continue
        world.connections[0].expire()
        while len(changes) < 3:
            changes += [(change.kind, change.key) for change in (await anext(watch)).changes]
        assert sorted(changes, key=lambda each: each[1]) == [
            (ChangeKind.DELETED, "a"),
            (ChangeKind.DELETED, "b"),
            (ChangeKind.DELETED, "k" * 500),
        ]
        assert world.audit() == ["c"]
        with pytest.raises(SessionLost):
            await world.one.put("d", b"", session=session)

    run(scenario)


def test_a_session_that_was_lost_in_between_writes_nothing(run: Run) -> None:
    """Its owner believes in it; the marker goes while the commit is on its way."""

    async def scenario(world: World) -> None:
        session = await open_session(world.one)
        connection = world.one._connection
        assert isinstance(connection, TreeConnection)
        connection.before_commit = world.connections[0].expire
        with pytest.raises(SessionLost):
            await world.one.put("a", b"", session=session)
        assert world.audit() == []

    run(scenario)


def test_closing_takes_the_records_along_at_once(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await open_session(world.one)
        await world.one.put("a", b"", session=session)
        await world.one.put("b", b"", session=session)
        await world.one.put("b", b"lasting")
        await session.close()
        assert world.audit() == ["b"]
        assert session.is_lost
        while not world.connections[0].is_over:
            await asyncio.sleep(0)
        await session.close()
        await session.wait_lost()

    run(scenario)


def test_closing_needs_no_connection_of_the_sessions_own(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await open_session(world.one)
        await world.one.put("a", b"", session=session)
        world.connections[0].is_up.clear()
        world.connections[0].may_close.clear()
        await session.close()
        assert world.audit() == []
        assert world.tree.children(LAYOUT.sessions) == []
        world.connections[0].may_close.set()

    run(scenario)


def test_a_record_may_change_hands(run: Run) -> None:
    async def scenario(world: World) -> None:
        first, second = await open_session(world.one), await open_session(world.one)
        await world.one.put("a", b"1", session=first)
        await world.one.put("a", b"2", session=second)
        await first.close()
        assert world.audit() == ["a"]
        await second.close()
        assert world.audit() == []

    run(scenario)


def test_a_closed_store_leaves_its_sessions_to_expire(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await open_session(world.one)
        await world.one.put("a", b"", session=session)
        await world.one.close()
        assert session.is_lost
        assert await world.other.get("a") is not None
        assert LAYOUT.session(session.author.session_id) in world.tree.nodes

    run(scenario)


def test_who_opens_a_store_removes_what_ended_sessions_have_left(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await open_session(world.one)
        for number in range(20):
            await world.one.put(f"k{number}", b"", session=session)
        await world.one.close()
        await world.other.close()
        world.connections[0].expire()
        async with store_on(world.tree) as (third, _):
            watch = third.watch()
            found: set[str] = set()
            while world.audit():
                batch = await anext(watch)
                found |= {record.key for record in batch.records}
            assert len(found) <= 20

    run(scenario)


def test_a_session_belongs_to_its_store(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await open_session(world.one)
        with pytest.raises(InvalidRequest, match="another store's"):
            await world.other.put("a", b"", session=session)

    run(scenario)


def test_an_answer_that_is_lost_makes_no_second_marker(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.accidents = ["lost", "unanswered"]
        session = await open_session(world.one)
        assert world.tree.children(LAYOUT.sessions) == [f"{session.author.session_id:x}"]

    run(scenario)
