"""Progress: what is handed out once, what an acknowledgement covers, what comes again and voids what was before."""

from __future__ import annotations

import pytest
from consumers_values import message
from hypothesis import given
from hypothesis import strategies as st

from controller.client import Message, Transaction, TransactionState
from controller.client.consumers.progress import (
    CameAgain,
    Claim,
    Reached,
    SharedProgress,
    WholeProgress,
    reached_with,
)


class Decided:
    """A transaction, as far as it matters here."""

    def __init__(self, state: TransactionState = TransactionState.OPEN) -> None:
        self.state = state


def txn(state: TransactionState = TransactionState.OPEN) -> Transaction:
    return Decided(state)  # type: ignore[return-value]


def handed(progress: WholeProgress | SharedProgress, fresh: Message) -> Reached:
    (only,), (turn,) = progress.hand_out([fresh])
    assert only is fresh
    return reached_with(only, turn)


def claimed(progress: WholeProgress | SharedProgress, reached: Reached, within: Transaction | None = None) -> Claim:
    claim = progress.claim(reached, within)
    assert claim is not None
    return claim


def test_a_segment_of_ones_own_is_settled_when_the_last_is_acknowledged() -> None:
    progress = WholeProgress()
    seen = [progress.is_settled]
    handed(progress, message(0))
    last = handed(progress, message(1))
    seen.append(progress.is_settled)
    claim = claimed(progress, last)
    seen.append(progress.is_settled)
    progress.settle(claim, True)
    seen.append(progress.is_settled)
    assert seen == [True, False, False, True], "while it is being acknowledged that is not known"
    assert progress.claim(last, None) is None, "there is nothing left"


def test_what_an_older_vector_says_is_covered_already() -> None:
    progress = WholeProgress()
    first, second = handed(progress, message(0)), handed(progress, message(1))
    claimed(progress, second)
    assert progress.claim(first, None) is None


def test_an_acknowledgement_that_failed_may_be_tried_again() -> None:
    progress = WholeProgress()
    only = handed(progress, message(0))
    progress.settle(claimed(progress, only), False)
    assert claimed(progress, only).messages[0].id == message(0).id


def test_what_the_application_has_is_not_handed_out_again() -> None:
    progress = WholeProgress()
    first = handed(progress, message(0))
    handed(progress, message(1))
    progress.settle(claimed(progress, first), True)
    (only,), _ = progress.hand_out([message(1), message(2)])
    assert only.id == message(2).id, "the other one has come again behind a broken stream"


def test_what_was_acknowledged_and_comes_all_the_same_voids_what_was_received_before() -> None:
    progress = WholeProgress()
    first, second = handed(progress, message(0)), handed(progress, message(1))
    third = handed(progress, message(2))
    progress.settle(claimed(progress, first, txn()), True)
    again = handed(progress, message(0))
    assert again.turn != third.turn
    with pytest.raises(CameAgain):
        progress.claim(third, None)
    with pytest.raises(CameAgain):
        progress.claim(second, None)
    assert progress.hand_out([message(1)]).messages, "in this turn it has not come yet"
    assert claimed(progress, again).messages[0].id == message(0).id


def test_behind_an_aborted_transaction_nothing_is_acknowledged_before_it_came_again() -> None:
    progress = WholeProgress()
    within = txn()
    first, second = handed(progress, message(0)), handed(progress, message(1))
    progress.settle(claimed(progress, first, within), True)
    assert isinstance(within, Decided)
    within.state = TransactionState.ABORTED
    with pytest.raises(CameAgain):
        progress.claim(second, None)
    assert not progress.hand_out([message(2)]).messages, "it comes once more behind what comes again"
    handed(progress, message(0))
    handed(progress, message(1))
    handed(progress, message(2))


def test_behind_an_aborted_transaction_it_goes_on_where_somebody_has_put_it() -> None:
    progress = WholeProgress()
    within = txn()
    progress.settle(claimed(progress, handed(progress, message(0)), within), True)
    assert isinstance(within, Decided)
    within.state = TransactionState.TIMED_OUT
    progress.renew()
    later = handed(progress, message(7))
    assert claimed(progress, later).messages[0].id == message(7).id


def test_behind_a_committed_transaction_it_goes_on() -> None:
    progress = WholeProgress()
    within = txn()
    first, second = handed(progress, message(0)), handed(progress, message(1))
    progress.settle(claimed(progress, first, within), True)
    assert isinstance(within, Decided)
    within.state = TransactionState.COMMITTED
    assert claimed(progress, second, None).messages[0].id == message(1).id


def test_messages_of_a_batch_are_told_apart() -> None:
    progress = WholeProgress()
    handed(progress, message(0, 0, 3))
    middle = handed(progress, message(0, 1, 3))
    handed(progress, message(0, 2, 3))
    claim = claimed(progress, middle)
    assert claim.messages[0].batch_size == 3
    assert not hasattr(claim.messages[0], "payload"), "nobody keeps contents for an acknowledgement"
    progress.settle(claim, True)
    assert not progress.is_settled


def test_of_a_shared_segment_only_what_was_received_is_acknowledged() -> None:
    progress = SharedProgress()
    handed(progress, message(1))
    fifth = handed(progress, message(5))
    handed(progress, message(7))
    claim = claimed(progress, fifth)
    assert [each.id.position.entry for each in claim.messages] == [1, 5]
    progress.settle(claim, True)
    assert not progress.is_settled
    assert progress.claim(fifth, None) is None


def test_what_lies_before_a_message_and_was_received_behind_it_is_not_covered_by_it() -> None:
    progress = SharedProgress()
    fifth = handed(progress, message(5))
    handed(progress, message(3))  # another consumer had it, and is gone
    assert [each.id.position.entry for each in claimed(progress, fifth).messages] == [5]


def test_copies_of_what_is_shared_are_held_back_until_it_is_settled() -> None:
    progress = SharedProgress()
    only = handed(progress, message(1))
    assert not progress.hand_out([message(1)]).messages
    claim = claimed(progress, only)
    assert not progress.hand_out([message(1)]).messages, "while it is being acknowledged"
    progress.settle(claim, False)
    assert not progress.hand_out([message(1)]).messages, "the application still has it"
    again = claimed(progress, only)
    progress.settle(again, True)
    assert progress.hand_out([message(1)]).messages, "a transaction that held it was aborted"


def test_what_failed_is_covered_by_whatever_is_acknowledged_next_and_nothing_later_is() -> None:
    progress = SharedProgress()
    first, second, third = (handed(progress, message(number)) for number in (1, 2, 3))
    progress.settle(claimed(progress, second), False)
    assert sorted(each.id for each in claimed(progress, first).messages) == [message(1).id, message(2).id]
    assert [each.id for each in claimed(progress, third).messages] == [message(3).id]


@given(
    st.lists(st.lists(st.integers(0, 12), max_size=6), max_size=8),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_many_at_once_are_handed_out_as_one_by_one(batches: list[list[int]], are_settled: list[bool]) -> None:
    together, singly = WholeProgress(), WholeProgress()
    for numbers, is_settled in zip(batches, are_settled, strict=False):
        messages = [message(number)._replace(era=number // 9) for number in numbers]
        at_once = together.hand_out(messages)
        each = [singly.hand_out([one]) for one in messages]
        assert list(at_once.messages) == [found for some in each for found in some.messages]
        assert list(at_once.turns) == [turn for some in each for turn in some.turns]
        if at_once.messages and is_settled:
            reached = reached_with(at_once.messages[-1], at_once.turns[-1])
            for progress in (together, singly):
                progress.settle(claimed(progress, reached), True)
        assert together.is_settled == singly.is_settled


def test_a_shared_segment_hands_out_no_more_than_its_limit() -> None:
    progress = SharedProgress(unacked_max=2)
    handed(progress, message(0))
    seen = [progress.room]
    last = handed(progress, message(1))
    seen.append(progress.room)
    progress.settle(claimed(progress, last), True)
    seen.append(progress.room)
    assert seen == [1, 0, 2]
