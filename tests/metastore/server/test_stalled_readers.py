"""Readers that take nothing: what is held for them is free again after a while, whatever they do; slow ones go on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from server_helpers import eventually
from tidemark_helpers import METHODS as OWN_METHODS
from tidemark_helpers import PLENTY, Serving, call, serving

from metastore.engine.operations import WriteBatch
from metastore.engine.points import Page, Points
from metastore.pb import oxia_pb2 as pb
from metastore.pb import tidemark_pb2 as tm
from metastore.server.health import HealthService
from metastore.server.housekeeper import STALLED_READER_S, Housekeeper
from metastore.server.router import OWN_SERVICE_NAME
from support.wire import CALL_TIMEOUT_S, CURRENT_SERVICE, status_of

SMALL_WINDOW = ("grpc.http2.bdp_probe", 0)
"""Of a client: the server may not send far ahead of what is read."""
STALL_S = int(STALLED_READER_S)
RECORDS = [b"key-%04d" % number for number in range(2_000)]
VALUE = b"v" * (16 << 10)


class Stalling:
    """Shards, who looks after them by a clock that a test holds, and clients that need not read."""

    def __init__(self, served: Serving) -> None:
        self.served = served
        hosts = served.hosts.values()
        health = HealthService(lambda: True)
        self.keeper = Housekeeper(hosts, served.router, health, 3_600_000, served.clock, _report)

    @property
    def snapshots(self) -> int:
        return self.served.shard.store.open_snapshots

    def fill(self) -> None:
        self.served.shard.write(WriteBatch(puts=[(key, VALUE, None) for key in RECORDS]))
        self.served.shard.feeder.feed_all()

    def begin(self, method: str, request: Any, metadata: Any = ()) -> Any:
        """Begins a call and reads nothing of it; a queue as the request is what the client streams."""
        channel: Any = self.served.wire.channel(None, SMALL_WINDOW)
        path = f"/{OWN_SERVICE_NAME if method in OWN_METHODS else CURRENT_SERVICE}/{method}"
        if isinstance(request, Message):
            return channel.unary_stream(path)(request.SerializeToString(), CALL_TIMEOUT_S * 4)
        return channel.stream_stream(path)(iter(request.get, None), CALL_TIMEOUT_S * 4, metadata)

    def handler(self) -> Any:
        """The handler of the one open call, when its reader is all that it waits for."""

        def is_blocked() -> bool:
            handlers = list(self.served.router.open_calls())
            return len(handlers) == 1 and handlers[0].call.unsent_count > 0

        eventually(is_blocked, "a call that waits for its reader")
        (found,) = self.served.router.open_calls()
        return found

    def run(self, seconds: int) -> None:
        """So much time passes, and the housekeeper does what is due."""
        for _ in range(seconds):
            self.served.clock.advance_ms(1_000)
            self.keeper.tick()

    def await_the_end(self) -> None:
        """Time passes until no call is open: what is sent when it begins may be taken in by the client yet."""

        def ends() -> bool:
            self.run(STALL_S + 1)
            return not list(self.served.router.open_calls())

        eventually(ends, "the end of a call whose reader takes nothing")


def _report(where: str, error: BaseException) -> None:
    raise AssertionError(where) from error


@pytest.fixture
def stalling(tmp_path: Path) -> Iterator[Stalling]:
    with serving(tmp_path) as served:
        yield Stalling(served)


def whole_range(**fields: Any) -> Any:
    return pb.RangeScanRequest(shard=0, start_inclusive=b"key-", end_exclusive=b"key0", **fields)


def test_a_scan_whose_reader_takes_nothing_lets_its_snapshot_go(stalling: Stalling) -> None:
    stalling.fill()
    scan = stalling.begin("RangeScan", whole_range())
    unsent = stalling.handler().call
    assert stalling.snapshots == 1
    stalling.await_the_end()
    eventually(lambda: not stalling.snapshots, "a snapshot that is closed although the client still has its call")
    assert (unsent.unsent_count, unsent.unsent_bytes) == (0, 0)
    with pytest.raises(grpc.RpcError):
        list(scan)
    status = status_of(scan)
    assert status.code is grpc.StatusCode.UNAVAILABLE
    assert status.message == f"oxia: resource unavailable: the reader took nothing for {STALL_S} s"


def take(scan: Any, handler: Any) -> bytes:
    """A message, behind which the server could send the next."""
    before = handler.produced, handler.call.unsent_count
    message = next(scan)
    eventually(lambda: (handler.produced, handler.call.unsent_count) != before, "the next message")
    assert isinstance(message, bytes)
    return message


def test_a_slow_reader_gets_everything(stalling: Stalling) -> None:
    stalling.fill()
    scan = stalling.begin("RangeScan", whole_range())
    handler = stalling.handler()
    messages = []
    for _ in range(8):  # more of them than are sent ahead
        messages.append(take(scan, handler))
        stalling.run(STALL_S - 2)
    assert handler.call.unsent_count, "else nobody waited for the reader"
    messages += scan
    found = [record.key for each in messages for record in pb.RangeScanResponse.FromString(each).records]
    assert found == RECORDS


class Given:
    """A point whose pages come when a test gives them; whether the reader of them was ended."""

    def __init__(self, pages: int = 0) -> None:
        self.pages = threading.Semaphore(pages)
        self.is_asked, self.is_closed = threading.Event(), threading.Event()

    def leaves(self, *_: object) -> Iterator[Page]:
        try:
            while True:
                self.is_asked.set()
                assert self.pages.acquire(timeout=CALL_TIMEOUT_S)
                yield Page([], [b"r" * 100_000], [100_000])
        finally:
            self.is_closed.set()


def bulk_scan(stalling: Stalling, given: Given, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(Points, "leaves", given.leaves)
    held = call(stalling.served.wire, "HoldPoint", tm.HoldPointRequest(shard=0, hold_ms=3_600_000)).only
    return stalling.begin("BulkScan", tm.BulkScanRequest(shard=0, point=held.point, rows=1, pages=True))


def test_a_bulk_scan_whose_reader_takes_nothing_is_read_for_no_more(
    stalling: Stalling, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given(pages=1_000)
    scan = bulk_scan(stalling, given, monkeypatch)
    stalling.handler()
    stalling.await_the_end()
    assert given.is_closed.wait(CALL_TIMEOUT_S)
    with pytest.raises(grpc.RpcError):
        list(scan)
    assert scan.code() is grpc.StatusCode.UNAVAILABLE


def test_a_reader_for_whom_nothing_was_found_yet_does_not_stand_still(
    stalling: Stalling, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Given()
    scan = bulk_scan(stalling, given, monkeypatch)
    assert given.is_asked.wait(CALL_TIMEOUT_S)
    stalling.run(3 * STALL_S)
    given.pages.release(2)  # a message is sent when what follows does not fit
    assert next(scan)
    scan.cancel()
    given.pages.release(1_000)
    assert given.is_closed.wait(CALL_TIMEOUT_S)


def test_a_write_stream_that_failed_does_not_wait_for_its_reader_for_ever(stalling: Stalling) -> None:
    requests: SimpleQueue[bytes | None] = SimpleQueue()
    for number in range(500):
        large = pb.PutRequest(key=b"key-%d" % number, client_identity=b"i" * 8_000)  # which comes back in the answer
        requests.put(pb.WriteRequest(puts=[large]).SerializeToString())
    requests.put(b"no message")
    stream = stalling.begin("WriteStream", requests, (("shard-id", "0"), ("namespace", "default")))
    handler = stalling.handler()
    eventually(lambda: handler.call.is_finished, "the end that the server makes of the stream")
    stalling.await_the_end()
    with pytest.raises(grpc.RpcError):
        list(stream)
    requests.put(None)


def test_a_write_stream_whose_answers_are_not_read_stays_open(stalling: Stalling) -> None:
    requests: SimpleQueue[bytes | None] = SimpleQueue()
    for number in range(500):
        large = pb.PutRequest(key=b"key-%d" % number, client_identity=b"i" * 8_000)
        requests.put(pb.WriteRequest(puts=[large]).SerializeToString())
    stream = stalling.begin("WriteStream", requests, (("shard-id", "0"), ("namespace", "default")))
    stalling.handler()
    stalling.run(3 * STALL_S)
    requests.put(None)
    assert len(list(stream)) == 500


def test_the_watches_of_a_stream_that_failed_end_at_once(stalling: Stalling) -> None:
    stalling.fill()
    requests: SimpleQueue[bytes | None] = SimpleQueue()
    create = tm.CreateWatch(watch_id=1, shard=0, credit=PLENTY, beginning=tm.SNAPSHOT)
    requests.put(tm.WatchRequest(create=create).SerializeToString())
    stream = stalling.begin("Watch", requests)
    handler, watches = stalling.handler(), stalling.served.hosts[0].watches
    assert watches.statistics().watches == 1
    requests.put(tm.WatchRequest().SerializeToString())
    eventually(lambda: not watches.statistics().watches, "watches that are closed although nobody reads")
    assert handler.call.unsent_count, "else the reader had taken everything"
    stalling.await_the_end()
    with pytest.raises(grpc.RpcError):
        list(stream)
    requests.put(None)
