"""Progress: what is handed out once, what an acknowledgement covers, what comes again and voids what was before."""

from __future__ import annotations

import pytest
from consumers_values import message

from controller.client import Message, Transaction, TransactionState
from controller.client.consumers.progress import CameAgain, Claim, Reached, SharedProgress, WholeProgress


class Decided:
    """A transaction, as far as it matters here."""

    def __init__(self, state: TransactionState = TransactionState.OPEN) -> None:
        self.state = state


def txn(state: TransactionState = TransactionState.OPEN) -> Transaction:
    return Decided(state)  # type: ignore[return-value]


def handed(progress: WholeProgress | SharedProgress, given: Message) -> Reached:
    reached = progress.hand_out(given)
    assert reached is not None
    return reached


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
    assert progress.hand_out(message(1)) is None, "behind a broken stream"
    assert progress.hand_out(message(2)) is not None


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
    assert progress.hand_out(message(1)) is not None, "in this turn it has not come yet"
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
    assert progress.hand_out(message(2)) is None, "it comes once more behind what comes again"
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
    assert claim.messages[0].payload == b"", "nobody keeps contents for an acknowledgement"
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
    assert progress.hand_out(message(1)) is None
    claim = claimed(progress, only)
    assert progress.hand_out(message(1)) is None, "while it is being acknowledged"
    progress.settle(claim, False)
    assert progress.hand_out(message(1)) is None, "the application still has it"
    again = claimed(progress, only)
    progress.settle(again, True)
    assert progress.hand_out(message(1)) is not None, "a transaction that held it was aborted"


def test_a_shared_segment_hands_out_no_more_than_its_limit() -> None:
    progress = SharedProgress(unacked_max=2)
    handed(progress, message(0))
    seen = [progress.has_room]
    last = handed(progress, message(1))
    seen.append(progress.has_room)
    progress.settle(claimed(progress, last), True)
    seen.append(progress.has_room)
    assert seen == [True, False, True]
