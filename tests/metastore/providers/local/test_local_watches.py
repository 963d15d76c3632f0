"""Watches of the embedded store: several shards as one, tokens across restarts, and how they end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from local_helpers import opened, opened_small, run, until

from metastore.interface import (
    BatchKind,
    Change,
    ChangeKind,
    InvalidToken,
    LimitExceeded,
    Range,
    StoreClosed,
    TokenExpired,
    children_of,
    exactly,
)
from metastore.providers.local.sequences import SEQUENCE_KEYS_MAX
from metastore.watch import limits

RECORDS = 1500


def test_a_snapshot_of_several_shards_is_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path, "shards=3&sync=false") as store:
            keys = [f"/a/{number:04}" for number in range(RECORDS)]
            await asyncio.gather(*(store.put(key, b"1") for key in [*keys, "/b/x"]))
            async with store.watch(children_of("/a")) as watch:
                batches = await until(watch, BatchKind.SNAPSHOT_END)
                kinds = [batch.kind for batch in batches]
                assert kinds[0] is BatchKind.SNAPSHOT_BEGIN
                assert set(kinds[1:-1]) == {BatchKind.SNAPSHOT}
                assert sorted(record.key for batch in batches for record in batch.records) == keys
                assert [batch.token is None for batch in batches] == [True] * (len(batches) - 1) + [False]
                for key in ("/a/0000", "/b/x", "/a/0001"):
                    await store.put(key, b"2")
                told = [change for _ in range(2) for change in (await anext(watch)).changes]
                assert [(change.key, change.kind) for change in told] == [
                    ("/a/0000", ChangeKind.MODIFIED),
                    ("/a/0001", ChangeKind.MODIFIED),
                ]

    run(scenario)


def test_changes_between_the_parts_of_a_snapshot_come_behind_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path, "shards=3&sync=false") as store:
            await asyncio.gather(*(store.put(f"/a/{number:04}", b"1") for number in range(RECORDS)))
            async with store.watch(children_of("/a")) as watch:
                values: dict[str, bytes | None] = {}
                assert (await anext(watch)).kind is BatchKind.SNAPSHOT_BEGIN
                for record in (await anext(watch)).records:
                    values[record.key] = record.value
                await asyncio.gather(*(store.put(f"/a/{number:04}", b"2") for number in range(RECORDS)))
                changed = 0
                while values != dict.fromkeys(values, b"2") or len(values) < RECORDS:
                    batch = await anext(watch)
                    values |= {record.key: record.value for record in batch.records}
                    for change in batch.changes:
                        assert change.record is not None
                        assert values[change.key] == b"1", "told twice, or before its snapshot"
                        values[change.key] = change.record.value
                        changed += 1
                assert changed > 0

    run(scenario)


@pytest.mark.parametrize("left", [RECORDS, 3])
def test_a_snapshot_that_stood_still_begins_anew_for_all_shards(tmp_path: Path, left: int) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path, "shards=2&sync=false") as store:
            await asyncio.gather(*(store.put(f"/a/{number:04}", b"1") for number in range(RECORDS)))
            async with store.watch(children_of("/a")) as watch:
                batches = [await anext(watch)]
                second = store.shards[1].hub
                while not second._line.holders():
                    batches.append(await anext(watch))
                for now_s in (1_000.0, 1_001.0, 1_002.0 + limits.SNAPSHOT_STANDS_S):
                    second.tend(now_s)
                await store.delete_range(Range(f"/a/{left:04}", "/a//"))
                batches += await until(watch, BatchKind.SNAPSHOT_END)
                begins = [place for place, batch in enumerate(batches) if batch.kind is BatchKind.SNAPSHOT_BEGIN]
                assert len(begins) == 2
                anew = [record.key for batch in batches[begins[1] :] for record in batch.records]
                assert sorted(anew) == [f"/a/{number:04}" for number in range(left)]
                await store.put("/a/0000", b"2")
                (change,) = (await anext(watch)).changes
                assert change.key == "/a/0000"

    run(scenario)


def test_a_watch_resumes_by_token_in_the_next_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path, "shards=2") as store:
            watch = store.watch(children_of("/a"), previous_values=True)
            token = (await until(watch, BatchKind.SNAPSHOT_END))[-1].token
            await store.put("/a/1", b"1")
            told = await anext(watch)
            assert told.changes[0].kind is ChangeKind.CREATED
            await store.put("/a/1", b"2")
        async with await opened(tmp_path) as store:
            await store.delete("/a/1")
            for resume, expected in (
                (token, [(b"1", None), (b"2", b"1"), (None, b"2")]),
                (told.token, [(b"2", b"1"), (None, b"2")]),
            ):
                async with store.watch(children_of("/a"), resume=resume, previous_values=True) as watch:
                    changes: list[Change] = []
                    while len(changes) < len(expected):
                        changes += (await anext(watch)).changes
                values = [
                    (each.record and each.record.value, each.previous and each.previous.value) for each in changes
                ]
                assert values == expected

    run(scenario)


def test_a_token_of_something_else_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path / "one", "shards=2") as store:
            async with store.watch(children_of("/a"), snapshot=False) as watch:
                token = (await anext(watch)).token
            assert token is not None
            with pytest.raises(InvalidToken, match="another watch"):
                store.watch(children_of("/b"), resume=token)
            with pytest.raises(InvalidToken, match="another watch"):
                store.watch(children_of("/a"), index="i", resume=token)
            with pytest.raises(InvalidToken, match="no token"):
                store.watch(children_of("/a"), resume=token[:-2])
        async with await opened(tmp_path / "two", "shards=2") as other:
            with pytest.raises(InvalidToken, match="another store"):
                other.watch(children_of("/a"), resume=token)

    run(scenario)


def test_a_token_from_the_future_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path) as store:
            await store.put("/a/1", b"")
            async with store.watch(snapshot=False) as watch:
                token = (await anext(watch)).token
        for part in ("log", "index"):  # as if an older state of the shard had been put back
            for file in (tmp_path / "shards" / "0000" / part).iterdir():
                file.unlink()
        async with await opened(tmp_path) as store, store.watch(resume=token) as watch:
            with pytest.raises(InvalidToken, match="ahead"):
                await anext(watch)

    run(scenario)


def test_a_token_older_than_the_log_has_expired(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened_small(tmp_path) as store:
            async with store.watch(snapshot=False) as watch:
                token = (await anext(watch)).token
            shard = store.shards[0].shard
            while shard.first_offset == 0:
                await store.put("/a", bytes(1000))
                await asyncio.to_thread(shard.feeder.feed_all)
                await asyncio.to_thread(shard.trim_log)
            async with store.watch(resume=token) as watch:
                for _ in range(2):  # and so it stays
                    with pytest.raises(TokenExpired) as expired:
                        await anext(watch)
                    assert expired.value.oldest_offset == shard.first_offset

    run(scenario)


def test_progress_is_told_while_nothing_happens_to_the_range(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path) as store, store.watch(exactly("/a"), snapshot=False) as watch:
            first = await anext(watch)
            waiting = asyncio.ensure_future(anext(watch))
            await store.put("/elsewhere", b"")
            told = await waiting
            assert (first.kind, told.kind) == (BatchKind.PROGRESS, BatchKind.PROGRESS)
            await store.put("/a", b"")
            async with store.watch(exactly("/a"), resume=told.token) as resumed:
                assert (await anext(resumed)).changes == (await anext(watch)).changes

    run(scenario)


def test_a_cancelled_wait_loses_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path, "sync=false") as store, store.watch(snapshot=False) as watch:
            await anext(watch)
            told: list[str] = []
            for number in range(200):
                waiting = asyncio.ensure_future(anext(watch))
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                putting = asyncio.ensure_future(store.put(f"/{number:03}", b""))
                for _ in range(number % 7):
                    await asyncio.sleep(0)
                waiting.cancel()
                (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
                if not isinstance(outcome, BaseException):
                    told += [change.key for change in outcome.changes]
                await putting
            while len(told) < 200:
                told += [change.key for change in (await anext(watch)).changes]
            assert told == [f"/{number:03}" for number in range(200)]

    run(scenario)


def test_a_closed_watch_frees_what_it_held(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await opened(tmp_path, "sync=false")
        await asyncio.gather(*(store.put(f"/{number:04}", b"") for number in range(RECORDS)))
        hub, engine = store.shards[0].hub, store.shards[0].shard.store
        watch = store.watch(previous_values=True)
        await anext(watch)
        assert (hub.statistics().watches, engine.open_snapshots) == (1, 1)
        await watch.close()
        await watch.close()
        assert (hub.statistics().watches, engine.open_snapshots) == (0, 0)
        assert [batch async for batch in watch] == []
        waiting_watch = store.watch(snapshot=False)
        await anext(waiting_watch)
        waiting = asyncio.ensure_future(anext(waiting_watch))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreClosed):
            await waiting
        assert hub.statistics().watches == 0

    run(scenario)


def test_too_many_watches_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WATCHES_MAX", 1)

    async def scenario() -> None:
        async with await opened(tmp_path) as store, store.watch(snapshot=False) as watch:
            await anext(watch)
            async with store.watch(snapshot=False) as other:
                with pytest.raises(LimitExceeded, match="WATCHES_MAX"):
                    await anext(other)

    run(scenario)


def test_a_sequence_is_followed_from_its_greatest_key_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await opened(tmp_path, "shards=3&sync=false") as store:

            async def put() -> str:
                return (await store.put("/s", b"", partition_key="p", sequence_deltas=[1])).key

            await put()
            greatest = await put()
            keys = store.watch_sequence("/s", partition_key="p")
            assert await anext(keys) == greatest
            new = [await put() for _ in range(5)]
            assert [await anext(keys) for _ in new] == new
            for _ in range(200):
                last = await put()
            told = [await anext(keys)]
            while told[-1] != last:
                told.append(await anext(keys))
            assert told == sorted(told)
            assert len(told) <= SEQUENCE_KEYS_MAX + 1  # the last may come while the first is taken
            await keys.aclose()  # type: ignore[attr-defined]
            assert sum(len(shard.sequences) for shard in store.shards) == 0

    run(scenario)
