"""`transact` with puts to sequences: their keys are generated together with all else, or not at all."""

from __future__ import annotations

import asyncio

import pytest
from store_helpers import Follower, Place, close, collect, values_of

from metastore.interface import (
    ABSENT,
    BatchKind,
    Condition,
    ConditionFailed,
    Delete,
    InvalidRequest,
    LimitExceeded,
    MetadataStore,
    Operation,
    Put,
    PutResult,
    Session,
)
from metastore.interface.checks import KEY_BYTES_MAX, SEQUENCE_DELTA_MAX, SEQUENCE_PARTS_MAX

PARTITION = "p"


@pytest.fixture(autouse=True)
def only_with_transactions(store: MetadataStore) -> None:
    if not store.capabilities.transact:
        pytest.skip("no transactions")


def numbered(prefix: str, *numbers: int) -> str:
    return "-".join([prefix, *(f"{number:020d}" for number in numbers)])


def of_sequence(prefix: str, *deltas: int, value: bytes = b"") -> Put:
    return Put(prefix, value, sequence_deltas=deltas)


async def put_next(store: MetadataStore, prefix: str, *deltas: int) -> str:
    return (await store.put(prefix, b"", partition_key=PARTITION, sequence_deltas=deltas)).key


async def keys_of(store: MetadataStore, *operations: Operation) -> list[str | None]:
    """What a transaction of these says that it stored."""
    results = await store.transact(PARTITION, operations)
    return [None if result is None else result.key for result in results]


async def stored(store: MetadataStore, place: Place) -> dict[str, bytes | None]:
    return await values_of(store.scan(place.range, partition_key=PARTITION))


async def test_it_tells_the_generated_key(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    old = await put_next(store, prefix, 2)
    (result,) = await store.transact(PARTITION, [of_sequence(prefix, 3, value=b"one")])
    assert isinstance(result, PutResult)
    assert (old, result.key) == (numbered(prefix, 2), numbered(prefix, 5))
    found = await store.get(result.key, partition_key=PARTITION)
    assert found is not None
    assert (found.value, found.version) == (b"one", result.version)
    assert found.version.modifications == 0
    assert await put_next(store, prefix, 1) == numbered(prefix, 6)


async def test_puts_with_one_prefix_are_numbered_in_their_order(store: MetadataStore, place: Place) -> None:
    first, second, plain, gone = (place.key(name) for name in ("a", "b", "plain", "gone"))
    await put_next(store, second, 40)
    assert await keys_of(
        store,
        of_sequence(first, 1, value=b"1"),
        Put(plain, b"plain"),
        of_sequence(first, 2, value=b"2"),
        of_sequence(second, 1, 6, value=b"3"),
        Delete(gone),
        of_sequence(first, 3, 1, value=b"4"),
        of_sequence(second, 1, 0, 9, value=b"5"),
    ) == [
        numbered(first, 1),
        plain,
        numbered(first, 3),
        numbered(second, 41, 6),
        None,
        numbered(first, 6, 1),
        numbered(second, 42, 6, 9),
    ]
    values = await stored(store, place)
    assert values == {
        numbered(first, 1): b"1",
        numbered(first, 3): b"2",
        numbered(first, 6, 1): b"4",
        numbered(second, 40): b"",
        numbered(second, 41, 6): b"3",
        numbered(second, 42, 6, 9): b"5",
        plain: b"plain",
    }
    assert await keys_of(store, of_sequence(first, 1, 1)) == [numbered(first, 7, 2)]


async def test_nothing_else_of_a_transaction_has_a_say_in_the_numbers(store: MetadataStore, place: Place) -> None:
    """Neither what it puts by hand nor what it deletes, wherever that stands."""
    prefix = place.key("s")
    greatest = await put_next(store, prefix, 7)
    by_hand = numbered(prefix, 1_000)
    assert await keys_of(
        store, Delete(greatest), Put(by_hand, b""), of_sequence(prefix, 1), of_sequence(prefix, 1)
    ) == [None, by_hand, numbered(prefix, 8), numbered(prefix, 9)]
    assert await collect(store.list(place.range)) == [numbered(prefix, 8), numbered(prefix, 9), by_hand]
    assert await put_next(store, prefix, 1) == numbered(prefix, 1_001)
    assert await keys_of(store, of_sequence(prefix, 1), Delete(numbered(prefix, 1_001))) == [
        numbered(prefix, 1_002),
        None,
    ]
    assert await put_next(store, prefix, 1) == numbered(prefix, 1_003)


async def test_a_sequence_in_a_sequence_counts_what_both_generate(store: MetadataStore, place: Place) -> None:
    outer = place.key("s")
    inner = numbered(outer, 1)
    assert await keys_of(
        store, of_sequence(outer, 1, 1), of_sequence(inner, 4), of_sequence(outer, 1, 1), of_sequence(inner, 1)
    ) == [numbered(outer, 1, 1), numbered(outer, 1, 5), numbered(outer, 2, 6), numbered(outer, 1, 6)]
    assert await put_next(store, outer, 1, 1) == numbered(outer, 3, 7)


async def test_a_generated_key_can_have_no_second_operation(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    await put_next(store, prefix, 1)
    clashes: list[list[Operation]] = [
        [of_sequence(prefix, 1), Put(numbered(prefix, 2), b"")],
        [Put(numbered(prefix, 2), b""), of_sequence(prefix, 1)],
        [of_sequence(prefix, 1), Delete(numbered(prefix, 2))],
        [Delete(numbered(prefix, 3), expected=ABSENT), of_sequence(prefix, 1), of_sequence(prefix, 1)],
    ]
    for operations in clashes:
        with pytest.raises(InvalidRequest):
            await store.transact(PARTITION, [Put(place.key("other"), b""), *operations])
        assert await collect(store.list(place.range)) == [numbered(prefix, 1)]
    # The prefix itself is another key.
    assert await keys_of(store, of_sequence(prefix, 1), Put(prefix, b"")) == [numbered(prefix, 2), prefix]


async def test_what_fails_generates_nothing(store: MetadataStore, place: Place) -> None:
    prefix, full = place.key("s"), place.key("full")
    await put_next(store, prefix, 1, 1)
    await put_next(store, full, SEQUENCE_DELTA_MAX)
    before = await stored(store, place)
    sequence = store.watch_sequence(prefix, partition_key=PARTITION)
    assert await anext(sequence) == numbered(prefix, 1, 1)
    good = [Put(place.key("other"), b"", indexes=((place.index(), "x"),)), of_sequence(prefix, 1, 1)]
    with pytest.raises(InvalidRequest):  # a sequence cannot lose parts
        await store.transact(PARTITION, [*good, of_sequence(prefix, 1)])
    with pytest.raises(InvalidRequest):  # exhausted
        await store.transact(PARTITION, [*good, of_sequence(full, 1)])
    with pytest.raises(ConditionFailed) as caught:  # conditions come first, also before what makes no sense
        await store.transact(
            PARTITION, [*good, of_sequence(prefix, 1)], conditions=[Condition(numbered(prefix, 1, 1), ABSENT)]
        )
    assert [failed.place for failed in caught.value.failed] == [0]
    assert await stored(store, place) == before
    assert await collect(store.list(index=place.index())) == []
    assert await put_next(store, prefix, 1, 1) == numbered(prefix, 2, 2)
    assert await anext(sequence) == numbered(prefix, 2, 2)
    await close(sequence)


async def test_what_makes_no_sense_is_refused_at_once(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    refused: list[tuple[type[Exception], Put]] = [
        (InvalidRequest, of_sequence(prefix, 0)),
        (InvalidRequest, of_sequence(prefix, 1, -1)),
        (InvalidRequest, of_sequence(prefix, SEQUENCE_DELTA_MAX + 1)),
        (InvalidRequest, Put(prefix, b"", expected=ABSENT, sequence_deltas=(1,))),
        (InvalidRequest, Put(prefix, b"", expected=0, sequence_deltas=(1,))),
        (InvalidRequest, Put(prefix, b"", is_ephemeral=True, sequence_deltas=(1,))),
        (LimitExceeded, of_sequence(prefix, *[1] * (SEQUENCE_PARTS_MAX + 1))),
        (LimitExceeded, of_sequence(prefix + "k" * (KEY_BYTES_MAX - 20 - len(prefix)), 1)),
    ]
    for kind, put in refused:
        with pytest.raises(kind):
            await store.transact(PARTITION, [Put(place.key("other"), b""), put])
    assert await collect(store.list(place.range)) == []


async def test_of_many_with_one_premise_one_is_numbered(store: MetadataStore, place: Place) -> None:
    """As the records of a transaction are put: on the condition that its header is as it was."""
    prefix, header = place.key("s"), place.key("header")
    version_id = (await store.put(header, b"open", partition_key=PARTITION)).version.version_id

    async def record(number: int) -> str | None:
        operations: list[Operation] = [of_sequence(prefix, 1, value=b"%d" % number)]
        if number == 5:
            operations.append(Put(header, b"decided", expected=version_id))
        try:
            return (await keys_of_condition(store, operations, Condition(header, version_id)))[0]
        except ConditionFailed:
            return None

    told = await asyncio.gather(*(record(number) for number in range(10)))
    acknowledged = [key for key in told if key is not None]
    assert told[5] is not None
    assert sorted(acknowledged) == [numbered(prefix, number) for number in range(1, len(acknowledged) + 1)]
    assert set(await stored(store, place)) == {header, *acknowledged}


async def keys_of_condition(store: MetadataStore, operations: list[Operation], condition: Condition) -> list[str]:
    results = await store.transact(PARTITION, operations, conditions=[condition])
    return [result.key for result in results if result is not None]


async def test_both_ways_of_putting_count_together(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    alone = [put_next(store, prefix, 1) for _ in range(20)]
    together = [keys_of(store, *[of_sequence(prefix, 1) for _ in range(3)]) for _ in range(20)]
    singles, triples = await asyncio.gather(asyncio.gather(*alone), asyncio.gather(*together))
    for keys in triples:
        first = int(str(keys[0])[-20:])
        assert keys == [numbered(prefix, first + step) for step in range(3)]
    assert sorted([*singles, *(str(key) for keys in triples for key in keys)]) == [
        numbered(prefix, number) for number in range(1, 81)
    ]


async def test_its_records_have_all_that_others_have(store: MetadataStore, place: Place) -> None:
    prefix, index = place.key("s"), place.index()

    async def put(session: Session) -> tuple[PutResult | None, ...]:
        ephemeral = Put(prefix, b"1", None, ((index, "x"),), is_ephemeral=True, sequence_deltas=(1,))
        return await store.transact(PARTITION, [ephemeral, of_sequence(prefix, 1)], session=session)

    async with await store.open_session(identity="me") as session:
        ephemeral, lasting = await put(session)
        assert ephemeral is not None
        assert lasting is not None
        assert (ephemeral.version.session_id, ephemeral.version.identity) != (None, None)
        assert (lasting.version.session_id, lasting.version.identity) == (None, None)
        assert ephemeral.version.version_id < lasting.version.version_id
        assert await collect(store.list(index=index)) == [numbered(prefix, 1)]
    assert await collect(store.list(place.range)) == [numbered(prefix, 2)]
    assert await collect(store.list(index=index)) == []


async def test_watches_tell_them(store: MetadataStore, place: Place) -> None:
    prefix = place.key("s")
    sequence = store.watch_sequence(prefix, partition_key=PARTITION)
    assert await keys_of(store, of_sequence(prefix, 1)) == [numbered(prefix, 1)]
    assert await anext(sequence) == numbered(prefix, 1)
    async with store.watch(place.range, partition_key=PARTITION) as watch:
        await Follower(watch).begin()
        await keys_of(store, of_sequence(prefix, 1), Delete(numbered(prefix, 1)), of_sequence(prefix, 1))
        batch = await anext(watch)
        while batch.kind is BatchKind.PROGRESS:
            batch = await anext(watch)
    assert {change.key for change in batch.changes} == {numbered(prefix, number) for number in (1, 2, 3)}
    told = await anext(sequence)
    while told != numbered(prefix, 3):  # the one before it may be left out, the last never
        assert told == numbered(prefix, 2)
        told = await anext(sequence)
    await close(sequence)
