"""What watches tell over the wire: snapshots, changes, offsets, credit and progress."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from grpc import StatusCode
from server_helpers import eventually
from tidemark_helpers import Serving, Told, WatchStream, call, put, serving, told, write

from metastore.pb import oxia_pb2 as pb
from metastore.pb import tidemark_pb2 as tm
from metastore.server.tidemark import watch_stream
from metastore.server.tidemark.news import NEWS_BYTES

INDEX = b"index"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path, shards=2) as made:
        yield made


@pytest.fixture
def stream(served: Serving) -> Iterator[WatchStream]:
    made = WatchStream(served.wire)
    yield made
    made.stream.cancel()


# ---- what is told


def test_a_snapshot_and_then_every_change(served: Serving, stream: WatchStream) -> None:
    write(served.wire, put(b"a/1", b"one"), put(b"a/2", b"two"), put(b"b/1", b"beyond"))
    stream.create(7, start_inclusive=b"a/", end_exclusive=b"a//")
    assert stream.snapshot(7) == ({b"a/1": b"one", b"a/2": b"two"}, 1)
    write(served.wire, put(b"a/3", b"three"), put(b"a/1", b"uno"), put(b"b/2"), deletes=(b"a/2",))
    assert sorted(stream.changes(7, 3), key=lambda change: change.key) == [
        Told("MODIFIED", b"a/1", b"uno", None, 1),
        Told("DELETED", b"a/2", None, None, 1),
        Told("CREATED", b"a/3", b"three", None, 1),
    ]
    delete = pb.DeleteRangeRequest(start_inclusive=b"a/", end_exclusive=b"a//")
    served.wire.call("Write", pb.WriteRequest(shard=0, delete_ranges=[delete]))
    assert {change.key for change in stream.changes(7, 2)} == {b"a/1", b"a/3"}


def test_records_are_told_whole(served: Serving, stream: WatchStream) -> None:
    session = served.wire.call("CreateSession", pb.CreateSessionRequest(shard=0, session_timeout_ms=60_000)).only
    write(served.wire, put(b"e", b"1", session_id=session.session_id, client_identity=b"me"))
    stream.create(1)
    read = pb.ReadRequest(shard=0, gets=[pb.GetRequest(key=b"e", include_value=True)])
    stream.opened(1)
    assert stream.next(1).WhichOneof("news") == "snapshot_begin"
    (record,) = stream.next(1).snapshot_records.records
    (found,) = served.wire.call("Read", read).only.gets
    assert (record.key, record.value, record.version) == (b"e", b"1", found.version)
    assert stream.next(1).WhichOneof("news") == "snapshot_end"
    write(served.wire, put(b"e", b"2", session_id=session.session_id, client_identity=b"me"))
    (change,) = stream.next(1).changes.writes[0].changes
    (found,) = served.wire.call("Read", read).only.gets
    assert (change.record.version, change.record.value) == (found.version, b"2")
    assert found.version.client_identity == b"me"


def test_changes_of_an_index(served: Serving, stream: WatchStream) -> None:
    stream.create(1, start_inclusive=b"1_2", end_exclusive=b"1_2\0", index_name=INDEX)
    assert stream.snapshot(1) == ({}, 0)
    write(served.wire, put(b"x", b"1", ((INDEX, b"1_2"),)), put(b"y", b"1"), put(b"z", b"1", ((INDEX, b"1_20"),)))
    write(served.wire, put(b"x", b"2", ((INDEX, b"1_2"),)), put(b"y", b"2", ((INDEX, b"1_2"), (INDEX, b"3"))))
    write(served.wire, put(b"x", b"3", ((INDEX, b"3"),)), deletes=(b"y",))
    found = [(change.kind, change.key, change.value) for change in stream.changes(1, 5)]
    assert found[0] == ("CREATED", b"x", b"1")
    assert sorted(found[1:3]) == [("ENTERED", b"y", b"2"), ("MODIFIED", b"x", b"2")]
    assert sorted(found[3:]) == [("DELETED", b"y", None), ("LEFT", b"x", b"3")]


def test_previous_values_on_request(served: Serving, stream: WatchStream) -> None:
    write(served.wire, put(b"k", b"1"))
    stream.create(1, previous_values=True)
    stream.create(2)
    stream.snapshot(1)
    stream.snapshot(2)
    write(served.wire, put(b"k", b"2"), put(b"new", b"3"))
    write(served.wire, deletes=(b"k",))
    expected = [("MODIFIED", b"k", b"2", b"1"), ("CREATED", b"new", b"3", None), ("DELETED", b"k", None, b"2")]
    found = [(change.kind, change.key, change.value, change.previous) for change in stream.changes(1, 3)]
    assert sorted(found[:2]) + found[2:] == sorted(expected[:2]) + expected[2:]
    assert {change.previous for change in stream.changes(2, 3)} == {None}


def test_from_now_on_and_from_an_offset(served: Serving, stream: WatchStream) -> None:
    for place in range(5):
        write(served.wire, put(b"k%d" % place))
    stream.create(1, beginning=tm.NOW)
    stream.create(2, beginning=tm.OFFSET, from_offset=2)
    stream.create(3, beginning=tm.OFFSET, from_offset=5)
    stream.create(4, beginning=tm.OFFSET, from_offset=0, start_inclusive=b"k3")
    assert [stream.opened(watch_id) for watch_id in (1, 2, 3, 4)] == [5, 2, 5, 0]
    write(served.wire, put(b"k5"))
    assert [change.key for change in stream.changes(1, 1)] == [b"k5"]
    assert [(change.key, change.offset) for change in stream.changes(2, 4)] == [
        (b"k2", 2), (b"k3", 3), (b"k4", 4), (b"k5", 5),
    ]  # fmt: skip
    assert [change.key for change in stream.changes(3, 1)] == [b"k5"]
    assert [change.key for change in stream.changes(4, 3)] == [b"k3", b"k4", b"k5"]


def test_a_transaction_is_one_write(served: Serving, stream: WatchStream) -> None:
    stream.create(1, beginning=tm.NOW)
    stream.opened(1)
    operations = [tm.TransactOperation(put=put(b"t%d" % place)) for place in range(20)]
    call(served.wire, "Transact", tm.TransactRequest(shard=0, operations=operations))
    (only,) = stream.next(1).changes.writes
    assert ([change.record.key for change in only.changes], only.is_continued) == (
        [b"t%d" % place for place in range(20)],
        False,
    )


def test_what_is_too_large_for_a_message_is_cut(served: Serving, stream: WatchStream) -> None:
    value = b"v" * (NEWS_BYTES // 4)
    stream.create(1, beginning=tm.NOW)
    stream.opened(1)
    write(served.wire, *(put(b"k%02d" % place, value) for place in range(20)))
    pieces: list[tm.WatchedWrite] = []
    while not pieces or pieces[-1].is_continued:
        pieces += stream.next(1).changes.writes
    assert len(pieces) >= 20 // 4
    assert {piece.offset for piece in pieces} == {0}
    keys = [change.record.key for piece in pieces for change in piece.changes]
    assert keys == [b"k%02d" % place for place in range(20)]
    write(served.wire, put(b"one", b"v" * (2 * NEWS_BYTES)))
    assert len(stream.changes(1, 1)[0].value or b"") == 2 * NEWS_BYTES
    stream.create(2)
    records, _ = stream.snapshot(2)
    assert len(records) == 21


# ---- many watches


def test_many_watches_on_one_stream(served: Serving, stream: WatchStream) -> None:
    count = 1_000
    for watch_id in range(count):
        key = b"k/%05d" % watch_id
        stream.create(watch_id, shard=watch_id % 2, start_inclusive=key, end_exclusive=key + b"\0", beginning=tm.NOW)
    for watch_id in range(count):
        assert stream.opened(watch_id) == 0
    for watch_id in range(0, count, 100):
        write(served.wire, put(b"k/%05d" % watch_id), shard=watch_id % 2)
        (change,) = stream.changes(watch_id, 1)
        assert change.key == b"k/%05d" % watch_id
    assert not any(stream.waiting(watch_id) for watch_id in range(count))
    puts = [put(b"k/%05d" % watch_id) for watch_id in range(0, count, 2)]
    responses = stream.responses
    write(served.wire, *puts)
    assert [stream.changes(watch_id, 1)[0].key for watch_id in range(0, count, 2)] == [each.key for each in puts]
    assert stream.responses - responses < len(puts), "news of several watches share a message"


def test_a_watch_that_is_cancelled_is_over(served: Serving, stream: WatchStream) -> None:
    stream.create(1, beginning=tm.NOW)
    stream.create(2, beginning=tm.NOW)
    stream.cancel(1)
    stream.cancel(99)
    stream.opened(1)
    ended = stream.ended(1)
    assert (ended.code, ended.message, ended.reason, ended.domain) == (0, "", "", "")
    stream.opened(2)
    write(served.wire, put(b"k"))
    assert stream.changes(2, 1)[0].key == b"k"
    stream.create(1)
    assert stream.snapshot(1) == ({b"k": b""}, 1)


def test_a_watch_that_is_woken_too_late_leaves_no_trace(served: Serving, stream: WatchStream) -> None:
    stream.create(1, beginning=tm.NOW)
    stream.create(2, beginning=tm.NOW, start_inclusive=b"z")
    stream.opened(1)
    stream.opened(2)
    (call,) = served.watch_calls()
    watch = call._watches[1]
    stream.cancel(1)
    stream.ended(1)
    call._wake(watch)
    write(served.wire, put(b"k"))
    served.settle()
    eventually(lambda: not stream_is_busy(served), "the end of the stream's turns")
    served.tick()
    assert list(stream.mark(lambda mark: mark.resume_offset == 1).behind) == []


def test_few_watches_have_a_turn_at_a_time(
    served: Serving, stream: WatchStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_stream, "TAKES_PER_TURN_MAX", 2)
    for watch_id in range(10):
        stream.create(watch_id, beginning=tm.NOW)
    for watch_id in range(10):
        stream.opened(watch_id)
    write(served.wire, put(b"k"))
    found: list[int] = []
    while len(found) < 10:
        ids = [news.watch_id for news in stream.stream.next().news]
        assert 1 <= len(ids) <= 2
        found += ids
    assert sorted(found) == list(range(10))


def test_watches_are_gone_with_their_stream(served: Serving) -> None:
    streams = [WatchStream(served.wire) for _ in range(2)]
    for each in streams:
        each.create(1)
        each.snapshot(1)
    assert served.hosts[0].watches.statistics().watches == 2
    streams[0].stream.cancel()
    watches = served.hosts[0].watches
    eventually(lambda: watches.statistics().watches == 1, "the end of the watches of a cancelled stream")
    streams[1].cancel(1)
    streams[1].create(5, credit=0)
    streams[1].stream.half_close()
    answer = streams[1].stream.rest()
    assert answer.status.code is StatusCode.OK
    kinds = [(each.watch_id, each.WhichOneof("news")) for message in answer.messages for each in message.news]
    assert kinds == [(1, "ended"), (5, "created")]
    eventually(lambda: watches.statistics().watches == 0, "the end of the watches of an ended stream")


# ---- credit


def test_a_watch_without_credit_holds_up_nobody(served: Serving, stream: WatchStream) -> None:
    stream.create(1, credit=0)
    stream.create(2)
    stream.create(3, credit=2, beginning=tm.NOW)
    assert stream.opened(1) is None
    stream.snapshot(2)
    stream.opened(3)
    for place in range(50):
        write(served.wire, put(b"k%02d" % place))
        assert stream.changes(2, 1)[0].key == b"k%02d" % place
    assert stream.waiting(1) == 0
    assert [change.key for change in stream.changes(3, 2)] == [b"k00", b"k01"]
    assert stream.waiting(3) == 0
    stream.grant(3, 5)
    assert [change.key for change in stream.changes(3, 5)] == [b"k%02d" % place for place in range(2, 7)]
    stream.grant(1, 1_000)
    assert stream.next(1).WhichOneof("news") == "snapshot_begin"
    assert len(stream.next(1).snapshot_records.records) == 50
    stream.grant(98, 1)


def test_a_write_may_overdraw_the_credit(served: Serving, stream: WatchStream) -> None:
    stream.create(1, credit=1, beginning=tm.NOW)
    stream.create(2, beginning=tm.NOW)
    stream.opened(1)
    stream.opened(2)
    write(served.wire, *(put(b"a%d" % place) for place in range(4)))
    write(served.wire, put(b"b"))
    assert len(stream.changes(1, 4)) == 4
    stream.grant(1, 3)  # pays the debt, and no more
    stream.create(3)
    stream.snapshot(3)
    assert stream.waiting(1) == 0
    stream.grant(1, 1)
    assert stream.changes(1, 1)[0].key == b"b"


# ---- progress


def test_watches_without_news_come_on_as_well(served: Serving, stream: WatchStream) -> None:
    stream.create(1, start_inclusive=b"a", end_exclusive=b"b", beginning=tm.NOW)
    stream.create(2, shard=1, beginning=tm.NOW)
    stream.opened(1)
    stream.opened(2)
    served.tick()
    assert stream.mark(lambda mark: mark.shard == 0).resume_offset == 0
    stream.mark(lambda mark: mark.shard == 1)
    for _ in range(3):
        write(served.wire, put(b"elsewhere"))
    served.settle()
    served.tick()
    assert stream.mark(lambda mark: mark.resume_offset == 3) == tm.WatchProgress(shard=0, resume_offset=3)
    assert [mark.shard for mark in stream.marks] == [0, 1, 0], "what has not come on is not told again"
    for _ in range(5):
        served.tick()
    stream.create(3, start_inclusive=b"x", end_exclusive=b"y", beginning=tm.OFFSET, from_offset=1)
    assert stream.opened(3) == 1
    served.tick()
    eventually(lambda: not stream_is_busy(served), "the end of the stream's turns")
    served.tick()
    stream.mark(lambda _: stream.marks.count(tm.WatchProgress(shard=0, resume_offset=3)) == 2)


def stream_is_busy(served: Serving) -> bool:
    (stream,) = served.watch_calls()
    return bool(stream._line)


def test_who_is_behind_is_named(served: Serving, stream: WatchStream) -> None:
    stream.create(1, beginning=tm.NOW)
    stream.create(2, credit=1, beginning=tm.NOW)
    stream.create(3, credit=0, beginning=tm.NOW, start_inclusive=b"z")
    for watch_id in (1, 2, 3):
        stream.opened(watch_id)
    for place in range(3):
        write(served.wire, put(b"k%d" % place))
    assert len(stream.changes(1, 3)) == 3
    served.settle()
    served.tick()
    mark = stream.mark(lambda mark: mark.resume_offset == 3)
    assert list(mark.behind) == [2, 3], "nobody knows what a watch would tell that may tell nothing"
    stream.grant(2, 10)
    assert [change.key for change in [*stream.changes(2, 3)]] == [b"k0", b"k1", b"k2"]
    eventually(lambda: not stream_is_busy(served), "the end of the stream's turns")
    served.tick()
    assert list(stream.mark(lambda mark: 2 not in mark.behind and mark.resume_offset == 3).behind) == [3]


def test_a_mark_never_passes_news(served: Serving, stream: WatchStream) -> None:
    """Marks are told while writes come in: each one counts only what was sent before it."""
    stream.create(1, beginning=tm.NOW)
    stream.opened(1)
    seen, marked = 0, 0
    for place in range(300):
        write(served.wire, put(b"k%d" % place))
        served.tick()
    served.settle()
    served.tick()
    while seen < 300 or marked < 300:
        response = stream.stream.next()
        for news in response.news:
            for change in told(news):
                assert change.offset == seen
                assert change.offset >= marked, "a mark came before the news that it counts"
                seen += 1
        for mark in response.progress:
            if not mark.behind:
                assert mark.resume_offset <= seen
                marked = mark.resume_offset
