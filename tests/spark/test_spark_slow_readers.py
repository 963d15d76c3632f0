"""Readers that take their time: what they did not wait for is not late, and what was ended meanwhile goes on."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from typing import Literal

import pytest

from metastore.clock import ManualClock, SystemClock
from metastore.directory import Namespace
from metastore.engine.operations import PutOptions, WriteBatch
from metastore.engine.points import PAGE_ITEMS
from metastore.engine.shard import Shard, ShardOptions
from metastore.engine.store import StoreOptions
from metastore.engine.ticking import TEND_INTERVAL_S
from metastore.providers.wire.store import WireStore
from metastore.server.errors import RpcError, unavailable
from metastore.server.health import HealthService
from metastore.server.host import Host, ShardHost
from metastore.server.housekeeper import STALLED_READER_S, Housekeeper
from metastore.server.router import Router
from metastore.server.security import Authenticator
from metastore.server.tidemark.bulk import BulkAnswer, BulkScanCall, ChangesCall
from metastore.server.transport import GrpcServer
from metastore.spark.errors import PointGone, StoreUnreachable
from metastore.spark.records import Records
from metastore.spark.stores.loop import Loop
from metastore.spark.stores.model import Piece
from metastore.spark.stores.opening import open_source
from metastore.spark.stores.point import Point
from metastore.spark.stores.service import RESUMPTIONS_MAX, ServiceStore
from support.fixtures import StartServer
from support.ports import LOOPBACK
from support.server import ServerProcess
from support.spark_stores import fill

HOLD_MS = 1_800_000
TICK_MS = 1_000
STALLS_MAX = 25
"""So often readers may go on while they are taken for such as do not."""
WITHIN_S = 60.0
SMALL, LARGE = b"v" * 1_500, b"large" * 10_000
"""LMDB has the large ones on pages of their own, so that they are asked for by themselves."""
INDEX = b"index"
ROWS = 20
INDEXED = 1_600
MANY = 12_000
"""Small records that are far more than connections hold."""
FOREVER = "1h"
"""A request timeout that no test waits for."""
Item = tuple[bytes, bytes | None, bytes]
"""A key, its secondary key where an index was read, its value."""


class Served:
    """A service in this process, by a clock that a test holds, and its store as Spark opens it."""

    def __init__(self, shard: Shard, router: Router, housekeeper: Housekeeper, clock: ManualClock, url: str) -> None:
        self.shard = shard
        self.router = router
        self.housekeeper = housekeeper
        self.clock = clock
        self.url = url
        self.cut_off: set[BulkAnswer] = set()
        self.changed = threading.Condition()

    def put(
        self,
        records: dict[bytes, bytes],
        secondary: Callable[[bytes], bytes] | None = None,
        *,
        feeds: bool = True,
    ) -> None:
        """All in one write, which LMDB has then if it is to."""

        def options(key: bytes) -> PutOptions | None:
            return None if secondary is None else PutOptions(secondary_indexes=((INDEX, secondary(key)),))

        self.shard.write(WriteBatch(puts=[(key, value, options(key)) for key, value in records.items()]))
        if feeds:
            self.shard.feeder.feed_all()

    def pass_by(self, milliseconds: int) -> None:
        """So much time, in which the housekeeper does what he has to."""
        for _ in range(milliseconds // TICK_MS):
            self.clock.advance_ms(TICK_MS)
            self.housekeeper.tick()

    def end_readers(self) -> None:
        """Lets time pass until all who take nothing are cut off."""
        for _ in range(STALLS_MAX):
            with self.changed:
                assert self.changed.wait_for(self._waits_for_readers, WITHIN_S)
            if self._bulk_calls() <= self.cut_off:
                return
            self.pass_by(int(STALLED_READER_S * 1000) + 2 * TICK_MS)
        raise AssertionError("readers that take nothing go on")

    def _bulk_calls(self) -> set[BulkAnswer]:
        return {call for call in self.router.open_calls() if isinstance(call, BulkAnswer)}

    def _waits_for_readers(self) -> bool:
        """Whether something is under way to every reader; how much more he takes, only time tells."""
        return all(each.call.is_sending or each.call.is_finished for each in self._bulk_calls())

    def note_changes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Has the calls of readers say when they have produced something, and when they are ended."""
        produce_one, on_over, cut_off = BulkAnswer.produce_one, BulkAnswer.on_over, BulkAnswer.cut_off

        def produce_and_note(call: BulkAnswer) -> bool:
            is_there = produce_one(call)
            with self.changed:
                self.changed.notify_all()
            return is_there

        def over_and_note(call: BulkAnswer) -> None:
            on_over(call)
            with self.changed:
                self.changed.notify_all()

        def cut_off_and_note(call: BulkAnswer, error: RpcError) -> None:
            self.cut_off.add(call)
            cut_off(call, error)

        monkeypatch.setattr(BulkAnswer, "produce_one", produce_and_note)
        monkeypatch.setattr(BulkAnswer, "on_over", over_and_note)
        monkeypatch.setattr(BulkAnswer, "cut_off", cut_off_and_note)

    def asked(self, method: str) -> int:
        """How often it was called."""
        return self.router.method_counts[method]


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    clock, errors = ManualClock(), list[object]()
    namespace = Namespace("default", 0, 1, "hierarchical", True)
    options = ShardOptions(store=StoreOptions(map_bytes=1 << 30))
    with ExitStack() as undo:
        host = ShardHost(0, namespace, Shard.open(tmp_path, options, clock))
        undo.callback(host.close, 60.0)
        hosts = Host([namespace], {0: host}, {}, "0" * 32)
        undo.callback(hosts.bulk_turns.close)
        router = Router(hosts, Authenticator(), lambda where, error: errors.append((where, error)), {})
        server = GrpcServer(router, on_error=lambda where, error: errors.append((where, error)))
        port = server.add_port(f"{LOOPBACK}:0")
        server.start()
        undo.callback(server.stop, 0.0)
        health = HealthService(lambda: True)
        housekeeper = Housekeeper(
            [host], router, health, 3_600_000, clock, lambda where, error: errors.append((where, error))
        )
        made = Served(host.shard, router, housekeeper, clock, f"oxia://{LOOPBACK}:{port}?request_timeout={FOREVER}")
        made.note_changes(monkeypatch)
        yield made
    assert errors == []


def items(records: Records) -> list[Item]:
    assert len(records)
    keys, values = records.keys.to_pylist(), records.values.to_pylist()
    return list(zip(keys, records.secondary_keys or repeat(None, len(keys)), values, strict=True))


def all_of(scan: Iterator[Records]) -> list[Item]:
    return [each for records in scan for each in items(records)]


def read(served: Served, piece: Piece, rest: int | None = None, rows: int = ROWS) -> list[Item]:
    """What a reader gets; who rests behind every so many batches does so longer than the service has patience."""
    found: list[Item] = []
    with open_source(served.url, None) as source:
        for number, records in enumerate(source.scan(piece, source.pin(HOLD_MS), rows)):
            found += items(records)
            if rest is not None and number % rest == 0:
                served.end_readers()
    return found


@pytest.mark.parametrize("rest", [1, 7])
def test_a_scan_goes_on_where_its_reader_was(served: Served, rest: int) -> None:
    values = {b"/%d/%05d" % (number % 3, number): SMALL for number in range(MANY)}
    served.put(values)
    found = read(served, Piece(0, b"/0/", b"/1//"), rest)
    assert found == [(key, None, SMALL) for key in sorted(values) if key < b"/2"]
    assert served.asked("BulkScan") > 1


def test_large_values_may_take_long_beside_the_scan_that_leaves_them_out(served: Served) -> None:
    values = {b"%05d" % number: LARGE if number < 400 else SMALL for number in range(MANY)}
    served.put(values)
    assert read(served, Piece(0), rest=10, rows=200) == [(key, None, values[key]) for key in sorted(values)]
    assert served.asked("BulkScan") > 2


def test_a_scan_waits_for_others_of_the_same_reader(served: Served) -> None:
    served.put({b"%05d" % number: SMALL for number in range(MANY)})
    with open_source(served.url, None) as source:
        point = source.pin(HOLD_MS)
        outer = source.scan(Piece(0), point, ROWS)
        found = items(next(outer))
        for _ in range(3):
            assert len(all_of(source.scan(Piece(0, end=b"00300"), point, ROWS))) == 300
            served.end_readers()
        found += all_of(outer)
    assert [key for key, _, _ in found] == [b"%05d" % number for number in range(MANY)]
    assert served.asked("BulkScan") == 1 + 3 + 1


def test_changes_go_on_where_their_reader_was(served: Served) -> None:
    served.put({b"%05d" % number: b"" for number in range(100)})
    first = served.shard.next_offset
    for number in range(MANY // 10):
        served.put({b"%05d/%d" % (number, each): SMALL for each in range(10)}, feeds=False)
    found: list[bytes] = []
    with open_source(served.url, None) as source:
        for number, changes in enumerate(source.changes(Piece(0), first, served.shard.next_offset)):
            found += [change.key for change in changes]
            if number % 100 == 0:
                served.end_readers()
    assert found == [b"%05d/%d" % (number, each) for number in range(MANY // 10) for each in range(10)]
    assert served.asked("Changes") > 1


# -- streams that break off behind every few messages


def break_off(monkeypatch: pytest.MonkeyPatch, kind: type[BulkAnswer], messages: int) -> None:
    """Lets streams of a kind have so many messages, and where there would be another an error that passes."""
    whole = kind.messages

    def broken(call: BulkAnswer, request: bytes) -> Iterator[bytes]:
        for number, message in enumerate(whole(call, request)):
            if number == messages:
                raise unavailable("out of order")
            yield message

    monkeypatch.setattr(kind, "messages", broken)


@pytest.mark.parametrize("rows", [1, 3, 50])
def test_the_rest_of_a_scan_begins_behind_keys_of_every_kind(
    served: Served, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    levels = ("a", "a/", "a//", "a/{}", "a/{}/", "a/{}//", "a//{}", "a//{}/x", "a/{}\0", "a\0{}")
    keys = {level.format(number).encode() for level in levels for number in range(40)}
    values = {key: (SMALL, SMALL + b"v", LARGE)[number % 3] for number, key in enumerate(sorted(keys))}
    served.put({key: value for key, value in values.items() if len(key) % 3})
    served.put({key: value for key, value in values.items() if not len(key) % 3}, feeds=False)
    break_off(monkeypatch, BulkScanCall, 2)
    found = read(served, Piece(0), rows=rows)
    assert {key: value for key, _, value in found} == values
    assert len(found) == len(values)


@pytest.mark.parametrize("together", [1, 8, 100])
def test_an_index_goes_on_within_the_records_of_a_secondary_key(
    served: Served, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr("metastore.engine.points.PAGE_ITEMS", 128)
    others = [(b"c%d", b"c/%d/", b"c//%d", b"c/%d//")[number % 4] % number for number in range(INDEXED)]
    secondaries = [b"a", b"a//", b"a/", b"b", b"b\0", *others]
    served.put({b"%04d" % number: SMALL for number in range(INDEXED)}, lambda key: secondaries[int(key) // together])
    at_once = read(served, Piece(0, index=INDEX))
    assert sorted(key for key, _, _ in at_once) == [b"%04d" % number for number in range(INDEXED)]
    asked = served.asked("BulkScan")
    break_off(monkeypatch, BulkScanCall, 1)
    assert read(served, Piece(0, index=INDEX)) == at_once
    assert served.asked("BulkScan") - asked > 5


def test_a_secondary_key_of_several_messages_goes_on_behind_all_of_them(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of the three messages of a call, the first one begins before the long run, and the other two are within it.
    before, together = 30, 3 * PAGE_ITEMS
    keys = [b"%04d" % number for number in range(before + together)]
    served.put(dict.fromkeys(keys, SMALL), lambda key: b"a" if int(key) < before else b"b")
    break_off(monkeypatch, BulkScanCall, 3)
    assert [key for key, _, _ in read(served, Piece(0, index=INDEX))] == keys
    assert served.asked("BulkScan") == 2


def test_changes_go_on_behind_the_last_write(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    first = served.shard.next_offset
    # Some writes are larger than a message, and so are told in several pieces.
    counts = [400 if number % 20 == 0 else 5 for number in range(200)]
    for number, count in enumerate(counts):
        served.put({b"%04d/%04d" % (number, each): SMALL for each in range(count)}, feeds=False)
    break_off(monkeypatch, ChangesCall, 1)
    with open_source(served.url, None) as source:
        pieces = list(source.changes(Piece(0), first, served.shard.next_offset))
    assert len(pieces) > len(counts)
    assert [change.key for changes in pieces for change in changes] == [
        b"%04d/%04d" % (number, each) for number, count in enumerate(counts) for each in range(count)
    ]
    assert served.asked("Changes") > 3


# -- what cannot go on


def begun(served: Served, source: ServiceStore, point: Point) -> Iterator[Records]:
    """A scan of which something was taken."""
    scan = source.scan(Piece(0), point, ROWS)
    next(scan)
    return scan


@pytest.fixture
def source(served: Served) -> Iterator[ServiceStore]:
    served.put({b"%04d" % number: SMALL for number in range(MANY)})
    with open_source(served.url, None) as opened:
        assert isinstance(opened, ServiceStore)
        yield opened


def test_a_reader_who_is_slower_than_his_point_is_held_is_told_so(served: Served, source: ServiceStore) -> None:
    scan = begun(served, source, source.pin(HOLD_MS))
    served.end_readers()
    served.pass_by(HOLD_MS + 2 * int(TEND_INTERVAL_S * 1000))
    with pytest.raises(PointGone, match="no longer held"):
        list(scan)


def test_a_point_that_was_let_go_is_gone(served: Served, source: ServiceStore) -> None:
    point = source.pin(HOLD_MS)
    scan = begun(served, source, point)
    served.end_readers()
    source.release(point)
    with pytest.raises(PointGone, match="no longer held"):
        list(scan)


def test_what_leads_to_nothing_is_not_asked_for_again_and_again(
    served: Served, source: ServiceStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = begun(served, source, source.pin(HOLD_MS))
    served.end_readers()
    break_off(monkeypatch, BulkScanCall, 0)
    with pytest.raises(StoreUnreachable, match="out of order") as caught:
        all_of(scan)
    assert caught.type is StoreUnreachable
    assert served.asked("BulkScan") == 1 + RESUMPTIONS_MAX


# -- services that are processes of their own


def filled(start_server: StartServer) -> ServerProcess:
    """A service with far more records than connections hold, all of which LMDB has."""
    server = start_server()
    fill(f"oxia://{server.address}", {f"{number:05}": SMALL for number in range(MANY)})
    server.restart()
    return server


def test_a_service_that_was_killed_is_not_waited_for(start_server: StartServer) -> None:
    server = filled(start_server)
    with open_source(f"oxia://{server.address}?request_timeout={FOREVER}", None) as source:
        scan = source.scan(Piece(0), source.pin(HOLD_MS), 1_000)
        next(scan)
        server.kill()
        with pytest.raises(StoreUnreachable, match="broke off"):
            list(scan)


@pytest.mark.parametrize("how", ["kill", "terminate"])
def test_points_are_gone_with_their_service(start_server: StartServer, how: Literal["kill", "terminate"]) -> None:
    server = filled(start_server)
    with open_source(f"oxia://{server.address}?request_timeout={FOREVER}", None) as source:
        scan = source.scan(Piece(0), source.pin(HOLD_MS), 1_000)
        next(scan)
        server.restart(how)
        with pytest.raises(PointGone, match="no longer held"):
            list(scan)


class Leaping(SystemClock):
    """A clock that goes on as clocks do, and leaps when a test says so."""

    def __init__(self) -> None:
        self._leapt_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self._leapt_s

    def leap(self, seconds: float) -> None:
        self._leapt_s += seconds


def test_no_answer_is_late_because_its_reader_was_away(start_server: StartServer) -> None:
    server = filled(start_server)
    clock = Leaping()
    loop = Loop(f"oxia://{server.address}", clock)
    assert isinstance(loop.store, WireStore)
    count = 0
    with ServiceStore(loop, loop.store, "") as source:
        for records in source.scan(Piece(0), source.pin(HOLD_MS), 1_000):
            count += len(records)
            clock.leap(3_600.0)
    assert count == MANY


def test_a_service_that_says_nothing_is_given_up_in_time(start_server: StartServer) -> None:
    server = filled(start_server)
    with open_source(f"oxia://{server.address}?request_timeout=500ms", None) as source:
        scan = source.scan(Piece(0), source.pin(HOLD_MS), 1_000)
        next(scan)
        server.process.send_signal(signal.SIGSTOP)
        with pytest.raises(StoreUnreachable, match="no answer"):
            list(scan)
        server.process.send_signal(signal.SIGCONT)
