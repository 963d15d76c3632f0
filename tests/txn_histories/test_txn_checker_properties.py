"""Over random histories: the checker accepts all that are faultless, and finds what is spoilt in them afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from txn.model.header import TxnState
from txn.model.position import Position
from txn_histories.checker import check, report
from txn_histories.history import History
from txn_histories.notes import Delivery, Fate, Sighting
from txn_histories.perfect import perfect
from txn_histories.violations import Lie

SEEDS = st.integers(0, 1 << 32)
SPOILT = settings(max_examples=60)


@given(SEEDS)
def test_a_faultless_history_is_accepted(seed: int) -> None:
    findings = check(perfect(seed))
    assert not findings.violations, report(findings)


def test_the_histories_are_about_something() -> None:
    counts = sum((check(perfect(seed)).counts for seed in range(40)), check(History()).counts)
    assert min(counts[each] for each in ("committed", "aborted", "messages", "deliveries", "acknowledgements")) > 100


def final_reader(history: History, segment: str = "s") -> Sighting:
    return next(
        each for each in history.sightings if each.is_final and each.subscription is None and each.segment == segment
    )


def an_entry_vanishes(history: History, place: int) -> set[Lie]:
    deliveries = final_reader(history).deliveries
    assume(deliveries)
    gone = deliveries.pop(place % len(deliveries))
    accepted = any(send.message == gone.message and send.fate is Fate.DONE for send in history.sends)
    seen = any(gone.message == each.message for sighting in history.sightings for each in sighting.deliveries)
    assume(accepted or seen)
    return {Lie.LOST_WRITE, Lie.TORN}


def an_aborted_entry_appears(history: History, place: int) -> set[Lie]:
    aborted = {txn for txn, state in history.rest.states.items() if state is TxnState.ABORTED}
    sends = [send for send in history.sends if send.txn in aborted and send.position and send.segment == "s"]
    assume(sends)
    send = sends[place % len(sends)]
    assert send.position is not None
    reader = Sighting("spoilt", "s", None, 1 << 30, start=send.position)
    reader.deliveries.append(Delivery(send.position, send.message, 1 << 30, 1 << 31))
    history.sightings.append(reader)
    return {Lie.ABORTED_READ}


def an_entry_is_there_twice(history: History, place: int) -> set[Lie]:
    deliveries = final_reader(history).deliveries
    assume(deliveries)
    again = deliveries[place % len(deliveries)]
    deliveries.append(replace(again, position=Position(9, 0)))
    return {Lie.DUPLICATED}


def two_entries_change_places(history: History, place: int) -> set[Lie]:
    deliveries = final_reader(history).deliveries
    assume(len(deliveries) > 1)
    first = place % (len(deliveries) - 1)
    deliveries[first : first + 2] = reversed(deliveries[first : first + 2])
    return {Lie.MISORDERED}


def an_answer_is_turned_round(history: History, place: int) -> set[Lie]:
    told = [number for number, each in enumerate(history.endings) if each.outcome is not None]
    assume(told)
    number = told[place % len(told)]
    ending = history.endings[number]
    other = TxnState.ABORTED if ending.outcome is TxnState.COMMITTED else TxnState.COMMITTED
    history.endings[number] = replace(ending, outcome=other)
    return {Lie.OUTCOME_LIE}


def what_was_acknowledged_comes_again(history: History, place: int) -> set[Lie]:
    known = {txn for txn, state in history.rest.states.items() if state is TxnState.COMMITTED}
    done = [each for each in history.acks if each.fate is Fate.DONE and (each.txn is None or each.txn in known)]
    assume(done)
    call = done[place % len(done)]
    name = history.visible[call.segment][call.acks[0].position]
    consumer = Sighting("spoilt", call.segment, call.subscription, 1 << 30)
    consumer.deliveries.append(Delivery(call.acks[0].position, name, 1 << 30, 1 << 31))
    history.sightings.append(consumer)
    return {Lie.ACK_REDELIVERED}


def what_was_left_does_not_come(history: History, place: int) -> set[Lie]:
    last = next(each for each in history.sightings if each.is_final and each.subscription is not None)
    assume(last.deliveries)
    gone = last.deliveries.pop(place % len(last.deliveries))
    calls = [each for each in history.acks if each.segment == last.segment and each.acks[0].position == gone.position]
    assume(not any(each.fate is Fate.UNKNOWN for each in calls))
    return {Lie.UNDELIVERED, Lie.ABORTED_ACK_LOST}


def an_acknowledgement_is_given_twice(history: History, place: int) -> set[Lie]:
    known = [txn for txn, state in history.rest.states.items() if state is TxnState.COMMITTED]
    done = [each for each in history.acks if each.fate is Fate.DONE and each.txn in known]
    assume(done)
    call = done[place % len(done)]
    others = [txn for txn in known if txn != call.txn]
    assume(others)
    history.acks.append(replace(call, txn=others[place % len(others)]))
    return {Lie.CONFLICTING_ACKS}


SPOILERS: list[Callable[[History, int], set[Lie]]] = [
    an_entry_vanishes,
    an_aborted_entry_appears,
    an_entry_is_there_twice,
    two_entries_change_places,
    an_answer_is_turned_round,
    what_was_acknowledged_comes_again,
    what_was_left_does_not_come,
    an_acknowledgement_is_given_twice,
]


@pytest.mark.parametrize("spoil", SPOILERS, ids=lambda spoil: str(spoil.__name__))
@SPOILT
@given(SEEDS, st.integers(0, 1000))
def test_what_is_spoilt_is_found(spoil: Callable[[History, int], set[Lie]], seed: int, place: int) -> None:
    history = perfect(seed)
    assert history.visible is not None
    expected = spoil(history, place)
    spoilt = replace(history)  # without what was looked up before
    assert expected & set(check(spoilt).lies), report(check(spoilt))
