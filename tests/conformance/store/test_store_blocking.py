"""The blocking facade over every store: the same results, errors and iterators, from several threads."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from store_helpers import Place

from metastore.interface import (
    ABSENT,
    BatchKind,
    BlockingStore,
    ChangeKind,
    Comparison,
    Condition,
    ConditionFailed,
    Delete,
    InvalidRequest,
    Put,
    Range,
    SessionLost,
    StoreClosed,
    UnexpectedVersion,
    Unsupported,
    exactly,
)
from support.stores import Subject


@pytest.fixture
def blocking(subject: Subject) -> Iterator[BlockingStore]:
    with BlockingStore.open(subject.url) as made:
        yield made


def test_records_come_and_go(blocking: BlockingStore, place: Place) -> None:
    put = blocking.put(place.key("a"), b"1", expected=ABSENT, indexes=[(place.index(), "x")])
    with pytest.raises(UnexpectedVersion):
        blocking.put(place.key("a"), b"2", expected=ABSENT)
    found = blocking.get(place.key("a"))
    assert found is not None
    assert (found.value, found.version) == (b"1", put.version)
    nearest = blocking.get("y", comparison=Comparison.LOWER, index=place.index(), include_value=False)
    assert nearest is not None
    assert (nearest.key, nearest.value) == (place.key("a"), None)
    assert list(blocking.list(exactly("x"), index=place.index())) == [place.key("a")]
    assert blocking.delete(place.key("a")) is True
    assert blocking.delete(place.key("a")) is False
    assert blocking.get(place.key("a")) is None
    assert blocking.key_sorting in ("hierarchical", "natural")


def test_ranges_are_plain_iterators(blocking: BlockingStore, place: Place) -> None:
    keys = [place.key(f"{number:04d}") for number in range(600)]
    with ThreadPoolExecutor(4) as threads:
        assert [put.key for put in threads.map(lambda key: blocking.put(key, b"1", partition_key="p"), keys)] == keys
    assert list(blocking.list(place.range)) == keys
    assert [record.key for record in blocking.scan(place.range, partition_key="p")] == keys
    for _ in range(5):
        scan = blocking.scan(place.range)
        assert next(scan).key == keys[0]
        del scan
    with pytest.raises(InvalidRequest):
        list(blocking.list(Range("b", "a")))
    blocking.delete_range(place.range)
    assert list(blocking.scan(place.range)) == []


def test_watches_are_plain_iterators(blocking: BlockingStore, place: Place) -> None:
    blocking.put(place.key("a"), b"1")
    with blocking.watch(place.range, previous_values=True) as watch:
        kinds = []
        for batch in watch:
            kinds.append(batch.kind)
            if batch.kind is BatchKind.SNAPSHOT_END:
                break
        assert kinds == [BatchKind.SNAPSHOT_BEGIN, BatchKind.SNAPSHOT, BatchKind.SNAPSHOT_END]
        blocking.delete(place.key("a"))
        batch = next(batch for batch in watch if batch.kind is BatchKind.CHANGES)
        assert [(change.kind, change.key) for change in batch.changes] == [(ChangeKind.DELETED, place.key("a"))]
    assert list(watch) == []
    with pytest.raises(InvalidRequest), blocking.watch(Range("b", "a")) as inverted:
        next(inverted)
    blocking.put(place.key("b"), b"2")
    with blocking.watch(place.range, resume=batch.token) as watch:
        assert next(change.key for batch in watch for change in batch.changes) == place.key("b")


def test_sequences_are_watched(blocking: BlockingStore, place: Place) -> None:
    first = blocking.put(place.key("s"), b"", partition_key="p", sequence_deltas=[1]).key
    keys = blocking.watch_sequence(place.key("s"), partition_key="p")
    assert next(keys) == first
    second = blocking.put(place.key("s"), b"", partition_key="p", sequence_deltas=[1]).key
    assert next(keys) == second
    del keys


def test_sessions_go_on_by_themselves(blocking: BlockingStore, place: Place) -> None:
    with blocking.open_session(5_000, identity="me") as session:
        blocking.put(place.key("a"), b"1", session=session)
        assert (session.identity, session.timeout_ms, session.is_lost) == ("me", 5_000, False)
        assert 0 < session.remaining_s <= 5
    assert session.is_lost
    session.wait_lost()
    assert blocking.get(place.key("a")) is None
    with pytest.raises(SessionLost):
        blocking.put(place.key("a"), b"1", session=session)


def test_transactions_are_all_or_nothing(blocking: BlockingStore, place: Place) -> None:
    if not blocking.capabilities.transact:
        with pytest.raises(Unsupported):
            blocking.transact("p", [Put(place.key("a"), b"1")])
        return
    with blocking.open_session() as session:
        put, deleted = blocking.transact(
            "p",
            [Put(place.key("a"), b"1", is_ephemeral=True), Delete(place.key("b"))],
            conditions=[Condition(place.key("b"), ABSENT)],
            session=session,
        )
        assert put is not None
        assert deleted is None
        assert put.version.is_ephemeral
        with pytest.raises(ConditionFailed):
            blocking.transact("p", [Put(place.key("a"), b"2", expected=ABSENT)])


def test_a_closed_store_says_so(blocking: BlockingStore, place: Place) -> None:
    blocking.close()
    blocking.close()
    with pytest.raises(StoreClosed):
        blocking.get(place.key("a"))
    with pytest.raises(StoreClosed):
        list(blocking.list())
