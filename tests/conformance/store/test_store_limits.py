"""What every store refuses before it does anything, and what it takes at each limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from store_helpers import Place, collect

from metastore.interface import (
    Condition,
    Delete,
    InvalidRequest,
    InvalidToken,
    LimitExceeded,
    MetadataStore,
    Put,
    Range,
    StoreError,
    UnexpectedVersion,
    exactly,
)
from metastore.interface.checks import (
    INDEXES_MAX,
    KEY_BYTES_MAX,
    SEQUENCE_DELTA_MAX,
    SEQUENCE_PART_BYTES,
    SEQUENCE_PARTS_MAX,
    SESSION_TIMEOUT_MS_MAX,
    SESSION_TIMEOUT_MS_MIN,
    TRANSACTION_OPERATIONS_MAX,
    VALUE_BYTES_MAX,
    VERSION_ID_MAX,
)
from support.stores import Subject

LONG = "k" * (KEY_BYTES_MAX + 1)
NOT_UTF8 = "\ud800"
Call = Callable[[MetadataStore, str], Awaitable[Any]]


async def watched(store: MetadataStore, *args: Any, **options: Any) -> None:
    async with store.watch(*args, **options) as watch:
        await anext(watch)


REFUSED: dict[str, tuple[type[StoreError], Call]] = {
    "put of a long key": (LimitExceeded, lambda s, k: s.put(LONG, b"")),
    "put of a key that is not UTF-8": (InvalidRequest, lambda s, k: s.put(NOT_UTF8, b"")),
    "put of a key that is bytes": (InvalidRequest, lambda s, k: s.put(b"key", b"")),  # type: ignore[arg-type]
    "put of a value that is text": (InvalidRequest, lambda s, k: s.put(k, "value")),  # type: ignore[arg-type]
    "put of a long partition key": (LimitExceeded, lambda s, k: s.put(k, b"", partition_key=LONG)),
    "put of too great a value": (LimitExceeded, lambda s, k: s.put(k, b"\0" * (VALUE_BYTES_MAX + 1))),
    "put at a negative version": (InvalidRequest, lambda s, k: s.put(k, b"", expected=-2)),
    "put with too many index entries": (
        LimitExceeded,
        lambda s, k: s.put(k, b"", indexes=[("i", str(number)) for number in range(INDEXES_MAX + 1)]),
    ),
    "put with a nameless index": (InvalidRequest, lambda s, k: s.put(k, b"", indexes=[("", "x")])),
    "put with a long index name": (LimitExceeded, lambda s, k: s.put(k, b"", indexes=[(LONG, "x")])),
    "put with a long secondary key": (LimitExceeded, lambda s, k: s.put(k, b"", indexes=[("i", LONG)])),
    "sequence without a partition key": (InvalidRequest, lambda s, k: s.put(k, b"", sequence_deltas=[1])),
    "sequence with an expected version": (
        InvalidRequest,
        lambda s, k: s.put(k, b"", sequence_deltas=[1], partition_key="p", expected=-1),
    ),
    "sequence that does not move": (
        InvalidRequest,
        lambda s, k: s.put(k, b"", sequence_deltas=[0, 1], partition_key="p"),
    ),
    "sequence with a negative delta": (
        InvalidRequest,
        lambda s, k: s.put(k, b"", sequence_deltas=[1, -1], partition_key="p"),
    ),
    "sequence with too great a delta": (
        InvalidRequest,
        lambda s, k: s.put(k, b"", sequence_deltas=[SEQUENCE_DELTA_MAX + 1], partition_key="p"),
    ),
    "sequence of too many parts": (
        LimitExceeded,
        lambda s, k: s.put(k, b"", sequence_deltas=[1] * (SEQUENCE_PARTS_MAX + 1), partition_key="p"),
    ),
    "sequence with keys that would be too long": (
        LimitExceeded,
        lambda s, k: s.put("k" * (KEY_BYTES_MAX - 20), b"", sequence_deltas=[1], partition_key="p"),
    ),
    "get of a long key": (LimitExceeded, lambda s, k: s.get(LONG)),
    "get by a nameless index": (InvalidRequest, lambda s, k: s.get(k, index="")),
    "get with a long partition key": (LimitExceeded, lambda s, k: s.get(k, partition_key=LONG)),
    "delete of a long key": (LimitExceeded, lambda s, k: s.delete(LONG)),
    "delete at a negative version": (InvalidRequest, lambda s, k: s.delete(k, expected=-2)),
    "delete at a version that none has": (InvalidRequest, lambda s, k: s.delete(k, expected=VERSION_ID_MAX + 1)),
    "put at a version that none has": (InvalidRequest, lambda s, k: s.put(k, b"", expected=VERSION_ID_MAX + 1)),
    "delete_range without an end": (InvalidRequest, lambda s, k: s.delete_range(Range(k))),
    "delete_range of nothing but a start and a partition": (
        InvalidRequest,
        lambda s, k: s.delete_range(Range(k), partition_key="p"),
    ),
    "delete_range that is inverted": (InvalidRequest, lambda s, k: s.delete_range(Range("b", "a"))),
    "delete_range with a long bound": (LimitExceeded, lambda s, k: s.delete_range(Range("a", LONG))),
    "list of an inverted range": (InvalidRequest, lambda s, k: collect(s.list(Range("b", "a")))),
    "list with a long bound": (LimitExceeded, lambda s, k: collect(s.list(Range(LONG)))),
    "list by a nameless index": (InvalidRequest, lambda s, k: collect(s.list(index=""))),
    "list with a long partition key": (LimitExceeded, lambda s, k: collect(s.list(partition_key=LONG))),
    "scan of an inverted range": (InvalidRequest, lambda s, k: collect(s.scan(Range("b", "a")))),
    "scan by a long index": (LimitExceeded, lambda s, k: collect(s.scan(index=LONG))),
    "watch of an inverted range": (InvalidRequest, lambda s, k: watched(s, Range("b", "a"))),
    "watch of an inverted index range": (InvalidRequest, lambda s, k: watched(s, Range("b", "a"), index="i")),
    "watch by a nameless index": (InvalidRequest, lambda s, k: watched(s, index="")),
    "watch with a long bound": (LimitExceeded, lambda s, k: watched(s, Range(LONG))),
    "watch with a long partition key": (LimitExceeded, lambda s, k: watched(s, partition_key=LONG)),
    "watch from a token that is none": (InvalidToken, lambda s, k: watched(s, resume="no token")),
    "watch from an empty token": (InvalidToken, lambda s, k: watched(s, resume="")),
    "watch from a token that is not ASCII": (InvalidToken, lambda s, k: watched(s, resume="é")),
    "sequence watch with a long prefix": (
        LimitExceeded,
        lambda s, k: anext(s.watch_sequence(LONG, partition_key="p")),
    ),
    "session that is too short": (InvalidRequest, lambda s, k: s.open_session(SESSION_TIMEOUT_MS_MIN - 1)),
    "session that is too long": (InvalidRequest, lambda s, k: s.open_session(SESSION_TIMEOUT_MS_MAX + 1)),
    "session with a long identity": (LimitExceeded, lambda s, k: s.open_session(identity=LONG)),
}

REFUSED_TRANSACTIONS: dict[str, tuple[type[StoreError], Call]] = {
    "nothing to do": (InvalidRequest, lambda s, k: s.transact("p", [])),
    "two operations on a key": (InvalidRequest, lambda s, k: s.transact("p", [Put(k, b""), Delete(k)])),
    "a long partition key": (LimitExceeded, lambda s, k: s.transact(LONG, [Delete(k)])),
    "a long key": (LimitExceeded, lambda s, k: s.transact("p", [Delete(LONG)])),
    "a long key in a condition": (
        LimitExceeded,
        lambda s, k: s.transact("p", [Delete(k)], conditions=[Condition(LONG, 1)]),
    ),
    "a negative version": (InvalidRequest, lambda s, k: s.transact("p", [Delete(k, expected=-2)])),
    "a negative version in a condition": (
        InvalidRequest,
        lambda s, k: s.transact("p", [Delete(k)], conditions=[Condition(k, -2)]),
    ),
    "a version that none has": (
        InvalidRequest,
        lambda s, k: s.transact("p", [Delete(k, expected=VERSION_ID_MAX + 1)]),
    ),
    "a version that none has in a condition": (
        InvalidRequest,
        lambda s, k: s.transact("p", [Delete(k)], conditions=[Condition(k, VERSION_ID_MAX + 1)]),
    ),
    "an ephemeral record of nobody": (InvalidRequest, lambda s, k: s.transact("p", [Put(k, b"", is_ephemeral=True)])),
    "a nameless index": (InvalidRequest, lambda s, k: s.transact("p", [Put(k, b"", indexes=(("", "x"),))])),
    "too many operations": (
        LimitExceeded,
        lambda s, k: s.transact("p", [Delete(f"{k}-{number}") for number in range(TRANSACTION_OPERATIONS_MAX + 1)]),
    ),
    "too many bytes": (
        LimitExceeded,
        lambda s, k: s.transact("p", [Put(f"{k}-{number}", b"\0" * (33 << 20)) for number in range(2)]),
    ),
}


async def test_bad_input_is_refused(store: MetadataStore, place: Place, subtests: pytest.Subtests) -> None:
    await store.put(place.key("a"), b"before")
    for what, (error, call) in REFUSED.items():
        with subtests.test(what):
            with pytest.raises(error) as caught:
                await call(store, place.key("a"))
            assert str(caught.value)
    found = await store.get(place.key("a"))
    assert found is not None
    assert (found.value, found.version.modifications) == (b"before", 0)


async def test_a_bad_transaction_is_refused(store: MetadataStore, place: Place, subtests: pytest.Subtests) -> None:
    if not store.capabilities.transact:
        pytest.skip("no transactions")
    for what, (error, call) in REFUSED_TRANSACTIONS.items():
        with subtests.test(what), pytest.raises(error):
            await call(store, place.key("a"))
    assert await collect(store.list(place.range)) == []


async def test_the_longest_key_works_everywhere(store: MetadataStore, place: Place) -> None:
    key = place.key("k" * (KEY_BYTES_MAX - len(place.key(""))))
    secondary, partition_key = "s" * KEY_BYTES_MAX, "p" * KEY_BYTES_MAX
    index = place.index() + "i" * (KEY_BYTES_MAX - len(place.index()))
    assert len(key) == len(index) == KEY_BYTES_MAX
    await store.put(key, b"1", partition_key=partition_key, indexes=[(index, secondary)])
    found = await store.get(key, partition_key=partition_key)
    assert found is not None
    assert found.value == b"1"
    assert await collect(store.list(place.range, partition_key=partition_key)) == [key]
    assert await collect(store.list(Range(secondary), index=index)) == [key]
    assert await store.delete(key, partition_key=partition_key)


async def test_the_greatest_version_may_be_asked_for(store: MetadataStore, place: Place) -> None:
    """No record has it, so a store that took it for another number would be found out."""
    await store.put(place.key("a"), b"")
    for key in (place.key("a"), place.key("none")):
        with pytest.raises(UnexpectedVersion):
            await store.put(key, b"", expected=VERSION_ID_MAX)
        with pytest.raises(UnexpectedVersion):
            await store.delete(key, expected=VERSION_ID_MAX)


async def test_the_longest_key_of_a_sequence_is_found_again(store: MetadataStore, place: Place) -> None:
    prefix = place.key("k" * (KEY_BYTES_MAX - len(place.key("")) - 2 * SEQUENCE_PART_BYTES))
    put = await store.put(prefix, b"1", partition_key="p", sequence_deltas=[1, 1])
    assert len(put.key) == KEY_BYTES_MAX
    found = await store.get(put.key, partition_key="p")
    assert found is not None
    assert found.version == put.version


async def test_a_record_may_have_as_many_index_entries_as_is_said(store: MetadataStore, place: Place) -> None:
    entries = [(place.index(), f"{number:04d}") for number in range(INDEXES_MAX)]
    await store.put(place.key("a"), b"", indexes=entries)
    assert len(await collect(store.list(index=place.index()))) == INDEXES_MAX
    found = await store.get("0999", index=place.index())
    assert found is not None
    assert found.key == place.key("a")


async def test_the_greatest_value_works(subject: Subject, store: MetadataStore, place: Place) -> None:
    if "largest value" in subject.faults or not subject.is_given_time:
        pytest.skip("takes seconds, or this store takes less")
    value = b"v" * VALUE_BYTES_MAX
    await store.put(place.key("a"), value)
    found = await store.get(place.key("a"))
    assert found is not None
    assert found.value == value
    await store.delete(place.key("a"))


@pytest.mark.parametrize("timeout_ms", [SESSION_TIMEOUT_MS_MIN, SESSION_TIMEOUT_MS_MAX])
async def test_sessions_at_the_limits_open(store: MetadataStore, timeout_ms: int) -> None:
    async with await store.open_session(timeout_ms, identity="i" * KEY_BYTES_MAX) as session:
        assert session.timeout_ms == timeout_ms
        assert 0 < session.remaining_s <= timeout_ms / 1000


async def test_the_largest_transaction_works(subject: Subject, store: MetadataStore, place: Place) -> None:
    if not store.capabilities.transact or "largest transaction" in subject.faults or not subject.is_given_time:
        pytest.skip("takes seconds, or this store takes less")
    operations = [Put(place.key(f"{number:05d}"), b"") for number in range(TRANSACTION_OPERATIONS_MAX)]
    results = await store.transact(place.name, operations)
    assert [result and result.key for result in results] == [operation.key for operation in operations]
    keys = await collect(store.list(place.range, partition_key=place.name))
    assert keys == [operation.key for operation in operations]
    await store.delete_range(place.range, partition_key=place.name)
    assert await collect(store.list(place.range, partition_key=place.name)) == []


async def test_zero_width_ranges_are_empty(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"", indexes=[(place.index(), "a")])
    assert await collect(store.list(Range(place.key("a"), place.key("a")))) == []
    assert await collect(store.list(Range("a", "a"), index=place.index())) == []
    await store.delete_range(Range(place.key("a"), place.key("a")))
    assert await collect(store.list(exactly(place.key("a")))) == [place.key("a")]
