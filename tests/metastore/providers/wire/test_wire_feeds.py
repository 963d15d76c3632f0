"""One shard of a watch: whole writes, credit, and what is left after a break; and how shards make one watch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import grpc
import pytest

from metastore.interface.errors import InvalidRequest, LimitExceeded, StoreError, StoreFailed, TokenExpired
from metastore.interface.urls import open_store
from metastore.interface.values import BatchKind, ChangeKind, Range
from metastore.pb import oxia_pb2, tidemark_pb2
from metastore.pb import tidemark_pb2 as pb
from metastore.providers.wire.feed import CREDIT_EVENTS, Changes, Feed, Mark, Records
from support.proxy import Proxy, Way
from support.server import ServerProcess


def feed(resume_offset: int | None = None, credit: int = 10) -> Feed:
    template = pb.CreateWatch(start_inclusive=b"a", beginning=pb.SNAPSHOT, store_id=b"s")
    return Feed(3, template, resume_offset, credit, wake=lambda: None)


def record(key: str) -> oxia_pb2.GetResponse:
    return oxia_pb2.GetResponse(key=key.encode(), value=b"v", version=oxia_pb2.Version(version_id=1))


def changes(offset: int, *keys: str, is_continued: bool = False) -> pb.WatchNews:
    write = pb.WatchedWrite(
        offset=offset,
        changes=[pb.WatchChange(kind=pb.CREATED, record=record(key)) for key in keys],
        is_continued=is_continued,
    )
    return pb.WatchNews(changes=pb.WatchChanges(writes=[write]))


def snapshot(*keys: str) -> pb.WatchNews:
    return pb.WatchNews(snapshot_records=pb.SnapshotRecords(records=[record(key) for key in keys]))


def snapshot_end(offset: int) -> pb.WatchNews:
    return pb.WatchNews(snapshot_end=pb.SnapshotEnd(resume_offset=offset))


def ended(code: grpc.StatusCode, **fields: object) -> pb.WatchNews:
    return pb.WatchNews(ended=pb.WatchEnded(code=code.value[0], message="because", **fields))  # type: ignore[arg-type]


def created_by(request: bytes) -> pb.CreateWatch:
    return pb.WatchRequest.FromString(request).create


def test_a_feed_begins_as_it_is_told_and_goes_on_where_it_is() -> None:
    begun = feed()
    first = created_by(begun.create_request(7))
    assert (first.watch_id, first.shard, first.beginning, first.credit) == (7, 3, pb.SNAPSHOT, 10)
    assert not first.HasField("store_id")
    for news in (pb.WatchNews(snapshot_begin=pb.SnapshotBegin()), snapshot("a", "b"), snapshot_end(5)):
        assert begun.arrive(news) is None
    begun.tear()
    assert not begun.is_torn
    again = created_by(begun.create_request(8))
    assert (again.beginning, again.from_offset, again.credit, again.store_id) == (pb.OFFSET, 5, 8, b"s")
    told = [begun.take(), begun.take(), begun.take()]
    assert isinstance(told[0], Records)
    assert [each.key for each in told[0].records] == ["a", "b"]
    assert told[1:] == [Mark(5), None]


def test_a_snapshot_that_broke_off_is_worth_nothing() -> None:
    untouched, begun = feed(), feed()
    begun.arrive(pb.WatchNews(snapshot_begin=pb.SnapshotBegin()))
    for each in (untouched, begun):
        each.tear()
    assert not untouched.is_torn
    assert begun.is_torn


def test_writes_are_told_whole() -> None:
    told = feed(resume_offset=4)
    told.arrive(changes(4, "a"))
    told.arrive(changes(5, "b", is_continued=True))
    told.arrive(changes(5, "c", is_continued=True))
    told.progress(6)
    first = told.take()
    assert isinstance(first, Changes)
    assert (first.next_offset, [each.key for each in first.changes]) == (5, ["a"])
    assert told.take() is None
    told.arrive(changes(5, "d"))
    second = told.take()
    assert isinstance(second, Changes)
    assert (second.next_offset, [each.key for each in second.changes]) == (6, ["b", "c", "d"])
    assert {each.offset for each in second.changes} == {5}


def test_a_write_that_broke_off_comes_again_as_a_whole() -> None:
    told = feed(resume_offset=4)
    told.arrive(changes(4, "a", is_continued=True))
    told.tear()
    assert created_by(told.create_request(2)).from_offset == 4
    told.arrive(changes(4, "a", "b"))
    news = told.take()
    assert isinstance(news, Changes)
    assert [each.key for each in news.changes] == ["a", "b"]


def test_progress_is_kept_as_one_mark_and_never_goes_back() -> None:
    told = feed(resume_offset=4)
    told.create_request(1)
    told.arrive(pb.WatchNews(created=pb.WatchCreated(resume_offset=4)))
    told.progress(4)
    assert told.take() is None
    for offset in (6, 9, 7):
        told.progress(offset)
    assert [told.take(), told.take()] == [Mark(9), None]
    fresh = feed()
    fresh.progress(9)
    assert fresh.take() is None, "without a beginning there is no progress"


def test_credit_is_given_back_as_news_are_read() -> None:
    granted: list[tuple[int, int]] = []
    told = feed(resume_offset=0, credit=4)
    told.create_request(7)
    told.grant = lambda watch_id, events: granted.append((watch_id, events))
    for offset in range(3):
        told.arrive(changes(offset, f"{offset}"))
    told.take()
    assert granted == []
    told.take()
    assert granted == [(7, 2)]
    told.tear()
    assert created_by(told.create_request(8)).credit == 3, "one is waiting here already"


@pytest.mark.parametrize(
    ("news", "kind"),
    [
        (ended(grpc.StatusCode.OUT_OF_RANGE, oldest_offset=12), TokenExpired),
        (ended(grpc.StatusCode.INVALID_ARGUMENT), InvalidRequest),
        (ended(grpc.StatusCode.RESOURCE_EXHAUSTED), LimitExceeded),
    ],
)
def test_what_cannot_go_on_says_why_after_what_has_arrived(news: pb.WatchNews, kind: type[StoreError]) -> None:
    told = feed(resume_offset=4)
    told.arrive(changes(4, "a"))
    assert told.arrive(news) is None
    assert isinstance(told.take(), Changes)
    with pytest.raises(kind, match="because") as raised:
        told.take()
    assert getattr(raised.value, "oldest_offset", 12) == 12


def test_what_passes_is_no_error_of_the_watch() -> None:
    told = feed(resume_offset=4)
    failure = told.arrive(ended(grpc.StatusCode.UNAVAILABLE))
    assert failure is not None
    assert failure.is_passing
    assert told.take() is None


def test_a_store_that_became_another_has_other_changes() -> None:
    changed = ended(grpc.StatusCode.FAILED_PRECONDITION, reason="STORE_CHANGED", domain="tidemark.metastore")
    was_in_order = feed(resume_offset=4)
    was_in_order.arrive(pb.WatchNews(created=pb.WatchCreated(resume_offset=4)))
    was_in_order.arrive(changed)
    with pytest.raises(TokenExpired):
        was_in_order.take()


def test_a_change_of_unknown_kind_is_not_skipped() -> None:
    write = pb.WatchedWrite(offset=1, changes=[pb.WatchChange(key=b"a")])
    with pytest.raises(StoreFailed, match="unknown kind"):
        feed(resume_offset=1).arrive(pb.WatchNews(changes=pb.WatchChanges(writes=[write])))


def test_a_deleted_record_is_named() -> None:
    told = feed(resume_offset=1)
    change = pb.WatchChange(kind=tidemark_pb2.DELETED, key=b"a", previous=record("a"))
    write = pb.WatchedWrite(offset=1, timestamp=9, changes=[change])
    told.arrive(pb.WatchNews(changes=pb.WatchChanges(writes=[write])))
    news = told.take()
    assert isinstance(news, Changes)
    only = news.changes[0]
    assert (only.kind, only.key, only.record, only.shard, only.time_ms) == (ChangeKind.DELETED, "a", None, 3, 9)
    assert only.previous is not None


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(shards=3) as started:
        yield started


def test_a_snapshot_begins_anew_until_all_shards_have_told_theirs(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with Proxy(server.address) as proxy, await open_store(f"oxia://{server.address}") as direct:
            keys = {f"s-{number}" for number in range(9 * CREDIT_EVENTS)}
            await asyncio.gather(*[direct.put(key, b"1") for key in keys])
            async with await open_store(f"oxia://{proxy.address}") as store, store.watch(Range("s-", "s.")) as watch:
                begins, found = 0, set[str]()
                kind = None
                while kind is not BatchKind.SNAPSHOT_END:
                    batch = await anext(watch)
                    kind = batch.kind
                    if kind is BatchKind.SNAPSHOT_BEGIN:
                        begins, found = begins + 1, set()
                    found |= {each.key for each in batch.records}
                    if begins == 1 and len(found) > CREDIT_EVENTS // 2:
                        proxy.reset_all()
                assert begins == 2
                assert found == keys

    asyncio.run(scenario())


def test_a_slow_reader_holds_no_more_than_its_credit(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with (
            await open_store(f"oxia://{server.address}") as store,
            store.watch(Range("c-", "c."), snapshot=False) as slow,
            store.watch(Range("c-", "c."), snapshot=False) as fast,
        ):
            await anext(slow)
            await anext(fast)
            keys = [f"c-{number}" for number in range(4 * CREDIT_EVENTS)]
            for first in range(0, len(keys), 256):  # so many in one write: a write is never cut by the credit
                await asyncio.gather(*[store.put(key, b"1", partition_key="p") for key in keys[first : first + 256]])
            told = 0
            while told < len(keys):
                told += len((await anext(fast)).changes)
            waiting = [each._waiting_events for each in slow._feeds]  # type: ignore[attr-defined]
            assert CREDIT_EVENTS <= sum(waiting) < CREDIT_EVENTS + 256
            read: list[str] = []
            while len(read) < len(keys):
                read += [change.key for change in (await anext(slow)).changes]
            assert read == keys

    asyncio.run(scenario())


def test_watches_wait_for_a_server_that_is_silent(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with (
            Proxy(server.address) as proxy,
            await open_store(f"oxia://{proxy.address}") as store,
            store.watch(Range("w-", "w."), snapshot=False) as watch,
        ):
            await anext(watch)
            proxy.stall_all(Way.DOWN)
            waiting = asyncio.ensure_future(anext(watch))
            async with await open_store(f"oxia://{server.address}") as direct:
                await direct.put("w-1", b"1")
            assert not waiting.done()
            proxy.release()
            batch = await waiting
            while not batch.changes:
                batch = await anext(watch)
            assert [change.key for change in batch.changes] == ["w-1"]

    asyncio.run(scenario())
