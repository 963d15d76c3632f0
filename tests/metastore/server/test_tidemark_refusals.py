"""How watches are refused and how they end: each by itself, and the stream goes on; or the stream, for all of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode
from server_helpers import SERVING, eventually, health, server_of_workers
from tidemark_helpers import IDENTITY, LITTLE, Serving, WatchStream, call, put, serving, write

from metastore.engine import limits
from metastore.pb import tidemark_pb2 as tm
from metastore.server.tidemark import watch_stream
from metastore.server.tidemark.opening import WATCH_CREDIT_MAX
from metastore.server.tidemark.watch_stream import REQUESTS_WAITING_MAX
from metastore.watch import limits as watch_limits
from support.ports import LOOPBACK
from support.server import ServerProcess
from support.wire import ErrorDetail, WireClient

NOT_UTF8 = b"caf\xe9"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path, leaders={7: "elsewhere:1"}) as made:
        yield made


@pytest.fixture
def stream(served: Serving) -> Iterator[WatchStream]:
    made = WatchStream(served.wire)
    yield made
    made.stream.cancel()


def assert_goes_on(served: Serving, stream: WatchStream, watch_id: int = 1_000) -> None:
    """The stream opens another watch, and that is told what happens."""
    stream.create(watch_id, beginning=tm.NOW)
    stream.opened(watch_id)
    write(served.wire, put(b"goes on"))
    assert stream.changes(watch_id, 1)[0].key == b"goes on"


def assert_ended(ended: tm.WatchEnded, code: StatusCode, reason: str, *words: str) -> None:
    assert (ended.code, ended.reason) == (code.value[0], reason), ended
    missing = [word for word in words if word not in ended.message]
    assert not missing, ended


# ---- one watch

BAD_WATCHES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "an inverted range": ({"start_inclusive": b"b", "end_exclusive": b"a"}, ("'b'", "before it starts")),
    "an inverted range of an index": (
        {"start_inclusive": b"b", "end_exclusive": b"a", "index_name": b"i"},
        ("'b'", "before it starts"),
    ),
    "a start": ({"start_inclusive": NOT_UTF8}, ("start", "UTF-8")),
    "an end": ({"end_exclusive": NOT_UTF8}, ("end", "UTF-8")),
    "an index name": ({"index_name": NOT_UTF8}, ("index name", "UTF-8")),
    "an index without a name": ({"index_name": b""}, ("index", "name")),
    "a key too long": ({"start_inclusive": b"k" * (limits.KEY_BYTES_MAX + 1)}, (str(limits.KEY_BYTES_MAX),)),
    "an offset below all": ({"beginning": tm.OFFSET, "from_offset": -1}, ("-1",)),
    "an offset to come": ({"beginning": tm.OFFSET, "from_offset": 99}, ("99", "not been reached")),
    "a beginning that is not known": ({"beginning": 9}, ("9", "SNAPSHOT")),
    "credit below nothing": ({"credit": -1}, ("-1", "credit")),
    "too much credit": ({"credit": WATCH_CREDIT_MAX + 1}, ("WATCH_CREDIT_MAX", str(WATCH_CREDIT_MAX))),
}


@pytest.mark.parametrize("what", BAD_WATCHES)
def test_a_watch_that_cannot_be(served: Serving, stream: WatchStream, what: str) -> None:
    fields, words = BAD_WATCHES[what]
    stream.create(1, **fields)
    assert_ended(stream.ended(1), StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", *words)
    assert_goes_on(served, stream, 1)


def test_shards_that_are_not_here(served: Serving, stream: WatchStream) -> None:
    for shard, hint in ((7, {"shard": "7", "leader": "elsewhere:1"}), (3, {}), (-1, {})):
        stream.create(1, shard=shard)
        ended = stream.ended(1)
        assert_ended(ended, StatusCode.ABORTED, "NODE_IS_NOT_LEADER", "oxia: node is not leader")
        assert (ended.domain, dict(ended.metadata)) == ("oxia.io", hint)
    stream.stream.send(tm.WatchRequest(create=tm.CreateWatch(watch_id=1)))
    assert_ended(stream.ended(1), StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "shard id is required")
    assert_goes_on(served, stream)


def test_an_id_that_is_taken(served: Serving, stream: WatchStream) -> None:
    stream.create(1, beginning=tm.NOW)
    stream.create(1, beginning=tm.NOW)
    stream.opened(1)
    assert_ended(stream.ended(1), StatusCode.ALREADY_EXISTS, "WATCH_EXISTS", "1")
    write(served.wire, put(b"k"))
    assert stream.changes(1, 1)[0].key == b"k"


def test_another_store(served: Serving, stream: WatchStream) -> None:
    stream.create(1, store_id=b"f" * 32)
    assert_ended(stream.ended(1), StatusCode.FAILED_PRECONDITION, "STORE_CHANGED", "another store")
    stream.create(1, store_id=IDENTITY.encode())
    assert stream.snapshot(1) == ({}, 0)


def test_as_much_credit_as_there_can_be(served: Serving, stream: WatchStream) -> None:
    stream.create(1, credit=WATCH_CREDIT_MAX, beginning=tm.NOW)
    stream.opened(1)
    write(served.wire, put(b"k"))
    assert stream.changes(1, 1)[0].key == b"k"
    stream.grant(1, 1)
    write(served.wire, put(b"k"))
    assert stream.changes(1, 1)[0].key == b"k"


def test_grants_that_cannot_be(served: Serving, stream: WatchStream) -> None:
    for watch_id, events in ((1, -1), (2, WATCH_CREDIT_MAX)):
        stream.create(watch_id, credit=1, beginning=tm.NOW)
        stream.grant(watch_id, events)
        stream.opened(watch_id)
        assert_ended(stream.ended(watch_id), StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST", "WATCH_CREDIT_MAX")
    assert_goes_on(served, stream)


def test_a_namespace_without_notifications(tmp_path: Path) -> None:
    with serving(tmp_path, notifications=False) as served:
        stream = WatchStream(served.wire)
        for watch_id in (1, 2):
            stream.create(watch_id)
            assert_ended(stream.ended(watch_id), StatusCode.FAILED_PRECONDITION, "NOTIFICATIONS_NOT_ENABLED")
        stream.stream.cancel()


def test_as_many_watches_as_a_stream_may_have(
    served: Serving, stream: WatchStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_stream, "WATCHES_PER_STREAM_MAX", 3)
    for watch_id in range(4):
        stream.create(watch_id, beginning=tm.NOW)
    for watch_id in range(3):
        stream.opened(watch_id)
    words = ("3", "WATCHES_PER_STREAM_MAX")
    assert_ended(stream.ended(3), StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WATCHES", *words)
    stream.cancel(0)
    stream.ended(0)
    assert_goes_on(served, stream)


def test_as_many_watches_as_a_shard_may_have(served: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_limits, "WATCHES_MAX", 2)
    streams = [WatchStream(served.wire) for _ in range(3)]
    for stream in streams[:2]:
        stream.create(1, beginning=tm.NOW)
        stream.opened(1)
    streams[2].create(1)
    assert_ended(streams[2].ended(1), StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WATCHES", "2", "WATCHES_MAX")
    streams[0].cancel(1)
    streams[0].ended(1)
    assert_goes_on(served, streams[2])
    for stream in streams:
        stream.stream.cancel()


# ---- what is no longer kept


def trim(served: Serving) -> int:
    """Makes the log forget what it has; returns the oldest offset left."""
    for place in range(40):
        write(served.wire, put(b"filler", bytes([place]) * 1_000))
    served.clock.advance_ms(LITTLE.retention_ms + 1)
    served.shard.feeder.feed_all(lambda: False)
    oldest = served.shard.trim_log()
    assert oldest > 0
    return oldest


def test_an_offset_that_is_trimmed(tmp_path: Path) -> None:
    with serving(tmp_path, options=LITTLE) as served:
        oldest = trim(served)
        stream = WatchStream(served.wire)
        stream.create(1, beginning=tm.OFFSET, from_offset=oldest - 1)
        ended = stream.ended(1)
        assert_ended(ended, StatusCode.OUT_OF_RANGE, "OFFSET_TRIMMED", f"offset {oldest - 1}", str(oldest))
        assert ended.oldest_offset == oldest
        assert dict(ended.metadata) == {"offset": str(oldest - 1), "oldest": str(oldest)}
        stream.create(1, beginning=tm.OFFSET, from_offset=ended.oldest_offset)
        assert stream.opened(1) == oldest
        assert stream.changes(1, 1)[0].offset == oldest
        stream.create(2, previous_values=True, beginning=tm.OFFSET, from_offset=oldest)
        ended = stream.ended(2)
        assert_ended(ended, StatusCode.OUT_OF_RANGE, "PREVIOUS_VALUES_MISSING", str(oldest))
        assert ended.oldest_offset == served.shard.next_offset
        stream.stream.cancel()


def test_a_watch_that_waits_until_its_news_are_trimmed(tmp_path: Path) -> None:
    with serving(tmp_path, options=LITTLE) as served:
        stream = WatchStream(served.wire)
        stream.create(1, credit=1, beginning=tm.NOW, end_exclusive=b"z")
        stream.opened(1)
        write(served.wire, put(b"first"))
        assert stream.changes(1, 1)[0].key == b"first"
        for place in range(watch_limits.FEED_EVENTS_MAX // 100 + 1):
            write(served.wire, *(put(b"%02d-%02d" % (place, each)) for each in range(100)))
        oldest = trim(served)
        stream.grant(1, 10)
        ended = stream.ended(1)
        assert_ended(ended, StatusCode.OUT_OF_RANGE, "OFFSET_TRIMMED", str(oldest))
        assert ended.oldest_offset == oldest
        assert_goes_on(served, stream)
        stream.stream.cancel()


# ---- a shard or the server that stops


def test_a_shard_that_stops_ends_its_watches_and_no_others(tmp_path: Path) -> None:
    with serving(tmp_path, shards=2) as served:
        stream = WatchStream(served.wire)
        for watch_id in (1, 2, 3):
            stream.create(watch_id, shard=int(watch_id == 3), beginning=tm.NOW)
            stream.opened(watch_id)
        served.hosts[0].shard.rounds.fail(OSError("the disk is gone"))
        (open_call,) = served.watch_calls()
        open_call.on_shard_stopped(served.hosts[0], OSError("the disk is gone"))
        for watch_id in (1, 2):
            ended = stream.ended(watch_id)
            assert_ended(ended, StatusCode.UNAVAILABLE, "RESOURCE_UNAVAILABLE")
            assert "the disk is gone" in ended.metadata["cause"]
        stream.create(1)
        assert_ended(stream.ended(1), StatusCode.UNAVAILABLE, "RESOURCE_UNAVAILABLE")
        write(served.wire, put(b"k"), shard=1)
        assert stream.changes(3, 1)[0].key == b"k"
        stream.stream.cancel()


def test_a_server_that_stops_ends_its_streams() -> None:
    with ServerProcess() as server, WireClient(server.address) as wire:
        stream = WatchStream(wire)
        stream.create(1)
        stream.snapshot(1)
        server.terminate()
        status = stream.stream.rest().status
    assert (status.code, status.message) == (StatusCode.UNAVAILABLE, "oxia: resource unavailable")
    assert status.details == (ErrorDetail("RESOURCE_UNAVAILABLE", "oxia.io", {}),)


# ---- the whole stream


@pytest.mark.parametrize(
    ("request_bytes", "word"),
    [(b"\xff\xff", "WatchRequest"), (b"", "create"), (tm.WatchRequest(grant=tm.GrantCredit()), "")],
)
def test_what_is_no_request(served: Serving, stream: WatchStream, request_bytes: Any, word: str) -> None:
    stream.create(1, beginning=tm.NOW)
    stream.opened(1)
    stream.stream.send(request_bytes)
    if word:
        status = stream.stream.rest().status
        assert status.code is StatusCode.INVALID_ARGUMENT
        assert word in status.message
        assert status.reasons == ["INVALID_REQUEST"]
    else:
        assert_goes_on(served, stream)  # a grant for a watch that there is not is no mistake


def test_more_requests_than_may_wait(served: Serving, stream: WatchStream) -> None:
    """The stream is not read on while its requests wait; none is lost."""
    held, released = threading.Event(), threading.Event()

    class Hindrance:
        def take_turn(self) -> bool:
            held.set()
            released.wait(60.0)
            return False

    stream.create(0, beginning=tm.NOW)
    stream.opened(0)
    (open_call,) = served.watch_calls()
    open_call.host.turns.ask(Hindrance())
    assert held.wait(60.0)
    count = 3 * REQUESTS_WAITING_MAX
    for watch_id in range(1, count):
        stream.create(watch_id, beginning=tm.NOW)
    try:
        eventually(lambda: open_call._is_paused, "a stream that is not read on")
        assert len(open_call._requests) <= REQUESTS_WAITING_MAX + 1
        write(served.wire, put(b"others go on"))
    finally:
        released.set()
    for watch_id in range(1, count):
        stream.opened(watch_id)


def test_shards_of_other_workers() -> None:
    store_ids = set()
    with server_of_workers(2, 2) as server:
        for place in range(2):
            address = f"{LOOPBACK}:{server.port + place}"
            assert health(address) == SERVING
            with WireClient(address) as wire:
                store_ids.add(call(wire, "Describe", tm.DescribeRequest()).only.store_id)
                stream = WatchStream(wire)
                for shard in range(2):
                    stream.create(shard, shard=shard)
                assert stream.snapshot(place) == ({}, 0)
                ended = stream.ended(1 - place)
                assert_ended(ended, StatusCode.ABORTED, "NODE_IS_NOT_LEADER")
                hint = {"shard": str(1 - place), "leader": f"{LOOPBACK}:{server.port + 1 - place}"}
                assert dict(ended.metadata) == hint
                stream.stream.cancel()
    assert [len(each) for each in store_ids] == [32], "all workers serve one store"
