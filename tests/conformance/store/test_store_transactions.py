"""`transact`: all or nothing, and which conditions did not hold."""

from __future__ import annotations

import asyncio

import pytest
from store_helpers import Follower, Place, collect, values_of

from metastore.interface import (
    ABSENT,
    BatchKind,
    ChangeKind,
    Condition,
    ConditionFailed,
    Delete,
    FailedCondition,
    MetadataStore,
    Operation,
    Put,
    SessionLost,
    Unsupported,
)

PARTITION = "p"


@pytest.fixture(autouse=True)
def only_with_transactions(request: pytest.FixtureRequest, store: MetadataStore) -> None:
    if not store.capabilities.transact and request.function is not test_a_store_without_them_says_so:
        pytest.skip("no transactions")


async def version_of(store: MetadataStore, key: str) -> int:
    found = await store.get(key, partition_key=PARTITION)
    return ABSENT if found is None else found.version.version_id


async def values(store: MetadataStore, place: Place) -> dict[str, bytes | None]:
    return await values_of(store.scan(place.range, partition_key=PARTITION))


async def test_a_store_without_them_says_so(store: MetadataStore, place: Place) -> None:
    if store.capabilities.transact:
        assert await store.transact(PARTITION, [Delete(place.key("a"))]) == (None,)
    else:
        with pytest.raises(Unsupported):
            await store.transact(PARTITION, [Put(place.key("a"), b"")])
        assert await collect(store.list(place.range)) == []


async def test_all_operations_apply(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("old"), b"0", partition_key=PARTITION)
    await store.put(place.key("gone"), b"0", partition_key=PARTITION)
    results = await store.transact(
        PARTITION,
        [
            Put(place.key("new"), b"1", indexes=((place.index(), "x"),)),
            Delete(place.key("gone")),
            Put(place.key("old"), b"2"),
            Delete(place.key("never")),
        ],
    )
    assert await values(store, place) == {place.key("new"): b"1", place.key("old"): b"2"}
    new, gone, old, never = results
    assert gone is never is None
    assert new is not None
    assert old is not None
    assert (new.key, new.version.modifications) == (place.key("new"), 0)
    assert (old.key, old.version.modifications) == (place.key("old"), 1)
    for result in (new, old):
        found = await store.get(result.key, partition_key=PARTITION)
        assert found is not None
        assert found.version == result.version
    assert await collect(store.list(index=place.index())) == [place.key("new")]


async def test_conditions_that_hold_change_nothing_by_themselves(store: MetadataStore, place: Place) -> None:
    guard = await store.put(place.key("guard"), b"g", partition_key=PARTITION)
    conditions = [Condition(place.key("guard"), guard.version.version_id), Condition(place.key("absent"), ABSENT)]
    await store.transact(PARTITION, [Put(place.key("a"), b"1")], conditions=conditions)
    assert await values(store, place) == {place.key("a"): b"1", place.key("guard"): b"g"}
    assert await version_of(store, place.key("guard")) == guard.version.version_id


async def test_every_shape_of_a_condition_that_fails(store: MetadataStore, place: Place) -> None:
    there = (await store.put(place.key("there"), b"0", partition_key=PARTITION)).version.version_id
    put = Put(place.key("a"), b"1")
    absent, present = place.key("absent"), place.key("there")
    shapes: list[tuple[list[Operation], list[Condition], list[FailedCondition]]] = [
        ([put], [Condition(present, ABSENT)], [FailedCondition(0, present, ABSENT, there)]),
        ([put], [Condition(present, there + 7)], [FailedCondition(0, present, there + 7, there)]),
        ([put], [Condition(absent, there)], [FailedCondition(0, absent, there, ABSENT)]),
        ([put], [Condition(present, there), Condition(absent, 5)], [FailedCondition(1, absent, 5, ABSENT)]),
        ([put, Put(present, b"2", expected=ABSENT)], [], [FailedCondition(0, present, ABSENT, there)]),
        ([put, Delete(present, expected=there + 1)], [], [FailedCondition(0, present, there + 1, there)]),
        ([put, Delete(absent, expected=3)], [], [FailedCondition(0, absent, 3, ABSENT)]),
        (
            [Put(place.key("b"), b"", expected=ABSENT), put, Put(absent, b"", expected=4)],
            [Condition(present, there)],
            [FailedCondition(2, absent, 4, ABSENT)],
        ),
        (
            [Put(place.key("b"), b"", expected=9), Delete(present, expected=ABSENT)],
            [Condition(present, ABSENT), Condition(present, there), Condition(absent, 1)],
            [
                FailedCondition(0, present, ABSENT, there),
                FailedCondition(2, absent, 1, ABSENT),
                FailedCondition(3, place.key("b"), 9, ABSENT),
                FailedCondition(4, present, ABSENT, there),
            ],
        ),
    ]
    for operations, conditions, expected in shapes:
        with pytest.raises(ConditionFailed) as caught:
            await store.transact(PARTITION, operations, conditions=conditions)
        assert caught.value.failed == tuple(expected)
        assert str(caught.value)
        assert await values(store, place) == {present: b"0"}
        assert await version_of(store, present) == there


async def test_conditions_are_judged_by_the_state_before(store: MetadataStore, place: Place) -> None:
    old = (await store.put(place.key("old"), b"0", partition_key=PARTITION)).version.version_id
    await store.transact(
        PARTITION,
        [Delete(place.key("old"), expected=old), Put(place.key("new"), b"1", expected=ABSENT)],
        conditions=[Condition(place.key("old"), old), Condition(place.key("new"), ABSENT)],
    )
    assert await values(store, place) == {place.key("new"): b"1"}


async def test_of_many_with_one_premise_one_succeeds(store: MetadataStore, place: Place) -> None:
    guard = (await store.put(place.key("guard"), b"", partition_key=PARTITION)).version.version_id

    def attempt(number: int) -> list[Operation]:
        return [Put(place.key("guard"), b"%d" % number, expected=guard), Put(place.key(f"won-{number}"), b"")]

    outcomes = await asyncio.gather(
        *(store.transact(PARTITION, attempt(number)) for number in range(10)), return_exceptions=True
    )
    won = [number for number, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)]
    assert len(won) == 1
    assert all(isinstance(outcome, ConditionFailed) for outcome in outcomes if isinstance(outcome, BaseException))
    assert await values(store, place) == {place.key("guard"): b"%d" % won[0], place.key(f"won-{won[0]}"): b""}


async def test_a_watch_tells_a_transaction_in_one_batch(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"0", partition_key=PARTITION)
    await store.put(place.key("b"), b"0", partition_key=PARTITION)
    async with store.watch(place.range, partition_key=PARTITION) as watch:
        await Follower(watch).begin()
        await store.transact(PARTITION, [Put(place.key("a"), b"1"), Delete(place.key("b")), Put(place.key("c"), b"1")])
        batch = await anext(watch)
        while batch.kind is BatchKind.PROGRESS:
            batch = await anext(watch)
    assert sorted((change.key, change.kind) for change in batch.changes) == sorted(
        [
            (place.key("a"), ChangeKind.MODIFIED),
            (place.key("b"), ChangeKind.DELETED),
            (place.key("c"), ChangeKind.CREATED),
        ]
    )
    assert len({(change.shard, change.offset, change.time_ms) for change in batch.changes}) == 1


async def test_nobody_sees_half_of_it(store: MetadataStore, place: Place) -> None:
    keys = [place.key(f"{number:02d}") for number in range(20)]
    is_over = False

    async def write() -> None:
        for number in range(40):
            await store.transact(PARTITION, [Put(key, b"%d" % number) for key in keys])

    async def read() -> None:
        while not is_over:
            seen = await values(store, place)
            assert len(set(seen.values())) <= 1
            assert len(seen) in (0, len(keys))

    readers = [asyncio.ensure_future(read()) for _ in range(2)]
    await write()
    is_over = True
    await asyncio.gather(*readers)


async def test_ephemeral_records_go_with_the_session_it_names(store: MetadataStore, place: Place) -> None:
    async with await store.open_session(identity="me") as session:
        ephemeral, lasting = await store.transact(
            PARTITION,
            [Put(place.key("a"), b"", is_ephemeral=True), Put(place.key("b"), b"")],
            session=session,
        )
        assert ephemeral is not None
        assert lasting is not None
        assert (ephemeral.version.is_ephemeral, ephemeral.version.identity) == (True, "me")
        assert (lasting.version.is_ephemeral, lasting.version.identity) == (False, None)
    assert await collect(store.list(place.range)) == [place.key("b")]


async def test_a_lost_session_changes_nothing(store: MetadataStore, place: Place) -> None:
    session = await store.open_session()
    await session.close()
    with pytest.raises(SessionLost):
        await store.transact(
            PARTITION, [Put(place.key("a"), b""), Put(place.key("b"), b"", is_ephemeral=True)], session=session
        )
    assert await collect(store.list(place.range)) == []


async def test_indexes_are_replaced_with_their_records(store: MetadataStore, place: Place) -> None:
    index = place.index()
    for name in "ab":
        await store.put(place.key(name), b"", partition_key=PARTITION, indexes=[(index, name)])
    entries = ((index, "z"), (index, "y"))
    await store.transact(PARTITION, [Put(place.key("a"), b"", indexes=entries), Delete(place.key("b"))])
    assert await collect(store.list(index=index, partition_key=PARTITION)) == [place.key("a")] * 2
    assert await store.get("a", index=index) is None


async def test_versions_grow_within_a_transaction(store: MetadataStore, place: Place) -> None:
    before = (await store.put(place.key("z"), b"", partition_key=PARTITION)).version.version_id
    results = await store.transact(PARTITION, [Put(place.key(name), b"") for name in "cba"])
    version_ids = [result.version.version_id for result in results if result is not None]
    assert len(set(version_ids)) == 3
    assert min(version_ids) > before
