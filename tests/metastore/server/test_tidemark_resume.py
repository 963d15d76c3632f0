"""Watches that go on where they were: over kills of the server, far behind, and with readers that do not read."""

from __future__ import annotations

from pathlib import Path
from queue import SimpleQueue
from typing import Any

from server_helpers import eventually
from tidemark_helpers import METHODS, Serving, WatchStream, put, serving, told, write

from metastore.pb import tidemark_pb2 as tm
from metastore.server.calls import AHEAD_MESSAGES_MAX
from metastore.server.router import OWN_SERVICE_NAME
from metastore.server.tidemark.news import NEWS_BYTES
from metastore.watch.limits import FEED_BYTES_MAX
from support.server import ServerProcess
from support.wire import WireClient


def test_nothing_is_lost_or_told_twice_over_kills() -> None:
    """Each time the server is killed the watch goes on from the offset behind what it was told last."""
    with ServerProcess() as server:
        resume, keys, written = 0, list[bytes](), list[bytes]()
        for life in range(3):
            with WireClient(server.address) as wire:
                stream = WatchStream(wire)
                stream.create(1, beginning=tm.OFFSET, from_offset=resume)
                assert stream.opened(1) == resume
                for place in range(50):
                    written.append(b"%d-%02d" % (life, place))
                    write(wire, put(written[-1]))
                for change in stream.changes(1, 20):
                    keys.append(change.key)
                    resume = change.offset + 1
                server.restart("kill")
                stream.stream.rest()  # what was sent before the kill and not looked at is not counted as seen
        with WireClient(server.address) as wire:
            stream = WatchStream(wire)
            stream.create(1, beginning=tm.OFFSET, from_offset=resume)
            stream.opened(1)
            keys += [change.key for change in stream.changes(1, len(written) - len(keys))]
            stream.create(2)
            records, _ = stream.snapshot(2)
            stream.stream.cancel()
    assert keys == written
    assert sorted(records) == sorted(written)


def test_a_resumed_index_watch_tells_what_left_while_nobody_watched() -> None:
    with ServerProcess() as server:
        with WireClient(server.address) as wire:
            stream = WatchStream(wire)
            write(wire, put(b"x", b"", ((b"i", b"s"),)), put(b"y", b"", ((b"i", b"s"),)))
            stream.create(1, index_name=b"i")
            records, resume = stream.snapshot(1)
            assert sorted(records) == [b"x", b"y"]
            stream.stream.cancel()
            write(wire, put(b"x"), deletes=(b"y",))
        server.restart("kill")
        with WireClient(server.address) as wire:
            stream = WatchStream(wire)
            stream.create(1, index_name=b"i", beginning=tm.OFFSET, from_offset=resume)
            stream.opened(1)
            found = {(change.kind, change.key) for change in stream.changes(1, 2)}
            stream.stream.cancel()
    assert found == {("LEFT", b"x"), ("DELETED", b"y")}


def test_previous_values_outlive_a_kill() -> None:
    with ServerProcess() as server:
        with WireClient(server.address) as wire:
            stream = WatchStream(wire)
            write(wire, put(b"k", b"1"))
            stream.create(1, previous_values=True)
            _, resume = stream.snapshot(1)
            write(wire, put(b"k", b"2"))
        server.restart("kill")
        with WireClient(server.address) as wire:
            stream = WatchStream(wire)
            write(wire, put(b"k", b"3"))
            stream.create(1, previous_values=True, beginning=tm.OFFSET, from_offset=resume)
            stream.opened(1)
            found = [(change.value, change.previous) for change in stream.changes(1, 2)]
            stream.stream.cancel()
    assert found == [(b"2", b"1"), (b"3", b"2")]


def test_a_watch_far_behind_slows_nobody(tmp_path: Path) -> None:
    """Nothing is read until the other has news, too: so it cannot be a matter of time which of them comes first."""
    with serving(tmp_path) as served:
        count, step, value = 20_000, 500, b"v" * 1_000
        for start in range(0, count, step):
            write(served.wire, *(put(b"k%05d" % place, value) for place in range(start, start + step)))
        behind = tm.CreateWatch(watch_id=1, shard=0, beginning=tm.OFFSET, from_offset=0, credit=1_000_000)
        new = tm.CreateWatch(watch_id=2, shard=0, beginning=tm.NOW, start_inclusive=b"new", credit=1)
        unread = unread_stream(served, tm.WatchRequest(create=new), tm.WatchRequest(create=behind))
        eventually(lambda: served.hosts[0].watches.statistics().watches == 2, "two watches")
        (call,) = served.watch_calls()
        eventually(lambda: call.call.unsent_count == AHEAD_MESSAGES_MAX, "the reader holds it up")
        write(served.wire, put(b"new"))
        served.settle()
        told_behind: list[bytes] = []
        told_before: int | None = None
        for data in unread:
            for news in METHODS["Watch"].response.FromString(data).news:  # type: ignore[attr-defined]
                if news.WhichOneof("news") == "changes" and news.watch_id == 1:
                    told_behind += [change.key for change in told(news)]
                elif news.WhichOneof("news") == "changes":
                    assert [change.key for change in told(news)] == [b"new"]
                    told_before = len(told_behind)
            if len(told_behind) > count and told_before is not None:
                break
        unread.cancel()
        assert told_behind == [*(b"k%05d" % place for place in range(count)), b"new"]
        assert told_before is not None
        assert told_before < count // 2, "the one far behind was told all of it first"


def unread_stream(served: Serving, *requests: tm.WatchRequest) -> Any:
    """A watch stream of which nothing is read before it is iterated over."""
    waiting: SimpleQueue[bytes | None] = SimpleQueue()
    for request in requests:
        waiting.put(request.SerializeToString())
    # Else gRPC may find that so much fits into the connection that nothing has to wait.
    channel: Any = served.wire.channel(None, ("grpc.http2.bdp_probe", 0))
    return channel.stream_stream(f"/{OWN_SERVICE_NAME}/Watch")(iter(waiting.get, None))


def test_what_waits_for_a_stream_that_is_not_read_is_bounded(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        creates = [
            tm.WatchRequest(create=tm.CreateWatch(watch_id=each, shard=0, beginning=tm.NOW, credit=1_000_000))
            for each in range(10)
        ]
        unread = unread_stream(served, *creates)
        eventually(lambda: served.hosts[0].watches.statistics().watches == 10, "ten watches")
        reader = WatchStream(served.wire)
        reader.create(1, beginning=tm.NOW)
        reader.opened(1)
        call = next(each for each in served.watch_calls() if len(each._watches) == 10)
        held_most = 0
        for place in range(100):
            write(served.wire, *(put(b"%03d-%d" % (place, each), b"v" * (16 << 10)) for each in range(8)))
            assert len(reader.changes(1, 8)) == 8
            served.tick()
            held_most = max(held_most, call.call.unsent_bytes + sum(map(len, call._outbox)))
        assert call.call.unsent_count == AHEAD_MESSAGES_MAX
        # The messages ahead of the reader, and what one take of one watch has brought.
        assert NEWS_BYTES < held_most < (AHEAD_MESSAGES_MAX + 1) * NEWS_BYTES + FEED_BYTES_MAX
        assert served.hosts[0].watches.statistics().greatest_lag > 0
        seen = dict.fromkeys(range(10), 0)
        for data in unread:
            for news in METHODS["Watch"].response.FromString(data).news:  # type: ignore[attr-defined]
                if news.WhichOneof("news") == "changes":
                    seen[news.watch_id] += len(told(news))
            if set(seen.values()) == {800}:
                break
        unread.cancel()
        reader.stream.cancel()
