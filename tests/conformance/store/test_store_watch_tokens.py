"""Watches that are resumed: by whom, from where, and with what they refuse to go on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from store_helpers import Follower, OpenStore, Place, by_shard

from metastore.interface import BatchKind, ChangeKind, InvalidToken, MetadataStore, Range, TokenExpired
from support.stores import Subject


async def token_of(store: MetadataStore, range: Range, **options: Any) -> str:
    async with store.watch(range, snapshot=False, **options) as watch:
        token = (await anext(watch)).token
    assert token is not None
    return token


async def test_a_watch_goes_on_right_behind_its_token(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"1")
    async with store.watch(place.range) as watch:
        follower = Follower(watch)
        state = dict(await follower.begin())
    assert follower.token is not None
    await store.put(place.key("a"), b"2")
    await store.put(place.key("b"), b"3")
    await store.delete(place.key("a"))
    async with store.watch(place.range, resume=follower.token) as watch:
        resumed = Follower(watch, state)
        resumed.token = follower.token
        await resumed.until_values({place.key("b"): b"3"})
    if store.capabilities.watches_every_change:
        kinds = [(change.key, change.kind) for change in sorted(resumed.changes, key=lambda change: change.key)]
        assert kinds == [
            (place.key("a"), ChangeKind.MODIFIED),
            (place.key("a"), ChangeKind.DELETED),
            (place.key("b"), ChangeKind.CREATED),
        ]


async def test_nothing_is_lost_or_repeated_wherever_a_watch_is_resumed(store: MetadataStore, place: Place) -> None:
    """Resumed behind every batch of a busy watch, it tells the rest."""
    async with store.watch(place.range) as watch:
        follower = Follower(watch)
        await follower.begin()
        assert follower.token is not None
        tokens, states, told = [follower.token], [dict(follower.state)], [0]
        for number in range(20):
            await store.put(place.key(f"{number % 4}"), b"%d" % number)
            if number % 3 == 0:
                await store.delete(place.key(f"{(number + 1) % 4}"))
            if number % 2:
                await follower.step()
                tokens.append(follower.token)
                states.append(dict(follower.state))
                told.append(len(follower.changes))
        last = {record.key: record async for record in store.scan(place.range)}
        await follower.until(lambda state: state == last)
    for token, state, count in zip(tokens, states, told, strict=True):
        async with store.watch(place.range, resume=token) as watch:
            resumed = Follower(watch, state)
            resumed.token = token
            await resumed.until(lambda state: state == last)
            if store.capabilities.watches_every_change:
                assert by_shard(resumed.changes) == by_shard(follower.changes[count:])


async def test_tokens_outlive_the_store_object(open_one: OpenStore, place: Place) -> None:
    store = await open_one()
    await store.put(place.key("a"), b"1")
    token = await token_of(store, place.range)
    state = {record.key: record async for record in store.scan(place.range)}
    await store.put(place.key("b"), b"2")
    await store.close()
    later = await open_one()
    await later.delete(place.key("a"))
    async with later.watch(place.range, resume=token) as watch:
        follower = Follower(watch, state)
        follower.token = token
        changes = {change.key: change for change in await follower.next_changes(2)}
    assert changes[place.key("a")].kind is ChangeKind.DELETED
    assert changes[place.key("b")].record == await later.get(place.key("b"))


async def test_a_watch_may_begin_now(store: MetadataStore, place: Place) -> None:
    await store.put(place.key("a"), b"1")
    async with store.watch(place.range, snapshot=False) as watch:
        first = await anext(watch)
        assert (first.kind, first.records, first.changes) == (BatchKind.PROGRESS, (), ())
        assert first.token is not None
        await store.put(place.key("b"), b"2")
        follower = Follower(watch)
        follower.token = first.token
        await follower.until_values({place.key("b"): b"2"})


async def test_progress_tokens_resume_too(store: MetadataStore, place: Place) -> None:
    token = await token_of(store, place.range)
    for number in range(10):
        await store.put(place.key(f"{number}"), b"")
        async with store.watch(place.range, resume=token) as watch:
            batch = await anext(watch)
            while batch.kind is BatchKind.PROGRESS:
                batch = await anext(watch)
            assert [change.key for change in batch.changes] == [place.key(f"{number}")]
            assert batch.token is not None
            token = batch.token


async def test_a_token_is_of_one_watch(store: MetadataStore, place: Place) -> None:
    token = await token_of(store, place.range)
    others: list[dict[str, Any]] = [
        {"range": Range(place.range.start, place.range.end + "x")},
        {"range": Range(place.range.start)},
        {"range": Range(place.range.start + "x", place.range.end)},
        {"range": place.range, "index": place.index()},
        {"range": place.range, "partition_key": "p"},
        {"range": place.range, "partition_key": ""},
    ]
    for options in others:
        with pytest.raises(InvalidToken):
            await begun(store, resume=token, **options)


async def test_a_token_of_an_index_is_of_that_index(store: MetadataStore, place: Place) -> None:
    token = await token_of(store, Range("a", "b"), index=place.index())
    await begun(store, range=Range("a", "b"), index=place.index(), resume=token)
    for options in ({}, {"index": place.index("other")}):
        with pytest.raises(InvalidToken):
            await begun(store, range=Range("a", "b"), resume=token, **options)


async def test_a_damaged_token_is_refused(store: MetadataStore, place: Place) -> None:
    token = await token_of(store, place.range)
    damaged = [token[:-1], token[1:], token + "A", token[:8] + ("B" if token[8] == "A" else "A") + token[9:], "=", "🦆"]
    for text in damaged:
        with pytest.raises(InvalidToken):
            await begun(store, range=place.range, resume=text)


async def begun(store: MetadataStore, **options: Any) -> None:
    """Has a watch taken up by the store: it is told of a write, or refuses."""
    async with store.watch(**options) as watch:
        waiting = asyncio.ensure_future(anext(watch))
        while not waiting.done():
            await store.put("begun", b"", indexes=[(options.get("index") or "begun", "ab")])
            await store.put(f"{options['range'].start}begun", b"", partition_key=options.get("partition_key"))
        await waiting


async def test_a_snapshot_and_a_token_lead_to_the_same(store: MetadataStore, subject: Subject, place: Place) -> None:
    """Two watches of the same range, one resumed again and again, end with the same state."""
    steady, token, state = Follower(store.watch(place.range)), None, None
    await steady.begin()
    for number in range(15):
        await store.put(place.key(f"{number % 3}"), b"%d" % number)
        if number % 4 == 3:
            await store.delete_range(place.range)
            if "what was in a range" in subject.faults:
                with pytest.raises(TokenExpired):
                    await begun(store, range=place.range, resume=token)
                token = None
        async with store.watch(place.range, resume=token) as watch:
            follower = Follower(watch, state)
            follower.token = token
            records = {record.key: record async for record in store.scan(place.range)}
            await follower.until(lambda state, records=records: state == records)  # type: ignore[misc]
            token, state = follower.token, dict(follower.state)
    assert state is not None
    await steady.until(lambda now: now == state)
    await steady.watch.close()
