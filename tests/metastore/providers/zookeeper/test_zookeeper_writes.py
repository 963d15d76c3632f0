"""Writes against a tree of znodes: what they leave behind, in whatever way they are disturbed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zookeeper_audit import audit
from zookeeper_tree import ROOT, Tree, new_tree, store_on

from metastore.interface import (
    ABSENT,
    ConditionFailed,
    Delete,
    Index,
    InvalidRequest,
    Operation,
    OutcomeUnknown,
    Put,
    Range,
    StoreClosed,
    Unavailable,
    UnexpectedVersion,
)
from metastore.providers.zookeeper.layout import Identity, Layout, identity_of
from metastore.providers.zookeeper.store import ZookeeperStore

KEYS = st.sampled_from(["a", "a/b", "a/c", "b", "/x/y", "s-00000000000000000003", "k" * 300, "é\0"])
PARTITIONS = st.sampled_from([None, "p", "a", "q" * 300])
INDEXES = st.lists(
    st.tuples(st.sampled_from(["i", "j" * 300]), st.sampled_from(["x", "x/y", "z" * 300])), max_size=3
).map(tuple)
ACCIDENTS = st.lists(st.sampled_from(["lost", "unanswered"]), max_size=2)


@dataclass
class Model:
    """What a store must hold."""

    records: dict[Identity, tuple[bytes, frozenset[Index]]] = field(default_factory=dict)

    def check(self, tree: Tree) -> None:
        found = audit({path: data for path, (data, _) in tree.nodes.items()}, Layout(ROOT))
        assert {each.identity: (each.value, frozenset(each.header.indexes)) for each in found} == self.records


Step = Callable[[ZookeeperStore, Model], Awaitable[None]]


def put(key: str, partition: str | None, value: bytes, indexes: tuple[Index, ...], is_conditional: bool) -> Step:
    async def step(store: ZookeeperStore, model: Model) -> None:
        identity = identity_of(key, partition)
        expected = ABSENT if is_conditional else None
        if is_conditional and identity in model.records:
            with pytest.raises(UnexpectedVersion):
                await store.put(key, value, expected=expected, partition_key=partition, indexes=indexes)
            return
        await store.put(key, value, expected=expected, partition_key=partition, indexes=indexes)
        model.records[identity] = (value, frozenset(indexes))

    return step


def put_next(prefix: str, partition: str, parts: int) -> Step:
    async def step(store: ZookeeperStore, model: Model) -> None:
        result = await store.put(prefix, b"s", partition_key=partition, sequence_deltas=[1] * parts)
        identity = identity_of(result.key, partition)
        assert identity not in model.records
        numbered = [key for key, home in model.records if home == partition and key.startswith(f"{prefix}-0")]
        assert all(key < result.key for key in numbered)
        model.records[identity] = (b"s", frozenset())

    return step


def delete(key: str, partition: str | None) -> Step:
    async def step(store: ZookeeperStore, model: Model) -> None:
        was_there = model.records.pop(identity_of(key, partition), None) is not None
        assert await store.delete(key, partition_key=partition) == was_there

    return step


def delete_greatest() -> Step:
    async def step(store: ZookeeperStore, model: Model) -> None:
        for key, home in sorted(model.records, reverse=True, key=lambda identity: identity.key)[:1]:
            del model.records[identity_of(key, home)]
            assert await store.delete(key, partition_key=home)

    return step


def delete_range(start: str, end: str, partition: str | None) -> Step:
    async def step(store: ZookeeperStore, model: Model) -> None:
        await store.delete_range(Range(start, end), partition_key=partition)
        for identity in list(model.records):
            key = identity.key
            if start <= key < end and "/" not in key and partition in (None, identity.home):
                del model.records[identity]

    return step


def transact(keys: list[str], partition: str, indexes: tuple[Index, ...], numbered: int) -> Step:
    async def step(store: ZookeeperStore, model: Model) -> None:
        """Deletes the first, puts the others, and some to a sequence."""
        identities = [identity_of(key, partition) for key in keys]
        puts = [Put(key, b"t", expected=ABSENT, indexes=indexes) for key in keys[1:]]
        operations: list[Operation] = [Delete(keys[0]), *puts, *[Put("s", b"n", sequence_deltas=(1,))] * numbered]
        if any(identity in model.records for identity in identities[1:]):
            with pytest.raises(ConditionFailed):
                await store.transact(partition, operations)
            return
        greatest = max([key for key, home in model.records if home == partition and key.startswith("s-0")], default="")
        following = int(greatest.removeprefix("s-") or "0") + 1
        generated = [f"s-{number:020d}" for number in range(following, following + numbered)]
        if set(generated) & set(keys):
            with pytest.raises(InvalidRequest):
                await store.transact(partition, operations)
            return
        results = await store.transact(partition, operations)
        assert [result.key for result in results if result is not None] == [*keys[1:], *generated]
        model.records.pop(identities[0], None)
        model.records.update(dict.fromkeys(identities[1:], (b"t", frozenset(indexes))))
        model.records.update({identity_of(key, partition): (b"n", frozenset()) for key in generated})

    return step


STEPS = st.one_of(
    st.builds(put, KEYS, PARTITIONS, st.binary(max_size=3), INDEXES, st.booleans()),
    st.builds(put_next, st.sampled_from(["s", "a/s", "é", "l" * 300]), st.sampled_from(["p", "q" * 300]), st.just(1)),
    st.builds(delete, KEYS, PARTITIONS),
    st.builds(delete_greatest),
    st.builds(delete_range, st.sampled_from(["", "a"]), st.sampled_from(["b", "l", "t"]), PARTITIONS),
    st.builds(
        transact,
        st.lists(KEYS, min_size=1, max_size=3, unique=True),
        st.sampled_from(["p", "a"]),
        INDEXES,
        st.integers(0, 3),
    ),
)


@settings(max_examples=80, deadline=None, database=None, derandomize=True)
@given(st.lists(st.tuples(STEPS, st.integers(0, 1), ACCIDENTS), max_size=12))
def test_the_tree_says_what_the_writes_said(steps: list[tuple[Step, int, list[str]]]) -> None:
    async def scenario() -> None:
        tree, model = new_tree(), Model()
        async with store_on(tree) as one, store_on(tree) as other:
            for step, place, accidents in steps:
                store, connection = (one, other)[place]
                connection.accidents.extend(accidents)
                await step(store, model)
                connection.accidents.clear()
                model.check(tree)

    asyncio.run(scenario())


def test_those_who_race_for_a_record_all_get_their_turn() -> None:
    async def scenario() -> None:
        tree = new_tree()
        async with store_on(tree) as (one, _), store_on(tree) as (other, _):

            async def count(store: ZookeeperStore) -> None:
                done = 0
                while done < 20:
                    found = await store.get("counter")
                    value = 0 if found is None or found.value is None else int(found.value)
                    expected = ABSENT if found is None else found.version.version_id
                    try:
                        await store.put("counter", str(value + 1).encode(), expected=expected)
                        done += 1
                    except UnexpectedVersion:
                        continue

            await asyncio.gather(*[count(store) for store in (one, other, one, other)])
            found = await one.get("counter")
            assert found is not None
            assert (found.value, found.version.modifications) == (b"80", 79)

    asyncio.run(scenario())


def test_those_who_race_for_a_sequence_get_different_keys() -> None:
    async def scenario() -> None:
        tree = new_tree()
        async with store_on(tree) as (one, _), store_on(tree) as (other, _):
            puts = [
                store.put("s", b"", partition_key="p", sequence_deltas=[2], indexes=[("i", "x")])
                for _ in range(50)
                for store in (one, other)
            ]
            keys = [result.key for result in await asyncio.gather(*puts)]
            assert sorted(keys) == [f"s-{2 * number:020d}" for number in range(1, 101)]
            assert [key async for key in one.list(index="i")] == sorted(keys)

    asyncio.run(scenario())


@pytest.mark.parametrize("accidents", [["lost"], ["unanswered"], ["lost", "unanswered"], ["unanswered"] * 3])
def test_a_write_whose_answer_is_lost_is_applied_once(accidents: list[str]) -> None:
    async def scenario() -> None:
        tree = new_tree()
        async with store_on(tree) as (store, connection):
            connection.accidents.extend(accidents)
            result = await store.put("s", b"", partition_key="p", sequence_deltas=[1])
            assert result.key == f"s-{1:020d}"
            assert [key async for key in store.list()] == [result.key]

    asyncio.run(scenario())


def test_a_write_that_was_lost_gives_way_to_one_that_was_not() -> None:
    """Somebody else takes the place of the commit that is on its way; so it must fail, and is prepared anew."""

    async def scenario() -> None:
        tree = new_tree()
        async with store_on(tree) as (store, connection), store_on(tree) as (other, _):
            connection.accidents.append("lost")
            first = asyncio.ensure_future(store.put("a", b"late", expected=ABSENT))
            while connection.accidents:
                await asyncio.sleep(0)
            await other.put("a", b"early", expected=ABSENT)
            with pytest.raises(UnexpectedVersion):
                await first
            found = await store.get("a")
            assert found is not None
            assert found.value == b"early"

    asyncio.run(scenario())


def test_a_sequence_goes_on_behind_keys_that_others_made_or_removed() -> None:
    async def scenario() -> None:
        tree = new_tree()

        async def next_number(store: ZookeeperStore) -> int:
            key = (await store.put("s", b"", partition_key="p", sequence_deltas=[1])).key
            audit({path: data for path, (data, _) in tree.nodes.items()}, Layout(ROOT))
            return int(key.removeprefix("s-"))

        async with store_on(tree) as (store, _):
            assert [await next_number(store) for _ in range(2)] == [1, 2]
            await store.put(f"s-{7:020d}", b"by hand", partition_key="p")
            await store.put(f"s-{9:020d}", b"of another partition")
            assert await next_number(store) == 8
            await store.put(f"s-{5:020d}", b"by hand", partition_key="p")
            assert await next_number(store) == 9
            await store.delete(f"s-{8:020d}", partition_key="p")
            assert await next_number(store) == 10
            await store.delete(f"s-{10:020d}", partition_key="p")
            assert await next_number(store) == 10
            await store.delete_range(Range("s-", "s-:"), partition_key="p")
            assert Layout(ROOT).counter("s", "p").path not in tree.nodes
            assert await next_number(store) == 1

    asyncio.run(scenario())


def test_without_a_connection_a_write_is_refused_and_nothing_is_done() -> None:
    async def scenario() -> None:
        tree = new_tree()
        async with store_on(tree, patience_s=0.05) as (store, connection), store_on(tree) as (other, _):
            connection.is_up.clear()
            with pytest.raises(Unavailable, match="nothing was done"):
                await store.put("a", b"")
            with pytest.raises(Unavailable):
                await store.get("a")
            connection.is_up.set()
            assert await other.get("a") is None

    asyncio.run(scenario())


def test_the_outcome_is_unknown_if_the_connection_does_not_come_back() -> None:
    async def scenario() -> None:
        tree = new_tree()
        async with store_on(tree, patience_s=0.5) as (store, connection), store_on(tree) as (other, _):
            connection.accidents.append("unanswered")
            connection.before_commit = connection.is_up.clear
            with pytest.raises(OutcomeUnknown):
                await store.put("a", b"")
            connection.before_commit = None
            connection.is_up.set()
            assert await other.get("a") is not None

    asyncio.run(scenario())


def test_closing_settles_what_waits() -> None:
    async def scenario() -> None:
        async with store_on(new_tree()) as (store, connection):
            connection.is_up.clear()
            writes = [asyncio.ensure_future(store.put(f"k{number}", b"")) for number in range(100)]
            await asyncio.sleep(0)
            await store.close()
            outcomes = await asyncio.gather(*writes, return_exceptions=True)
            assert all(isinstance(outcome, StoreClosed) for outcome in outcomes)
            with pytest.raises(StoreClosed):
                await store.put("a", b"")

    asyncio.run(scenario())


def test_what_waits_is_committed_together() -> None:
    async def scenario() -> None:
        tree = new_tree()
        async with store_on(tree) as (store, _):
            commits = tree.commits
            await asyncio.gather(*[store.put(f"k{number:03d}", b"") for number in range(128)])
            assert tree.commits - commits <= 4
            assert len([key async for key in store.list()]) == 128

    asyncio.run(scenario())


def test_each_write_of_a_group_stands_on_the_one_before() -> None:
    async def scenario() -> None:
        tree = new_tree()
        async with store_on(tree) as (store, _):
            outcomes = await asyncio.gather(
                store.put("a", b"1", expected=ABSENT, indexes=[("i", "x")]),
                store.put("a", b"2", expected=ABSENT),
                store.put("a", b"3", indexes=[("i", "y")]),
                store.delete("a"),
                store.put("a", b"4", expected=ABSENT),
                store.put("s", b"", partition_key="p", sequence_deltas=[1]),
                store.put("s", b"", partition_key="p", sequence_deltas=[1]),
                return_exceptions=True,
            )
            assert isinstance(outcomes[1], UnexpectedVersion)
            assert outcomes[3] is True
            model = Model({Identity("a"): (b"4", frozenset())})
            model.records |= {Identity(f"s-{number:020d}", "p"): (b"", frozenset()) for number in (1, 2)}
            model.check(tree)

    asyncio.run(scenario())
