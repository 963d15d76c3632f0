"""The end of a store object: what is under way ends with StoreClosed, and what comes later too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from store_helpers import Follower, OpenStore, Place, collect

from metastore.interface import (
    ABSENT,
    Delete,
    InvalidUrl,
    MetadataStore,
    StoreClosed,
    Watch,
    open_store,
)

Call = Callable[[MetadataStore, str], Awaitable[Any]]

CALLS: dict[str, Call] = {
    "put": lambda store, key: store.put(key, b""),
    "get": lambda store, key: store.get(key),
    "delete": lambda store, key: store.delete(key),
    "delete_range": lambda store, key: store.delete_range(Place("closed").range),
    "list": lambda store, key: collect(store.list()),
    "scan": lambda store, key: collect(store.scan()),
    "open_session": lambda store, key: store.open_session(),
    "watch": lambda store, key: first_of(store),
    "watch_sequence": lambda store, key: anext(store.watch_sequence(key, partition_key="p")),
}


async def first_of(store: MetadataStore) -> None:
    await anext(store.watch())


@pytest.mark.parametrize("name", CALLS)
async def test_a_closed_store_refuses_calls(store: MetadataStore, place: Place, name: str) -> None:
    await store.close()
    await store.close()
    with pytest.raises(StoreClosed):
        await CALLS[name](store, place.key("a"))


async def test_a_closed_store_refuses_transactions(store: MetadataStore, place: Place) -> None:
    if not store.capabilities.transact:
        pytest.skip("no transactions")
    await store.close()
    with pytest.raises(StoreClosed):
        await store.transact("p", [Delete(place.key("a"))])


async def test_closing_ends_what_waits(store: MetadataStore, place: Place) -> None:
    async def wait_for_ever(news: AsyncIterator[Any]) -> None:
        while True:
            await anext(news)  # a mark of progress may come

    watch = store.watch(place.range)
    await Follower(watch).begin()
    sequence = store.watch_sequence(place.key("s"), partition_key="p")
    put = await store.put(place.key("s"), b"", partition_key="p", sequence_deltas=[1])
    assert await anext(sequence) == put.key
    waiting = [asyncio.ensure_future(wait_for_ever(each)) for each in (watch, sequence)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in waiting)
    await store.close()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreClosed] * 2
    with pytest.raises(StoreClosed):
        await anext(watch)
    await watch.close()


async def test_closing_ends_calls_under_way(open_one: OpenStore, place: Place) -> None:
    """Each call either was done or ends with StoreClosed; those that say they were done were."""
    store = await open_one()
    puts = [asyncio.ensure_future(store.put(place.key(f"{number:03d}"), b"", expected=ABSENT)) for number in range(300)]
    reads = [asyncio.ensure_future(collect(store.scan(place.range))) for _ in range(20)]
    await puts[0]
    await store.close()
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    done = [place.key(f"{number:03d}") for number, each in enumerate(outcomes) if not isinstance(each, BaseException)]
    failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert {type(outcome) for outcome in failed} <= {StoreClosed}
    for read in await asyncio.gather(*reads, return_exceptions=True):
        assert isinstance(read, list | StoreClosed)
    later = await open_one()
    assert set(done) <= set(await collect(later.list(place.range)))


async def test_sessions_of_a_closed_store_close_without_a_word(store: MetadataStore) -> None:
    session = await store.open_session()
    waiting = asyncio.ensure_future(session.wait_lost())
    await asyncio.sleep(0)
    await store.close()
    await waiting
    await session.close()
    assert session.is_lost


async def test_iterators_that_were_begun_end_with_the_store(store: MetadataStore, place: Place) -> None:
    await asyncio.gather(*(store.put(place.key(f"{number:04d}"), b"x" * 1000) for number in range(3000)))
    scan = store.scan(place.range)
    await anext(scan)
    await store.close()
    try:
        rest = await collect(scan)
    except StoreClosed:
        return
    assert len(rest) == 2999, "a scan that does not fail is complete"


async def test_opening_refuses_unknown_options(store: MetadataStore, open_url: str) -> None:
    await store.close()
    joint = "&" if "?" in open_url else "?"
    with pytest.raises(InvalidUrl, match="colour"):
        await open_store(f"{open_url}{joint}colour=blue")


async def test_a_cancelled_call_leaves_the_store_usable(store: MetadataStore, place: Place) -> None:
    watches: list[Watch] = []
    for turn in range(30):
        watches.append(store.watch(place.range))
        calls = [
            asyncio.ensure_future(each)
            for each in (
                store.put(place.key("a"), b"%d" % turn),
                store.get(place.key("a")),
                collect(store.scan(place.range)),
                anext(watches[-1]),
            )
        ]
        for _ in range(turn % 10):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)
    await asyncio.gather(*(watch.close() for watch in watches))
    await store.put(place.key("a"), b"last")
    found = await store.get(place.key("a"))
    assert found is not None
    assert found.value == b"last"
