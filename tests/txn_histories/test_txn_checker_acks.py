"""The checker finds what is wrong with acknowledgements: each fault by its name, and nothing else."""

from __future__ import annotations

from enum import Enum

import pytest

from txn.model.header import TxnState
from txn_histories.made import Story, at
from txn_histories.notes import AckOf, Fate, Sighting
from txn_histories.violations import Lie

NAMES = ["a", "b", "c"]


def consumed(*, count: int = 1) -> tuple[Story, Sighting]:
    """Three entries that a consumer of `sub` has been shown."""
    story = Story()
    for entry, name in enumerate(NAMES):
        story.send(name, entry, count=count)
    consumer = story.open("sub")
    story.show(consumer, *NAMES)
    return story, consumer


def finished(story: Story, *left: str, **skipped: tuple[int, ...]) -> set[Enum]:
    """What is wrong if these are what `sub` is still shown in the end, but for some messages of batches."""
    story.end_with("s", NAMES)
    story.end_with("s", list(left), "sub", skipped)
    story.end_with("s", NAMES, "fresh")
    return story.lies()


def test_what_is_acknowledged_does_not_come_again_and_everything_else_does() -> None:
    story, _ = consumed()
    story.ack(0, 2)
    assert finished(story, "b") == set()


def test_what_a_committed_transaction_acknowledged_does_not_come_again() -> None:
    story, _ = consumed()
    story.begin("x")
    story.ack(0, 1, txn="x")
    story.commit("x")
    assert finished(story, "c") == set()


def test_a_committed_acknowledgement_that_is_delivered_again_is_found() -> None:
    story, _ = consumed()
    story.begin("x")
    story.ack(0, 1, txn="x")
    story.commit("x")
    assert finished(story, "b", "c") == {Lie.ACK_REDELIVERED}


def test_a_plain_acknowledgement_that_is_delivered_again_is_found() -> None:
    story, _ = consumed()
    story.ack(0)
    assert finished(story, *NAMES) == {Lie.ACK_REDELIVERED}


def test_an_acknowledgement_binds_from_its_answer_on_and_not_only_from_the_commit() -> None:
    story, consumer = consumed()
    story.begin("x")
    story.ack(0, txn="x")
    story.show(story.open("sub"), "a", "b", "c")
    story.commit("x")
    assert consumer.deliveries
    assert finished(story, "b", "c") == {Lie.ACK_REDELIVERED}


def test_a_delivery_that_was_under_way_when_it_was_acknowledged_is_well() -> None:
    story, _ = consumed()
    other = story.open("sub", is_shared=True)
    story.show(other, "a")
    story.begin("x")
    story.ack(0, txn="x")
    story.commit("x")
    assert finished(story, "b", "c") == set()


def test_a_redelivery_while_the_transaction_is_open_is_found_also_if_it_is_aborted_later() -> None:
    story, _ = consumed()
    story.begin("x")
    story.ack(0, txn="x")
    story.show(story.open("sub"), "a")
    story.abort("x")
    assert finished(story, *NAMES) == {Lie.PENDING_REDELIVERED}


def test_an_aborted_acknowledgement_that_is_delivered_again_is_well() -> None:
    story, consumer = consumed()
    story.begin("x")
    story.ack(0, txn="x")
    story.abort("x")
    story.show(consumer, "a")
    assert finished(story, *NAMES) == set()


def test_an_aborted_acknowledgement_that_is_not_delivered_again_is_found() -> None:
    story, _ = consumed()
    story.begin("x")
    story.ack(1, txn="x")
    story.abort("x")
    assert finished(story, "a", "c") == {Lie.ABORTED_ACK_LOST}


@pytest.mark.parametrize("left", [["a", "b", "c"], ["b", "c"]])
def test_of_a_commit_without_an_answer_nobody_knows_and_what_was_written_tells(left: list[str]) -> None:
    story, _ = consumed()
    story.begin("x")
    story.ack(0, txn="x")
    story.end("x", TxnState.COMMITTED, None)
    assert finished(story, *left) == set()
    for seen in (True, False):
        story, _ = consumed()
        story.begin("x")
        story.ack(0, txn="x")
        story.send("t-1", 0, segment="t", txn="x")
        story.end("x", TxnState.COMMITTED, None)
        story.end_with("t", ["t-1"] * seen)
        is_acked = "a" not in left
        wrong = {Lie.ABORTED_ACK_LOST} if is_acked else {Lie.ACK_REDELIVERED}
        assert finished(story, *left) == (set() if seen == is_acked else wrong)


def test_an_aborted_cumulative_acknowledgement_frees_all_it_covered() -> None:
    for left, lies in ((NAMES, set()), (["c"], {Lie.ABORTED_ACK_LOST})):
        story, _ = consumed()
        story.begin("x")
        story.ack(AckOf(at(1), is_cumulative=True), txn="x")
        story.abort("x")
        assert finished(story, *left) == lies


def test_a_cumulative_acknowledgement_covers_everything_before_it() -> None:
    for left, lies in ((["c"], set()), (["a", "c"], {Lie.ACK_REDELIVERED})):
        story, _ = consumed()
        story.ack(AckOf(at(1), is_cumulative=True))
        assert finished(story, *left) == lies


def test_an_entry_that_nobody_acknowledged_and_that_never_comes_is_found() -> None:
    story, _ = consumed()
    story.ack(0)
    assert finished(story, "b") == {Lie.UNDELIVERED}


def test_a_refused_acknowledgement_changes_nothing() -> None:
    for left, lies in ((NAMES, set()), (["b", "c"], {Lie.UNDELIVERED})):
        story, _ = consumed()
        story.ack(0, fate=Fate.REFUSED)
        assert finished(story, *left) == lies


@pytest.mark.parametrize("left", [["a", "b", "c"], ["b", "c"]])
def test_an_acknowledgement_without_an_answer_may_have_happened_or_not(left: list[str]) -> None:
    story, _ = consumed()
    story.ack(0, fate=Fate.UNKNOWN)
    assert finished(story, *left) == set()


def test_an_entry_before_the_beginning_of_a_subscription_is_not_missed() -> None:
    story = Story()
    for entry, name in enumerate(NAMES):
        story.send(name, entry)
    story.history.starts["s", "sub"] = at(2)
    assert finished(story, "c") == set()


def test_two_committed_transactions_with_the_same_entry_are_found() -> None:
    story, _ = consumed()
    for txn in ("x", "y"):
        story.begin(txn)
        story.ack(0, txn=txn)
        story.commit(txn)
    assert finished(story, "b", "c") == {Lie.CONFLICTING_ACKS}


@pytest.mark.parametrize("way", ["refused", "aborted before", "other entry", "other subscription", "same transaction"])
def test_two_transactions_of_which_one_gets_the_entry_are_well(way: str) -> None:
    story, _ = consumed()
    for txn in ("x", "y"):
        story.begin(txn)
    story.ack(0, txn="x")
    if way == "aborted before":
        story.abort("x")
    other = "x" if way == "same transaction" else "y"
    fate = Fate.REFUSED if way == "refused" else Fate.DONE
    acked = 1 if way == "other entry" else 0
    story.ack(acked, txn=other, fate=fate, subscription="else" if way == "other subscription" else "sub")
    if way != "aborted before":
        story.commit("x")
    story.commit("y")
    assert finished(story, *(["c"] if way == "other entry" else ["b", "c"])) == set()


def test_a_transaction_that_gets_what_was_acknowledged_before_is_found() -> None:
    for fate, lies in ((Fate.DONE, {Lie.CONFLICTING_ACKS}), (Fate.REFUSED, set())):
        story, _ = consumed()
        story.begin("x")
        story.ack(0)
        story.ack(0, txn="x", fate=fate)
        story.commit("x")
        assert finished(story, "b", "c") == lies


def test_two_cumulative_acknowledgements_that_were_held_together_are_found() -> None:
    for together, lies in ((True, {Lie.CONFLICTING_ACKS}), (False, set())):
        story, _ = consumed()
        for txn in ("x", "y"):
            story.begin(txn)
        story.ack(AckOf(at(0), is_cumulative=True), txn="x")
        if not together:
            story.commit("x")
        story.ack(AckOf(at(1), is_cumulative=True), txn="y")
        if together:
            story.commit("x")
        story.commit("y")
        assert finished(story, "c") == lies


@pytest.mark.parametrize("is_cumulative", [False, True])
def test_what_a_transaction_holds_nobody_else_gets_in_any_form(is_cumulative: bool) -> None:
    """Not even if the transaction is aborted later: nobody could know that."""
    for fate, lies in ((Fate.DONE, {Lie.CONFLICTING_ACKS}), (Fate.REFUSED, set())):
        story, _ = consumed()
        story.begin("x")
        story.ack(0, txn="x")
        story.begin("y")
        story.ack(AckOf(at(1), is_cumulative=True) if is_cumulative else 0, txn="y", fate=fate)
        story.abort("x")
        story.abort("y")
        assert finished(story, *NAMES) == lies


def test_a_plain_acknowledgement_does_not_get_what_a_transaction_holds() -> None:
    for fate, lies in ((Fate.DONE, {Lie.CONFLICTING_ACKS}), (Fate.REFUSED, set())):
        story, _ = consumed()
        story.begin("x")
        story.ack(0, txn="x")
        story.ack(0, fate=fate)
        story.commit("x")
        assert finished(story, "b", "c") == lies


def test_a_single_entry_below_a_committed_cumulative_acknowledgement_comes_too_late() -> None:
    story, _ = consumed()
    for txn, ack in (("x", AckOf(at(1), is_cumulative=True)), ("y", AckOf(at(0)))):
        story.begin(txn)
        story.ack(ack, txn=txn)
        story.commit(txn)
    assert finished(story, "c") == {Lie.CONFLICTING_ACKS}


def test_a_transaction_may_repeat_what_it_has_said_cumulatively() -> None:
    """It passed over what another one had acknowledged; and it does not ask for that again."""
    for says_so_first, lies in ((True, set()), (False, {Lie.CONFLICTING_ACKS})):
        story, _ = consumed()
        story.begin("x")
        story.ack(0, txn="x")
        story.commit("x")
        story.begin("y")
        if says_so_first:
            story.ack(AckOf(at(1), is_cumulative=True), txn="y")
        story.ack(0, txn="y")
        story.commit("y")
        assert finished(story, *(["c"] if says_so_first else ["b", "c"])) == lies


def test_messages_of_a_batch_are_acknowledged_one_by_one() -> None:
    def batches(*of_transactions: tuple[int, ...]) -> Story:
        story, _ = consumed(count=3)
        for number, batch in enumerate(of_transactions):
            txn = f"x{number}"
            story.begin(txn)
            story.ack(AckOf(at(0), batch=batch), txn=txn)
            story.commit(txn)
        return story

    assert finished(batches((0, 1)), *NAMES, a=(0, 1)) == set(), "a part is left, so the entry comes again"
    assert finished(batches((0, 1)), *NAMES, a=(0,)) == {Lie.ACK_REDELIVERED}
    assert finished(batches((0,)), *NAMES, a=(0, 1)) == {Lie.UNDELIVERED}
    assert finished(batches((0, 1), (2,)), "b", "c") == set()
    assert finished(batches((0, 1), (2,)), *NAMES) == {Lie.ACK_REDELIVERED}
    assert finished(batches((0, 1)), "b", "c") == {Lie.UNDELIVERED}
    assert Lie.CONFLICTING_ACKS in finished(batches((0, 1), (1, 2)), "b", "c")


def test_a_batch_acknowledged_up_to_one_of_its_messages_comes_again() -> None:
    story, _ = consumed(count=3)
    story.ack(AckOf(at(1), is_cumulative=True, batch=(1,)))
    assert finished(story, "b", "c", b=(0, 1)) == set()
    story, _ = consumed(count=3)
    story.ack(AckOf(at(1), is_cumulative=True, batch=(2,)))
    assert finished(story, "b", "c") == {Lie.ACK_REDELIVERED}


def test_an_entry_that_comes_again_to_the_same_consumer_needs_a_reason() -> None:
    for reason, lies in (("none", {Lie.REPEATED}), ("nack", set()), ("abort", set())):
        story, consumer = consumed()
        if reason == "nack":
            story.nack(1)
        if reason == "abort":
            story.begin("x")
            story.ack(1, txn="x")
            story.end("x", TxnState.ABORTED, TxnState.ABORTED)
        story.show(consumer, "b")
        assert finished(story, *NAMES) == lies


def test_what_an_only_consumer_gives_back_comes_again_with_everything_behind_it() -> None:
    for is_shared, again, lies in (
        (False, ["b", "c"], set()),
        (False, ["a", "b", "c"], {Lie.REPEATED}),
        (True, ["b", "c"], {Lie.REPEATED}),
    ):
        story, consumer = consumed()
        consumer.is_shared = is_shared
        story.nack(1)
        story.show(consumer, *again)
        assert finished(story, *NAMES) == lies


def test_an_only_consumer_gets_entries_in_order() -> None:
    for is_shared, held, lies in ((False, False, {Lie.MISORDERED}), (True, False, set()), (False, True, set())):
        story = Story()
        for entry, name in enumerate(NAMES):
            story.send(name, entry)
        if held:
            story.begin("x")
            story.ack(0, txn="x")
            story.abort("x")
        story.show(story.open("sub", is_shared=is_shared), "b", "a", "c")
        assert finished(story, *NAMES) == lies


@pytest.mark.parametrize(
    ("last", "lies"), [("c", set()), ("b", {Lie.UNDELIVERED, Lie.REPEATED})], ids=["each one once", "one twice"]
)
def test_final_consumers_that_share_get_everything_together(last: str, lies: set[Lie]) -> None:
    story, _ = consumed()
    story.end_with("s", NAMES)
    for names in (["a", "b"], [last]):
        story.show(story.open("sub", is_shared=True, is_final=True), *names)
    assert story.lies() == lies


@pytest.mark.parametrize(("left", "wanted"), [(["a"], set()), ([], {Lie.ABORTED_ACK_LOST})])
def test_what_a_consumer_was_not_shown_is_not_taken_by_its_cumulative_acknowledgement(
    left: list[str], wanted: set[Enum]
) -> None:
    story, _ = consumed()
    story.begin("x")
    story.ack(0, txn="x")
    story.show(story.open("sub"), "b", "c")
    story.abort("x")
    story.ack(AckOf(at(2), True, since=at(1)))
    assert finished(story, *left) == wanted


def test_what_lies_before_it_and_was_acknowledged_by_others_is_well() -> None:
    story, _ = consumed()
    story.begin("x")
    story.ack(0, txn="x")
    story.show(story.open("sub"), "b", "c")
    story.commit("x")
    story.ack(AckOf(at(2), True, since=at(1)))
    assert finished(story) == set()
