"""Turns of streams, the line of watches, and how operations of a transaction are sorted and put back."""

from __future__ import annotations

import threading
from math import ceil
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engine.errors import FailedCondition
from metastore.engine.operations import WriteResult
from metastore.pb import oxia_pb2 as pb
from metastore.pb import tidemark_pb2 as tm
from metastore.server.errors import RpcError
from metastore.server.host import ShardHost
from metastore.server.tidemark.messages import TransactionOrder
from metastore.server.tidemark.progress import PROGRESS_INTERVAL_S, ProgressMarks
from metastore.server.tidemark.turns import Turns
from metastore.server.tidemark.watches import EVENTS_PER_TAKE_MAX, Line, StreamWatch
from metastore.watch.feed import Feed
from metastore.watch.news import Change, ChangeKind, FeedBatch, FeedBatchKind

WITHIN_S = 60.0


class Taker:
    """Wants so many turns, and remembers its turns beside those of others."""

    def __init__(self, name: str, wanted: int, taken: list[str]) -> None:
        self.name, self.wanted, self.taken = name, wanted, taken
        self.done = threading.Event()

    def take_turn(self) -> bool:
        self.taken.append(self.name)
        self.wanted -= 1
        if self.wanted <= 0:
            self.done.set()
        return self.wanted > 0


class Gate:
    """Keeps the thread until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def take_turn(self) -> bool:
        self.entered.set()
        assert self.opened.wait(WITHIN_S)
        return False


def test_those_who_want_more_take_turns_with_the_others() -> None:
    turns, gate = Turns("turns"), Gate()
    taken: list[str] = []
    takers = [Taker("a", 3, taken), Taker("b", 1, taken), Taker("c", 2, taken)]
    turns.ask(gate)
    assert gate.entered.wait(WITHIN_S)
    for taker in takers * 3:
        turns.ask(taker)
    gate.opened.set()
    assert all(taker.done.wait(WITHIN_S) for taker in takers)
    turns.close()
    assert taken == ["a", "b", "c", "a", "c", "a"], "who asks often gets one turn, and who wants more waits again"


def test_who_asks_in_his_own_turn_gets_another() -> None:
    turns, taken = Turns("turns"), list[str]()

    class Asking(Taker):
        def take_turn(self) -> bool:
            if self.wanted > 1:
                turns.ask(self)
            super().take_turn()
            return False

    taker = Asking("a", 5, taken)
    turns.ask(taker)
    assert taker.done.wait(WITHIN_S)
    turns.close()
    assert taken == ["a"] * 5


def test_after_the_end_nobody_gets_a_turn() -> None:
    turns, taken = Turns("turns"), list[str]()
    turns.close()
    turns.ask(Taker("a", 1, taken))
    begun, gate = Turns("turns"), Gate()
    begun.ask(gate)
    assert gate.entered.wait(WITHIN_S)
    begun.ask(Taker("b", 1, taken))
    closer = threading.Thread(target=begun.close)
    closer.start()
    while not begun._is_closed:
        pass
    gate.opened.set()
    closer.join(WITHIN_S)
    assert taken == []


# ---- the line and the marks


class FakeFeed:
    """News without end, as many as are asked for and the rest of a write of ten."""

    def take(self, events_max: int) -> list[FeedBatch]:
        change = Change(ChangeKind.CREATED, b"k", b"", None, 0, 0)
        return [FeedBatch(FeedBatchKind.CHANGES, 1, changes=(change,) * (10 * ceil(events_max / 10)))]


def test_a_watch_tells_a_bounded_portion_and_pays_for_it() -> None:
    tells = watch(1, FakeHost(0))
    tells.feed = cast(Feed, FakeFeed())
    tells.credit = EVENTS_PER_TAKE_MAX + 9
    assert sum(len(batch.changes) for batch in tells.take()) == EVENTS_PER_TAKE_MAX // 10 * 10 + 10
    assert tells.credit == 1
    tells.take()
    assert tells.credit == -9
    with pytest.raises(AssertionError, match="without credit"):
        tells.take()


class FakeHost:
    """What the line and the marks look at of a shard."""

    def __init__(self, shard_id: int) -> None:
        self.shard_id = shard_id
        self.told_offset = 0


def watch(watch_id: int, host: FakeHost) -> StreamWatch:
    return StreamWatch(watch_id, cast(ShardHost, host), 0)


def test_a_watch_waits_once_and_is_behind_until_it_has_nothing_to_tell() -> None:
    line, host, other = Line(), FakeHost(0), FakeHost(1)
    first, second, third = watch(2, host), watch(1, host), watch(3, other)
    for each in (first, second, first, third):
        line.join(each)
    assert (len(line), line.behind(cast(ShardHost, host)), line.behind(cast(ShardHost, other))) == (3, (1, 2), (3,))
    assert line.next() is first
    line.join(first)
    line.note_caught_up(first)  # it has joined again meanwhile: there may be more
    assert line.next() is second
    line.note_caught_up(second)
    assert line.behind(cast(ShardHost, host)) == (2,)
    assert [line.next(), line.next(), line.next()] == [third, first, None]
    line.note_caught_up(first)
    line.forget(third)
    assert line.behind(cast(ShardHost, host)) == line.behind(cast(ShardHost, other)) == ()


def test_marks_are_due_at_intervals_and_tell_only_what_is_new() -> None:
    line, host = Line(), FakeHost(4)
    marks = ProgressMarks(line)
    assert marks.due() == []
    marks.follow(cast(ShardHost, host))
    now_s = 100.0

    def told() -> list[Any]:
        nonlocal now_s
        assert marks.tick(now_s)
        assert not marks.tick(now_s + PROGRESS_INTERVAL_S - 0.001)
        now_s += PROGRESS_INTERVAL_S
        return [(mark.shard, mark.resume_offset, list(mark.behind)) for mark in marks.due()]

    assert told() == [(4, 0, [])]
    assert told() == []
    host.told_offset = 7
    slow = watch(9, host)
    line.join(slow)
    assert told() == [(4, 7, [9])]
    assert line.next() is slow
    assert told() == []
    line.note_caught_up(slow)
    assert told() == [(4, 7, [])], "who was behind has to hear that it is not"
    marks.follow(cast(ShardHost, host))
    assert told() == [(4, 7, [])], "a new watch has to hear it as well"
    marks.unfollow(cast(ShardHost, host))
    marks.unfollow(cast(ShardHost, host))
    host.told_offset = 8
    assert told() == []


# ---- transactions

OPERATIONS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12)
"""Whether each is a put, and whether it expects a version."""


def request_of(operations: list[tuple[bool, bool]], conditions: int) -> tm.TransactRequest:
    request = tm.TransactRequest(shard=0)
    for place in range(conditions):
        request.conditions.add(key=b"c%d" % place, version_id=place)
    for place, (is_put, expects) in enumerate(operations):
        expected: dict[str, Any] = {"expected_version_id": 100 + place} if expects else {}
        if is_put:
            request.operations.add().put.CopyFrom(pb.PutRequest(key=b"%d" % place, **expected))
        else:
            request.operations.add().delete.CopyFrom(pb.DeleteRequest(key=b"%d" % place, **expected))
    return request


@settings(deadline=None, database=None, derandomize=True)
@given(OPERATIONS, st.integers(0, 3), st.data())
def test_places_and_results_are_those_of_the_request(
    operations: list[tuple[bool, bool]], conditions: int, data: st.DataObject
) -> None:
    order = TransactionOrder(request_of(operations, conditions))
    all_conditions = list(order.transaction.all_conditions())
    failing = data.draw(st.lists(st.sampled_from(all_conditions), unique=True) if all_conditions else st.just([]))
    failed = [FailedCondition(place, key, expected, -1) for place, key, expected in failing]
    answer = tm.TransactResponse.FromString(order.encode_failed(failed))
    wanted = [(b"c%d" % place, place) for place in range(conditions)]
    wanted += [(b"%d" % place, 100 + place) for place, (_, expects) in enumerate(operations) if expects]
    assert [(each.key, each.expected_version_id) for each in answer.failed] == [
        each for each in wanted if each in [(key, expected) for _, key, expected in failing]
    ]
    assert all((each.key, each.expected_version_id) == wanted[each.place] for each in answer.failed)

    versions = [pb.Version(version_id=int(key)).SerializeToString() for key, _, _ in order.transaction.puts]
    result = WriteResult([(0, version, None) for version in versions], [0] * len(order.transaction.deletes), 0)
    results = tm.TransactResponse.FromString(order.encode_result(result)).results
    assert [each.HasField("version") for each in results] == [is_put for is_put, _ in operations]
    assert all(each.version.version_id == place for place, each in enumerate(results) if each.HasField("version"))


def test_an_operation_must_be_something() -> None:
    with pytest.raises(RpcError, match="operation 0"):
        TransactionOrder(tm.TransactRequest(operations=[tm.TransactOperation()]))
