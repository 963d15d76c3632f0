"""Answers that are very long are produced aside: nobody else waits for them, and they end as others do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode
from server_helpers import eventually
from tidemark_helpers import METHODS, Serving, call, put, serving, write

from metastore.engine.errors import PointReleased
from metastore.engine.leaves import Leaves
from metastore.engine.points import Page, Points
from metastore.pb import tidemark_pb2 as tm
from metastore.server.router import OWN_SERVICE_NAME as SERVICE
from metastore.server.tidemark.courtesy import PAUSE_PER_WORK_MAX, Courtesy, pause_s
from metastore.server.transport.server import POLLERS
from support.wire import Stream

WITHIN_S = 60.0
RECORDS = [put(b"k%04d" % number, b"v" * 1000) for number in range(100)]


class Held:
    """A point whose portions come when they are let through; how many are under way, and which were given up."""

    def __init__(self) -> None:
        self.asked, self.through, self.closed = threading.Semaphore(0), threading.Semaphore(0), threading.Event()
        self.error: BaseException | None = None

    def leaves(self, points: Points, point_id: int, low: bytes, high: bytes) -> Iterator[Leaves | Page]:
        try:
            while True:
                self.asked.release()
                assert self.through.acquire(timeout=WITHIN_S)
                if self.error is not None:
                    raise self.error
                yield Page([], [b"r" * 100_000], [100_000])
        except GeneratorExit:
            self.closed.set()
            raise


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path) as made:
        write(made.wire, *RECORDS)
        yield made


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    made = Held()
    monkeypatch.setattr(Points, "leaves", lambda *arguments: made.leaves(*arguments))
    return made


def request(served: Serving, rows: int = 1) -> tm.BulkScanRequest:
    held = call(served.wire, "HoldPoint", tm.HoldPointRequest(shard=0, hold_ms=60_000)).only
    return tm.BulkScanRequest(shard=0, point=held.point, rows=rows, pages=True)


def begin(served: Serving) -> Stream:
    return served.wire.open(METHODS["BulkScan"], request(served), service=SERVICE)


def test_what_is_written_does_not_wait_for_what_is_read(served: Serving, held: Held) -> None:
    scans = [begin(served) for _ in range(POLLERS + 2)]
    assert held.asked.acquire(timeout=WITHIN_S)
    # All the threads that take calls in would stand still by now.
    write(served.wire, put(b"other"))
    held.error = PointReleased(1)
    for _ in scans:
        held.through.release()
    for scan in scans:
        assert scan.rest().status.code is StatusCode.OUT_OF_RANGE


def test_long_answers_take_turns(served: Serving, held: Held) -> None:
    scans = [begin(served) for _ in range(3)]
    eventually(lambda: len(list(served.router.open_calls())) == len(scans), "the calls")
    for _ in range(10 * len(scans)):
        held.through.release()
    for scan in scans:
        for _ in range(3):
            assert len(scan.next().records) == 100_000
    held.error = PointReleased(1)
    for _ in range(100):
        held.through.release()


def test_who_goes_away_is_read_for_no_more(served: Serving, held: Held) -> None:
    scan = begin(served)
    for _ in range(2):  # a message is sent when what follows does not fit
        held.through.release()
    assert len(scan.next().records) == 100_000
    scan.cancel()
    for _ in range(100):
        held.through.release()
    assert held.closed.wait(WITHIN_S)
    eventually(lambda: not list(served.router.open_calls()), "the end of the call")


def test_an_answer_goes_on_as_it_is_read(served: Serving) -> None:
    def told() -> list[Any]:
        return call(served.wire, "BulkScan", request(served)).messages

    assert sum(len(message.lengths) // 4 for message in told()) == len(RECORDS)
    served.shard.feeder.feed_all()
    assert sum(message.told for message in told()) == len(RECORDS)


def test_readers_stand_back_for_writers_as_long_as_is_fair() -> None:
    assert pause_s(0, 1.0) == 0
    assert 0 < pause_s(1, 1.0) < pause_s(2, 1.0) < 0.001
    assert pause_s(1_000_000, 0.002) == PAUSE_PER_WORK_MAX * 0.002


def test_pauses_are_for_what_was_written_since_the_one_before() -> None:
    now_s, written, slept = 0.0, 7, list[float]()

    def work(seconds: float, writes: int) -> str:
        nonlocal now_s, written
        now_s, written = now_s + seconds, written + writes
        return f"{writes}"

    courtesy = Courtesy(lambda: written, lambda: now_s, slept.append)
    assert courtesy.after(lambda: work(0.001, 0)) == "0"
    assert courtesy.after(lambda: work(0.001, 2)) == "2"
    written += 1_000_000  # in the pause
    assert courtesy.after(lambda: work(0.003, 0)) == "0"
    assert courtesy.after(lambda: work(0.001, 0)) == "0"
    assert slept == pytest.approx([pause_s(2, 1.0), PAUSE_PER_WORK_MAX * 0.003])
