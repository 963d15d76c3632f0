"""The shapes in which watches of other stores are known to have failed, one by one, on stores in this process.

They are those of etcd's track record: a starved watcher that skipped events (#17529), deletions lost around a
compaction (#18089, #19179), watchers at and below the compacted part, events that came twice or out of order behind a
reconnect, marks of progress ahead of events, watches that begin amid writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from metastore.engine.shard import ShardOptions
from metastore.interface import (
    BatchKind,
    Change,
    ChangeKind,
    Environment,
    MetadataStore,
    Put,
    Range,
    TokenExpired,
    Watch,
)
from metastore.log import LogOptions
from metastore.pb import tidemark_pb2 as pb
from metastore.providers.local.data import OpenDirectory
from metastore.providers.local.settings import Settings
from metastore.providers.local.store import LocalStore
from metastore.providers.memory import MemoryData, MemoryStore
from metastore.providers.wire.feed import Feed, Mark
from support.local_shard import SMALL_STORE
from watch_contract.stage import Plan, Stage
from watch_contract.tokens import offsets_of, with_offsets
from watch_contract.verdict import report

SMALL_LOG = LogOptions(
    segment_bytes_max=16 << 10, step_bytes_min=4 << 10, step_bytes_max=8 << 10, reserve_bytes=4 << 10, sync=False
)
STARVING_WRITES, KEYS_PER_WRITE = 20, 400
"""More changes than any queue of a watch holds."""
TRIMMED_WITHIN_WRITES = 100_000
LARGE = b"x" * 4_000
WATCHED = Range("/watched/", "/watched/~")


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs an async function."""
    asyncio.run(scenario())


@asynccontextmanager
async def embedded(path: Path) -> AsyncIterator[MetadataStore]:
    """A store whose log is trimmed as soon as it can be."""
    options = ShardOptions(retention_ms=0, store=SMALL_STORE, log=SMALL_LOG)
    settings = Settings(path, "default", 1, None, options)
    async with LocalStore(OpenDirectory(settings, Environment())) as store:
        yield store


async def beginning(store: MetadataStore, range: Range = WATCHED) -> str:
    """The token of a watch that begins now."""
    async with store.watch(range, snapshot=False) as watch:
        token = (await anext(watch)).token
    assert token is not None
    return token


async def next_changes(watch: Watch) -> tuple[Change, ...]:
    """Of the next batch that has some."""
    async for batch in watch:
        if batch.kind is BatchKind.CHANGES:
            return batch.changes
    raise AssertionError("the watch has ended")


async def expiry(store: MetadataStore, token: str) -> int | None:
    """From which offset on changes are kept, if those behind a token are not."""
    try:
        async with store.watch(WATCHED, resume=token) as watch:
            await next_changes(watch)
    except TokenExpired as error:
        return oldest_of(error)
    return None


def oldest_of(error: TokenExpired) -> int:
    assert error.oldest_offset is not None, "these stores know it"
    return error.oldest_offset


async def write_until_trimmed(store: MetadataStore, token: str) -> int:
    """Writes until what follows a token is gone; returns from where on it is kept."""
    for number in range(TRIMMED_WITHIN_WRITES):
        await store.put(f"/watched/{number % 3}", LARGE)
        oldest = await expiry(store, token)
        if oldest is not None:
            return oldest
    raise AssertionError("the log was never trimmed")


@pytest.mark.parametrize("provider", ["memory", "embedded"])
def test_a_watcher_that_is_starved_skips_nothing(provider: str, tmp_path: Path) -> None:
    """It reads nothing while thousands of changes happen, and then gets every one of them, write by write."""

    async def scenario() -> None:
        opened = MemoryStore() if provider == "memory" else kept(tmp_path)
        async with opened as store, store.watch(WATCHED, snapshot=False) as watch:
            first = await anext(watch)
            assert first.token is not None
            for number in range(STARVING_WRITES):
                puts = [Put(f"/watched/{key}", b"%d" % number) for key in range(KEYS_PER_WRITE)]
                await store.transact("p", puts)
            told: list[Change] = []
            while len(told) < STARVING_WRITES * KEYS_PER_WRITE:
                told += await next_changes(watch)
        for number in range(STARVING_WRITES):
            of_write = told[number * KEYS_PER_WRITE : (number + 1) * KEYS_PER_WRITE]
            assert len({change.key for change in of_write}) == KEYS_PER_WRITE
            assert {change.offset for change in of_write} == {offsets_of(first.token)[0] + number}
            assert {change.record and change.record.value for change in of_write} == {b"%d" % number}

    run(scenario)


@asynccontextmanager
async def kept(path: Path) -> AsyncIterator[MetadataStore]:
    """A store that keeps everything."""
    settings = Settings(path, "default", 1, None, ShardOptions(log=LogOptions(sync=False)))
    async with LocalStore(OpenDirectory(settings, Environment())) as store:
        yield store


@pytest.mark.parametrize("kept_writes", [0, 1, 2])
def test_a_deletion_at_the_edge_of_what_is_kept_is_told_or_said_to_be_lost(kept_writes: int) -> None:
    async def scenario() -> None:
        data = MemoryData()
        async with MemoryStore(data) as store:
            await store.put("/watched/a", b"1")
            token = await beginning(store)
            await store.delete("/watched/a")
            data.trim(kept_writes)
            oldest = await expiry(store, token) if not kept_writes else None
            assert (oldest is None) == bool(kept_writes)
            if kept_writes:
                async with store.watch(WATCHED, resume=token) as watch:
                    assert [change.kind for change in await next_changes(watch)] == [ChangeKind.DELETED]

    run(scenario)


def test_a_watch_at_exactly_the_edge_is_told_everything_from_there(tmp_path: Path) -> None:
    """At the oldest offset that is kept a watch goes on, one below it does not; trimming is not waited for."""

    async def scenario() -> None:
        async with embedded(tmp_path) as store:
            token = await beginning(store)
            oldest = await write_until_trimmed(store, token)
            assert oldest > offsets_of(token)[0]
            further = await expiry(store, with_offsets(token, [oldest - 1]))
            assert further is not None
            at_edge = await told_from(store, token, further)
            end = await beginning(store)
            assert [change.offset for change in at_edge] == [*range(at_edge[0].offset, offsets_of(end)[0])]

    run(scenario)


async def told_from(store: MetadataStore, token: str, oldest: int) -> list[Change]:
    """All changes from the edge on, which may move away under the watch, but then says so."""
    while True:
        end = offsets_of(await beginning(store))[0]
        told: list[Change] = []
        try:
            async with store.watch(WATCHED, resume=with_offsets(token, [oldest])) as watch:
                while not told or told[-1].offset + 1 < end:
                    told += await next_changes(watch)
        except TokenExpired as error:
            oldest = check_later(oldest_of(error), oldest)
        else:
            assert told[0].offset == oldest
            return told


def check_later(oldest: int, before: int) -> int:
    """The edge has moved, or there was no need to expire."""
    assert oldest > before
    return oldest


def test_deletions_are_not_lost_between_a_snapshot_and_a_trimmed_log(tmp_path: Path) -> None:
    """Whoever begins anew whenever he is too late knows at last what is there, and what is not."""

    async def scenario() -> None:
        async with embedded(tmp_path) as store:
            token = await beginning(store)
            await store.put("/watched/gone", b"")
            await write_until_trimmed(store, token)
            known: set[str] = set()
            async with store.watch(WATCHED) as watch:
                batch = await anext(watch)
                while batch.kind is not BatchKind.SNAPSHOT_END:
                    batch = await anext(watch)
                    known.update(record.key for record in batch.records)
                assert "/watched/gone" in known
                for key in list(known):
                    await store.delete(key)
                while known:
                    for change in await next_changes(watch):
                        assert change.kind is ChangeKind.DELETED
                        known.remove(change.key)

    run(scenario)


@pytest.mark.parametrize("provider", ["memory", "embedded"])
def test_watches_that_begin_amid_writes_begin_without_a_gap(provider: str, tmp_path: Path) -> None:
    """Many watchers, each of them beginning again and again while three writers are at work."""
    plan = Plan(seed=1, shards=1, rounds=40, least={"openings": 60}, watchers=40)

    async def scenario() -> None:
        data = MemoryData()
        async with MemoryStore(data) if provider == "memory" else kept(tmp_path) as store:

            @asynccontextmanager
            async def lend() -> AsyncIterator[MetadataStore]:
                yield store

            findings = await Stage(plan, lend).run()
            assert not findings.violations, report(findings)
            assert findings.counts["openings"] >= 60

    run(scenario)


def test_a_mark_that_crossed_with_the_request_to_go_on_says_nothing_of_it() -> None:
    """A server tells its progress for all watches of a stream: one that it does not know yet is not among them."""
    template = pb.CreateWatch(start_inclusive=b"a", beginning=pb.SNAPSHOT, store_id=b"s")
    feed = Feed(0, template, 58, 10, wake=lambda: None)
    feed.create_request(2)
    feed.progress(100)
    assert feed.take() is None, "what lies between 58 and 100 was not told"
    feed.arrive(pb.WatchNews(created=pb.WatchCreated(resume_offset=58)))
    feed.progress(101)
    assert feed.take() == Mark(101)
    feed.tear()
    feed.create_request(1)
    feed.progress(200)
    assert feed.take() is None, "on a new stream the same holds again"
