"""The watch of a namespace: the set, its changes, and what it does not cost (V12, H14)."""

from __future__ import annotations

import asyncio

import pytest
from watches_stage import NAMESPACE, WINDOW_MS, Broker, SetClient

from controller.layout import NamespaceName
from controller.topics import InvalidTopic
from controller.topics.records import PROPERTIES_MAX
from controller.watches import Diff, NamespaceWatches, SnapshotPage, TooManyWatches, hash_of, namespaces
from controller.watches.errors import WatchesEnded
from controller.watches.names import PAGE_NAMES_MAX
from controller.watches.rolls import DIFFS_KEPT_MAX
from metastore.interface import StoreFailed
from metastore.providers.memory import MemoryData, Part
from support.world import World, run, settle

A, B = "topic://tenant/ns/a", "topic://tenant/ns/b"


def test_who_knows_nothing_is_told_everything() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("a")
        client = broker.watch()
        await settle()
        assert client.events == [SnapshotPage((A,), True, True)]

    run(scenario)


def test_who_knows_the_set_is_told_only_what_comes_then() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("a")
        client = broker.watch(known=hash_of([A]))
        await broker.tell()
        assert client.events == []
        await broker.create("b")
        await broker.tell()
        assert client.events == [Diff((B,))]

    run(scenario)


def test_who_knows_another_set_is_told_everything() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("a")
        client = broker.watch(known=hash_of([B]))
        await settle()
        assert client.topics == {A}

    run(scenario)


def test_a_set_is_followed_from_its_beginning() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        client = broker.watch()
        await settle()
        assert client.events == [SnapshotPage((), True, True)]
        await broker.create("a")
        await broker.create("b")
        await broker.tell()
        assert client.topics == {A, B}
        await broker.delete("a")
        await broker.tell()
        assert client.topics == {B}
        assert client.snapshots == 1

    run(scenario)


def test_changes_within_a_moment_are_told_together() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        client = broker.watch()
        await broker.tell()
        await broker.create("a")
        await settle()
        await world.pass_ms(WINDOW_MS - 1)
        await broker.create("b")
        await settle()
        assert len(client.events) == 1
        await world.pass_ms(1)  # so long after the first of them
        assert client.events[1:] == [Diff((A, B))]

    run(scenario)


def test_a_topic_that_is_deleted_and_created_anew_goes_and_comes() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("a")
        client = broker.watch()
        await broker.tell()
        await broker.delete("a")
        await broker.create("a")
        await broker.tell()
        assert client.events[1:] == [Diff((A,), (A,))]

    run(scenario)


def test_only_topics_with_the_properties_are_told() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("a", owner="alice", team="platform")
        await broker.create("b", owner="bob", team="platform")
        await broker.create("c", owner="carol", team="data")
        asked: list[tuple[dict[str, str], set[str]]] = [
            ({"owner": "alice"}, {"a"}),
            ({"team": "platform"}, {"a", "b"}),
            ({"owner": "alice", "team": "platform"}, {"a"}),
            ({"owner": "alice", "team": "ops"}, set()),
            ({}, {"a", "b", "c"}),
        ]
        clients = [(broker.watch(filters), expected) for filters, expected in asked]
        await broker.tell()
        for client, expected in clients:
            assert client.locals == expected

    run(scenario)


def test_a_topic_goes_and_comes_with_its_properties() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        alice, bob = broker.watch({"owner": "alice"}), broker.watch({"owner": "bob"})
        await broker.create("a", owner="alice")
        await broker.tell()
        assert (alice.locals, bob.locals) == ({"a"}, set())
        await broker.change("a", owner="bob")
        await broker.tell()
        assert (alice.locals, bob.locals) == (set(), {"a"})
        await broker.change("a", owner="bob", more="yes")
        await broker.tell()
        assert len(bob.events) == 2

    run(scenario)


def test_what_belongs_to_topics_is_no_topic() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        client = broker.watch()
        await broker.create("a")
        store = broker.process.store
        for key in ("/topics/tenant/ns/a/subscriptions/s", "/topics/tenant/ns/a/controller"):
            await store.put(key, b"{}", partition_key="/topics/tenant/ns/a")
        await store.put("/topics/tenant/ns/ghost", b"")  # the parent of what another software has put
        await store.put("/topics/tenant/ns2/b", b"{}")
        await broker.tell()
        assert client.topics == {A}

    run(scenario)


def test_a_damaged_record_is_a_topic_without_properties() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.process.store.put("/topics/tenant/ns/a", b"{")
        await broker.create("b", owner="alice")
        every, alice = broker.watch(), broker.watch({"owner": "alice"})
        await broker.tell()
        assert (every.locals, alice.locals) == ({"a", "b"}, {"b"})

    run(scenario)


def test_h14_a_removal_while_a_session_begins_is_not_lost() -> None:
    """In Pulsar what happens during the scan is lost when its result replaces the set."""

    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("a")
        first = broker.watch()
        await broker.tell()
        await broker.create("b")
        await settle()
        second = broker.watch()  # a moment before the addition is told
        await settle()
        await broker.delete("b")
        await broker.tell()
        await broker.tell()
        assert first.topics == second.topics == {A}

    run(scenario)


def test_h14_a_watch_that_was_lost_is_made_up_for() -> None:
    """In Pulsar nothing is told of what happened while the store's session was lost."""

    async def scenario(world: World) -> None:
        broker, other = Broker(world), Broker(world)
        for name in ("a", "b", "c"):
            await other.create(name)
        client = broker.watch()
        await broker.tell()
        broker.process.store.line.cut(Part.WATCHES)
        await other.delete("a")
        await other.delete("b")
        await other.create("b")
        await other.create("d")
        world.data.trim()  # what happened is not kept: only a snapshot shows it
        broker.process.store.line.mend()
        for _ in range(10):
            await world.pass_ms(1_000)
        assert client.locals == {"b", "c", "d"}
        assert client.snapshots == 1
        (diff,) = client.events[1:]
        assert isinstance(diff, Diff)
        assert B in diff.added
        assert B in diff.removed

    run(scenario)


def test_h14_errors_are_not_silent() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        client = broker.watch()
        await broker.tell()
        broker.process.script.fail("watch", StoreFailed("broken"), prefix=NAMESPACE.path, times=None)
        await broker.create("a")
        await settle()
        assert isinstance(client.task.exception(), StoreFailed)
        await client.session.close()
        broker.process.script.clear()
        again = broker.watch()  # begins anew
        await broker.tell()
        assert again.topics == {A}

    run(scenario)


def test_h14_a_large_set_comes_in_pages() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await asyncio.gather(*(broker.create(f"t{number}") for number in range(PAGE_NAMES_MAX + 1)))
        client = broker.watch()
        await settle()
        pages = [(len(each.topics), each.is_first, each.is_last) for each in client.events]  # type: ignore[union-attr]
        assert pages == [(PAGE_NAMES_MAX, True, False), (1, False, True)]
        assert len(client.topics) == PAGE_NAMES_MAX + 1

    run(scenario)


def test_who_is_slow_is_told_everything_anew_instead_of_ever_more() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        slow, quick = broker.watch(), broker.watch()
        await broker.tell()
        slow.may_go_on.clear()
        for number in range(DIFFS_KEPT_MAX + 2):
            await broker.create(f"t{number}")
            await broker.tell()
        assert slow.snapshots == 1
        slow.may_go_on.set()
        await settle()
        assert slow.topics == quick.topics
        assert (slow.snapshots, quick.snapshots) == (2, 1)
        assert len(slow.events) == 3  # the first snapshot, what it was in the middle of, and the second snapshot

    run(scenario)


def test_who_is_only_a_little_slow_is_told_what_he_missed() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        slow = broker.watch()
        await broker.tell()
        slow.may_go_on.clear()
        for number in range(DIFFS_KEPT_MAX):
            await broker.create(f"t{number}")
            await broker.tell()
        slow.may_go_on.set()
        await settle()
        assert (len(slow.topics), slow.snapshots) == (DIFFS_KEPT_MAX, 1)

    run(scenario)


def test_ten_thousand_sessions_are_one_watch_of_the_store() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        await broker.create("a")
        sessions = [broker.namespace_watches.open(NAMESPACE) for _ in range(10_000)]
        pages = [await anext(each) for each in sessions]
        assert {id(each) for each in pages} == {id(pages[0])}
        waiting = [asyncio.ensure_future(anext(each)) for each in sessions]
        await settle()
        await broker.create("b")
        await broker.tell()
        assert all(task.done() for task in waiting)
        assert {id(task.result()) for task in waiting} == {id(waiting[0].result())}
        assert (broker.namespace_watches.sessions, broker.namespace_watches.namespaces) == (10_000, 1)
        for each in sessions:
            await each.close()
        assert (broker.namespace_watches.sessions, broker.namespace_watches.namespaces) == (0, 0)

    run(scenario)


def test_a_namespace_is_followed_as_long_as_somebody_watches_it() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        watches = broker.namespace_watches
        async with watches.open(NAMESPACE) as one, watches.open(NAMESPACE), watches.open(NamespaceName("t", "x")):
            assert (watches.sessions, watches.namespaces) == (3, 2)
            await anext(one)
            await one.close()
            await one.close()
            assert (watches.sessions, watches.namespaces) == (2, 2)
            with pytest.raises(StopAsyncIteration):
                await anext(one)
        assert (watches.sessions, watches.namespaces) == (0, 0)

    run(scenario)


def test_so_many_sessions_are_served_and_no_more() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        async with NamespaceWatches(process.store, process.pace, sessions_max=2) as watches:
            sessions = [watches.open(NAMESPACE) for _ in range(2)]
            with pytest.raises(TooManyWatches, match="NAMESPACE_SESSIONS_MAX"):
                watches.open(NAMESPACE)
            await sessions[0].close()
            watches.open(NAMESPACE)
        with pytest.raises(WatchesEnded):
            await anext(sessions[1])

    run(scenario)


def test_so_many_filters_are_served_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "ROLLS_MAX", 2)

    async def scenario(world: World) -> None:
        broker = Broker(world)
        clients = [broker.watch({"owner": name}) for name in ("a", "b", "a", "c")]
        await settle()
        assert [each.snapshots for each in clients] == [1, 1, 1, 0]
        with pytest.raises(TooManyWatches, match="ROLLS_MAX"):
            await clients[3].task
        await clients[3].session.close()
        clients[1].task.cancel()
        await clients[1].session.close()
        del clients[1]
        await settle()
        assert (await anext(broker.namespace_watches.open(NAMESPACE, {"owner": "d"}))) == SnapshotPage((), True, True)

    run(scenario)


def test_filters_are_properties() -> None:
    async def scenario(world: World) -> None:
        broker = Broker(world)
        with pytest.raises(InvalidTopic):
            broker.watch({f"p{number}": "" for number in range(PROPERTIES_MAX + 1)})
        assert broker.namespace_watches.sessions == 0

    run(scenario)


@pytest.mark.parametrize("key_sorting", ["natural", "hierarchical"])
def test_in_any_order_of_keys(key_sorting: str) -> None:
    """In the natural one a namespace's range has what is below its topics as well."""

    async def scenario(world: World) -> None:
        world.data = MemoryData(shards=2, clock=world.clock, key_sorting=key_sorting)
        broker = Broker(world)
        client: SetClient = broker.watch()
        await broker.create("a")
        key = "/topics/tenant/ns/a/subscriptions/s"
        await broker.process.store.put(key, b"{}", partition_key="/topics/tenant/ns/a")
        await broker.tell()
        assert client.topics == {A}

    run(scenario, lacks=("transact", "every_change", "index_order"))
