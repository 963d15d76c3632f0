"""The pure decisions of the buffer: horizon, number sets, producers, what earlier owners have announced."""

from __future__ import annotations

import itertools

import pytest
from buffer_stage import SEGMENT, txn
from hypothesis import given
from hypothesis import strategies as st

from txn.model.aborted import AbortedRange
from txn.model.applied import Applied
from txn.model.errors import RecordDamaged
from txn.model.ids import TxnId
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position
from txn.segment.buffer import producers as limits
from txn.segment.buffer.horizon import Horizon
from txn.segment.buffer.numbers import Interval, Numbers
from txn.segment.buffer.producers import ProducerStates, Taken, Verdict
from txn.segment.buffer.recovery import announced_span
from txn.segment.log import LedgerLength, LedgerLengths

steps = st.lists(st.tuples(st.sampled_from("pinrelback"), st.integers(0, 9), st.integers(1, 3)), max_size=60)


@given(steps)
def test_the_horizon_is_the_first_entry_of_the_oldest_open_transaction(steps: list[tuple[str, int, int]]) -> None:
    horizon, entry = Horizon(), 0
    model: dict[TxnId, Position] = {}
    for kind, number, step in steps:
        if kind in "pin":
            entry += step
            horizon.pin(txn(number), Position(1, entry))
            model.setdefault(txn(number), Position(1, entry))
        elif kind in "rel":
            horizon.release(txn(number))
            model.pop(txn(number), None)
        else:
            entry = max(0, entry - step)
            bound = Position(1, entry)
            again = {txn(number): Position(1, entry + 1)}
            horizon.repin(bound, again)
            model = again | {txn_id: each for txn_id, each in model.items() if each < bound}
            entry += 1
        assert horizon.first == min(model.values(), default=None)
        assert len(horizon) == len(model)
        assert model.get(horizon.oldest) == horizon.first if horizon.oldest else not model


def test_a_horizon_restored_holds_the_oldest_first() -> None:
    horizon = Horizon()
    horizon.restore({txn(1): Position(3, 0), txn(2): Position(1, 7)})
    assert (horizon.oldest, horizon.first) == (txn(2), Position(1, 7))
    with pytest.raises(AssertionError):
        horizon.pin(txn(3), Position(1, 9))


changes = st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 6)), max_size=40)


@given(changes)
def test_numbers_are_a_set_in_intervals(changes: list[tuple[bool, int, int]]) -> None:
    numbers, model = Numbers(), set[int]()
    for is_added, first, more in changes:
        (numbers.add if is_added else numbers.remove)(first, first + more)
        model = (model | {*range(first, first + more + 1)}) if is_added else model - {*range(first, first + more + 1)}
        assert {each for each in range(50) if each in numbers} == model
        assert numbers.last == max(model, default=-1)
        intervals = list(numbers)
        assert all(left.last + 1 < right.first for left, right in itertools.pairwise(intervals))
        assert Numbers(intervals) == numbers == numbers.copy()


@given(changes, st.integers(1, 4))
def test_of_numbers_with_too_many_gaps_the_oldest_are_closed(changes: list[tuple[bool, int, int]], most: int) -> None:
    numbers = Numbers()
    for is_added, first, more in changes:
        (numbers.add if is_added else numbers.remove)(first, first + more)
    before = list(numbers)
    numbers.fill_oldest(most)
    surplus = max(0, len(before) - most)
    filled = [Interval(before[0].first, before[surplus].last)] if before else []
    assert list(numbers) == filled + before[surplus + 1 :]


def taken(first: int, last: int | None = None, number: int | None = None, name: str = "p") -> Taken:
    return Taken(name, first, first if last is None else last, None if number is None else txn(number))


def test_a_number_is_a_duplicate_if_it_was_taken_and_not_freed() -> None:
    states = ProducerStates()
    for message in (taken(1), taken(2, 4, 1), taken(7), taken(5, 5, 2)):
        assert states.judge(message) is Verdict.NEW
        states.take(message)
        assert states.judge(message) is Verdict.DUPLICATE
    assert states.judge(taken(3)) is states.judge(taken(3, 3, 2)) is Verdict.UNDECIDED
    assert states.judge(taken(6)) is Verdict.NEW
    assert states.judge(taken(1, name="q")) is Verdict.NEW
    states.free(taken(7))
    assert states.judge(taken(7)) is Verdict.NEW
    states.conclude(txn(1), is_aborted=True)
    states.conclude(txn(2), is_aborted=False)
    verdicts = [states.judge(taken(each)) for each in (2, 3, 4, 5)]
    assert verdicts == [Verdict.NEW] * 3 + [Verdict.DUPLICATE]
    assert states.transactions == []


def test_a_log_that_is_read_again_gives_an_aborted_transactions_number_to_who_took_it_later() -> None:
    states = ProducerStates()
    states.take(taken(5, 6, 1))
    states.take(taken(5))
    states.conclude(txn(1), is_aborted=True)
    assert (states.judge(taken(5)), states.judge(taken(6))) == (Verdict.DUPLICATE, Verdict.NEW)


messages = st.builds(
    taken, st.integers(0, 20), st.none(), st.one_of(st.none(), st.integers(0, 2)), st.sampled_from(["p", "q"])
)


@given(st.lists(messages, max_size=20), st.lists(messages, max_size=4))
def test_a_snapshot_says_what_there_is_without_what_is_under_way(some: list[Taken], under_way: list[Taken]) -> None:
    states, without = ProducerStates(), ProducerStates()
    names = {(each.producer, each.first) for each in under_way}
    for message in some:
        states.take(message)
        if (message.producer, message.first) not in names:
            without.take(message)
    for message in under_way:
        states.take(message)
    found, position = ProducerStates.decode(states.encode(Position(3, 4), under_way))
    assert position == Position(3, 4)
    for name in "pq":
        for number in range(21):
            message = taken(number, name=name)
            assert found.judge(message) is without.judge(message)


def test_the_states_of_producers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PRODUCERS_MAX", 2)
    monkeypatch.setattr(limits, "INTERVALS_MAX", 3)
    monkeypatch.setattr(limits, "HELD_INTERVALS_MAX", 2)
    states = ProducerStates()
    for name in "abac":
        states.take(taken(1, name=name, number=9))
    assert len(states) == 2
    assert states.judge(taken(1, name="b")) is Verdict.NEW, "the one that was silent for longest is forgotten"
    states.conclude(txn(9), is_aborted=True)
    for number in (10, 20, 30, 40):
        states.take(taken(number, name="c"))
    assert states.judge(taken(15, name="c")) is Verdict.DUPLICATE
    assert states.judge(taken(25, name="c")) is Verdict.NEW
    for number in (50, 52):
        states.take(taken(number, number, 7, "c"))
    assert states.judge(taken(54, 54, 7, "c")) is Verdict.SCATTERED
    assert states.judge(taken(53, 53, 7, "c")) is states.judge(taken(54, 54, 8, "c")) is Verdict.NEW


def test_a_snapshot_that_grows_too_large_leaves_out_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    states = ProducerStates()
    for name in ("old", "new"):
        states.take(taken(1, name=name))
    monkeypatch.setattr(limits, "SNAPSHOT_BYTES_MAX", 25)
    found, _ = ProducerStates.decode(states.encode(Position(1, 2), ()))
    assert found.judge(taken(1, name="new")) is Verdict.DUPLICATE
    assert found.judge(taken(1, name="old")) is Verdict.NEW


@pytest.mark.parametrize("text", ['{"format":1}', '{"format":1,"position":"1:1","producers":[["p",[[3,1]],{}]]}', "x"])
def test_a_damaged_snapshot_is_refused(text: str) -> None:
    with pytest.raises(RecordDamaged):
        ProducerStates.decode(text.encode())


def write(ledger: int, first: int, last: int | None = None) -> Operation:
    end = None if last is None else Position(ledger, last)
    return Operation(OperationKind.WRITE, SEGMENT, Position(ledger, first), end)


def test_what_was_announced_and_never_written_or_is_trimmed_holds_nobody() -> None:
    lengths = LedgerLengths((LedgerLength(3, 5), LedgerLength(7, 4), LedgerLength(9, 0)), Position(3, 2))
    assert announced_span([], lengths) is None
    assert announced_span([write(3, 5), write(5, 0), write(7, 4, 6), write(2, 0, 9)], lengths) is None
    assert announced_span([write(7, 3), write(3, 4)], lengths) == AbortedRange(Position(3, 4), Position(7, 3))
    assert announced_span([write(3, 0, 1)], lengths) is None
    assert announced_span([write(3, 0, 3)], lengths) == AbortedRange(Position(3, 0), Position(3, 3))


def test_the_records_are_read_as_they_were_written() -> None:
    aborted = AbortedRange(Position(1, 2), Position(3, 4))
    assert AbortedRange.decode(aborted.encode()) == aborted
    applied = Applied(6, "broker", 5, 4, 3, 2)
    assert Applied.decode(applied.encode()) == applied
    for decode in (AbortedRange.decode, Applied.decode):
        for value in (b"", b"{}", b'{"format":1}', b'{"format":2}'):
            with pytest.raises(RecordDamaged):
                decode(value)
    with pytest.raises(RecordDamaged):
        AbortedRange(Position(3, 4), Position(1, 2))
