"""Sessions: ephemeral records that go with them, and owners that know in time."""

from __future__ import annotations

import asyncio

import pytest
from store_helpers import Follower, OpenStore, Place, collect

from metastore.interface import (
    DEFAULT_SESSION_TIMEOUT_MS,
    ChangeKind,
    InvalidRequest,
    MetadataStore,
    Put,
    Session,
    SessionLost,
    Version,
)
from metastore.interface.checks import SESSION_TIMEOUT_MS_MIN
from support.stores import Subject


async def test_a_new_session_can_be_relied_upon(store: MetadataStore) -> None:
    async with await store.open_session() as session:
        assert (session.timeout_ms, session.identity) == (DEFAULT_SESSION_TIMEOUT_MS, "")
        assert not session.is_lost
        assert 0 < session.remaining_s <= DEFAULT_SESSION_TIMEOUT_MS / 1000


async def test_ephemeral_records_say_whose_they_are(store: MetadataStore, place: Place) -> None:
    async with await store.open_session(identity="é/me") as session:
        put = await store.put(place.key("a"), b"1", session=session)
        found = await store.get(place.key("a"))
        assert found is not None
        assert found.version == put.version
        assert (found.version.is_ephemeral, found.version.identity) == (True, "é/me")
        assert found.version.session_id is not None


async def test_a_closed_session_takes_its_records_along(store: MetadataStore, place: Place) -> None:
    session = await store.open_session()
    for name in "abc":
        await store.put(place.key(name), b"1", session=session, indexes=[(place.index(), name)])
    await store.put(place.key("d"), b"1", indexes=[(place.index(), "d")])
    await session.close()
    assert await collect(store.list(place.range)) == [place.key("d")]
    assert await collect(store.list(index=place.index())) == [place.key("d")]
    assert session.is_lost
    assert session.remaining_s == 0
    await session.wait_lost()
    await session.close()


async def test_a_closed_session_makes_no_records(store: MetadataStore, place: Place) -> None:
    session = await store.open_session()
    await session.close()
    with pytest.raises(SessionLost):
        await store.put(place.key("a"), b"1", session=session)
    assert await store.get(place.key("a")) is None


async def test_a_session_is_lost_from_its_close_on(store: MetadataStore, place: Place) -> None:
    session = await store.open_session()
    closing = asyncio.ensure_future(session.close())
    await asyncio.sleep(0)  # the call begins, and no answer can have come
    assert session.is_lost
    assert session.remaining_s == 0
    with pytest.raises(SessionLost):
        await store.put(place.key("a"), b"1", session=session)
    await closing
    assert await store.get(place.key("a")) is None


async def test_wait_lost_returns_at_the_close(store: MetadataStore) -> None:
    session = await store.open_session()
    waiting = [asyncio.ensure_future(session.wait_lost()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    waiting[0].cancel()
    await session.close()
    await asyncio.gather(*waiting[1:])


async def test_an_ephemeral_record_may_become_lasting(store: MetadataStore, place: Place) -> None:
    async with await store.open_session() as session:
        await store.put(place.key("a"), b"1", session=session)
        put = await store.put(place.key("a"), b"2")
        assert not put.version.is_ephemeral
        await store.put(place.key("b"), b"1")
        await store.put(place.key("b"), b"2", session=session)
    assert await collect(store.list(place.range)) == [place.key("a")]


async def test_an_ephemeral_record_may_change_hands(store: MetadataStore, place: Place) -> None:
    first, second = await store.open_session(identity="1"), await store.open_session(identity="2")
    await store.put(place.key("a"), b"1", session=first)
    put = await store.put(place.key("a"), b"2", session=second)
    assert put.version.identity == "2"
    await first.close()
    assert await collect(store.list(place.range)) == [place.key("a")]
    await second.close()
    assert await collect(store.list(place.range)) == []


@pytest.mark.parametrize("method", ["put", "transact"])
async def test_the_last_put_says_with_whom_a_record_goes(store: MetadataStore, place: Place, method: str) -> None:
    """Whoever had it before, its session's end is no longer its own; an index entry goes the same way."""
    if method == "transact" and not store.capabilities.transact:
        pytest.skip("no transactions")
    key, entries = place.key("a"), ((place.index(), "x"),)

    async def overwrite(session: Session | None) -> Version:
        if method == "put":
            stored = await store.put(key, b"", session=session, partition_key="p", indexes=entries)
            return stored.version
        put = Put(key, b"", indexes=entries, is_ephemeral=session is not None)
        (result,) = await store.transact("p", [put], session=session)
        assert result is not None
        return result.version

    async def owner() -> tuple[bool, str | None, list[str]]:
        found = await store.get(key, partition_key="p")
        assert found is not None
        return found.version.is_ephemeral, found.version.identity, await collect(store.list(index=place.index()))

    first, second, third = [await store.open_session(identity=name) for name in ("1", "2", "3")]
    ids = [(await overwrite(session)).session_id for session in (first, second, first, first, second)]
    assert ids[0] == ids[2] == ids[3] != ids[1] == ids[4]
    await first.close()
    assert await owner() == (True, "2", [key])
    lasting = await overwrite(None)
    assert (lasting.session_id, lasting.identity) == (None, None)
    await second.close()
    assert await owner() == (False, None, [key])
    await overwrite(third)
    assert await owner() == (True, "3", [key])
    await third.close()
    assert await store.get(key, partition_key="p") is None
    assert await collect(store.list(index=place.index())) == []


async def test_ephemeral_records_of_all_partitions_go(store: MetadataStore, place: Place) -> None:
    async with await store.open_session() as session:
        for number in range(12):
            await store.put(place.key(f"{number:02d}"), b"", session=session, partition_key=f"p{number}")
        assert len(await collect(store.list(place.range))) == 12
    assert await collect(store.list(place.range)) == []


async def test_many_sessions_are_kept_apart(store: MetadataStore, place: Place) -> None:
    sessions = await asyncio.gather(*(store.open_session(identity=str(number)) for number in range(20)))
    for number, session in enumerate(sessions):
        await store.put(place.key(f"{number:02d}"), b"", session=session)
    await asyncio.gather(*(session.close() for session in sessions[::2]))
    assert await collect(store.list(place.range)) == [place.key(f"{number:02d}") for number in range(1, 20, 2)]
    await asyncio.gather(*(session.close() for session in sessions))
    assert await collect(store.list(place.range)) == []


async def test_a_watch_tells_that_a_session_ended(store: MetadataStore, place: Place) -> None:
    async with store.watch(place.range, previous_values=True) as watch:
        follower = Follower(watch)
        await follower.begin()
        session = await store.open_session()
        for name in "ab":
            await store.put(place.key(name), b"", session=session)
        await follower.until(lambda state: len(state) == 2)
        await session.close()
        changes = await follower.next_changes(2)
    assert {(change.kind, change.key) for change in changes} == {
        (ChangeKind.DELETED, place.key("a")),
        (ChangeKind.DELETED, place.key("b")),
    }
    assert all(change.previous is not None and change.previous.version.is_ephemeral for change in changes)


async def test_a_session_is_its_stores(store: MetadataStore, other: MetadataStore, place: Place) -> None:
    async with await store.open_session() as session:
        with pytest.raises(InvalidRequest):
            await other.put(place.key("a"), b"", session=session)


async def test_sessions_expire_unless_they_are_kept_alive(subject: Subject, open_one: OpenStore, place: Place) -> None:
    """The owner is told at the close, the others by a watch; a session of the same length that is kept goes on."""
    if not subject.is_given_time:
        pytest.skip("takes seconds")
    gone = await open_one()
    lost = await gone.open_session(SESSION_TIMEOUT_MS_MIN)
    await gone.put(place.key("lost"), b"1", session=lost)
    await gone.close()
    assert lost.is_lost
    assert lost.remaining_s == 0
    await lost.wait_lost()
    store = await open_one()
    kept = await store.open_session(SESSION_TIMEOUT_MS_MIN)
    await store.put(place.key("kept"), b"1", session=kept)
    async with store.watch(place.range) as watch:
        follower = Follower(watch)
        await follower.until(lambda state: place.key("lost") not in state)
        again = await store.open_session(SESSION_TIMEOUT_MS_MIN)
        await store.put(place.key("again"), b"1", session=again)
        assert not kept.is_lost
        await kept.close()
        await follower.until_values({place.key("again"): b"1"})


async def test_what_a_session_is_told_is_in_time(store: MetadataStore) -> None:
    """It never promises more than its timeout, however often it is asked."""
    async with await store.open_session(SESSION_TIMEOUT_MS_MIN) as session:
        for _ in range(100):
            assert 0 < session.remaining_s <= SESSION_TIMEOUT_MS_MIN / 1000
            assert not session.is_lost
            await asyncio.sleep(0)
