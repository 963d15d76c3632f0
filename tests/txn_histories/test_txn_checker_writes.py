"""The checker finds what is wrong with writes, outcomes and readings: each fault by its name, and nothing else."""

from __future__ import annotations

import pytest

from txn.model.header import TxnState
from txn_histories.checker import check, report
from txn_histories.history import History
from txn_histories.made import Story, at
from txn_histories.notes import Fate
from txn_histories.violations import Lie

OPEN, COMMITTED, ABORTED = TxnState.OPEN, TxnState.COMMITTED, TxnState.ABORTED


def two_segments(*, commits: bool = True) -> Story:
    """A transaction with two entries in `s` and one in `t`, among plain ones."""
    story = Story()
    story.send("plain", 0)
    story.begin("x")
    story.send("s-1", 1, txn="x")
    story.send("t-1", 0, segment="t", txn="x")
    story.send("s-2", 2, txn="x")
    (story.commit if commits else story.abort)("x")
    return story


def test_a_history_of_nothing_is_well() -> None:
    assert check(History()).violations == []


def test_a_committed_transaction_that_is_seen_whole_is_well() -> None:
    story = two_segments()
    early = story.open()
    story.show(early, "plain", "s-1", "s-2")
    story.end_with("s", ["plain", "s-1", "s-2"])
    story.end_with("t", ["t-1"])
    findings = story.findings()
    assert findings.violations == []
    assert "1 committed" in report(findings)


def test_an_aborted_transaction_that_is_not_seen_is_well() -> None:
    story = two_segments(commits=False)
    story.end_with("s", ["plain"])
    story.end_with("t", [])
    assert story.lies() == set()


def test_an_aborted_read_is_found() -> None:
    story = two_segments(commits=False)
    story.show(story.open(segment="t"), "t-1")
    story.end_with("s", ["plain"])
    assert story.lies() == {Lie.ABORTED_READ}


def test_what_was_seen_before_the_commit_is_a_dirty_read() -> None:
    story = Story()
    story.begin("x")
    story.send("a", 0, txn="x")
    early = story.open()
    story.show(early, "a")
    story.commit("x")
    story.end_with("s", ["a"])
    assert story.lies() == {Lie.DIRTY_READ}


def test_what_was_seen_while_the_commit_was_under_way_is_not() -> None:
    story = Story()
    story.begin("x")
    story.send("a", 0, txn="x")
    early = story.open()
    story.end("x", COMMITTED, None)
    story.show(early, "a")
    story.commit("x")
    story.end_with("s", ["a"])
    assert story.lies() == set()


def test_what_was_seen_before_somebody_saw_the_transaction_open_is_a_dirty_read() -> None:
    """The commit was under way, but somebody looked later and it had not happened yet."""
    story = Story()
    story.begin("x")
    story.send("a", 0, txn="x")
    early = story.open()
    story.end("x", COMMITTED, None)
    story.show(early, "a")
    story.look("x", OPEN)
    story.commit("x")
    story.end_with("s", ["a"])
    assert story.lies() == {Lie.DIRTY_READ}


def test_a_transaction_of_which_one_segment_lacks_its_part_is_torn() -> None:
    story = two_segments()
    story.end_with("s", ["plain", "s-1", "s-2"])
    story.end_with("t", [])
    assert story.lies() == {Lie.TORN}


def test_a_transaction_of_which_one_entry_is_missing_is_torn() -> None:
    story = two_segments()
    story.end_with("s", ["plain", "s-2"])
    story.end_with("t", ["t-1"])
    assert story.lies() == {Lie.TORN}


def test_a_committed_transaction_that_is_not_there_at_all_is_lost() -> None:
    story = two_segments()
    story.end_with("s", ["plain"])
    story.end_with("t", [])
    assert story.lies() == {Lie.LOST_WRITE}


def test_a_transaction_with_an_unknown_outcome_is_there_as_a_whole_or_not_at_all() -> None:
    for shown, lies in ((["a", "b"], set()), ([], set()), (["b"], {Lie.TORN})):
        story = Story()
        story.begin("x")
        story.send("a", 0, txn="x")
        story.send("b", 1, txn="x")
        story.end("x", COMMITTED, None)
        story.end_with("s", shown)
        assert story.lies() == lies


def test_a_plain_message_that_is_not_there_is_lost_unless_it_was_trimmed() -> None:
    for before, lies in ((None, {Lie.LOST_WRITE}), (1, set())):
        story = Story()
        story.send("a", 0)
        story.send("b", 1)
        if before is not None:
            story.trim(before)
        story.end_with("s", ["b"])
        assert story.lies() == lies


def test_what_was_seen_and_is_gone_is_lost_though_nobody_was_told_of_it() -> None:
    story = Story()
    story.send("a", 0, fate=Fate.UNKNOWN)
    story.show(story.open(), "a")
    story.end_with("s", [])
    assert story.lies() == {Lie.LOST_WRITE}


@pytest.mark.parametrize("shown", [["a"], []])
def test_a_send_without_an_answer_may_have_happened_or_not(shown: list[str]) -> None:
    story = Story()
    story.send("a", 0, fate=Fate.UNKNOWN)
    story.end_with("s", shown)
    assert story.lies() == set()


def test_a_resend_that_was_written_again_is_a_duplicate() -> None:
    story = Story()
    story.send("a", 0, fate=Fate.UNKNOWN, number=1)
    story.send("a", 1, number=1)
    last = story.open(is_final=True)
    story.show(last, "a", entry=0)
    story.show(last, "a", entry=1)
    assert story.lies() == {Lie.DUPLICATED}


def test_a_number_of_a_producer_that_is_there_twice_is_a_duplicate() -> None:
    story = Story()
    story.send("a", 0, number=7)
    story.send("b", 1, number=7)
    story.end_with("s", ["a", "b"])
    assert story.lies() == {Lie.DUPLICATED}


def test_a_number_that_is_sent_again_after_an_abort_is_none() -> None:
    story = Story()
    story.begin("x")
    story.send("a", 0, txn="x", number=7)
    story.abort("x")
    story.begin("y")
    story.send("b", 1, txn="y", number=7)
    story.commit("y")
    story.end_with("s", ["b"])
    assert story.lies() == set()


def test_a_resend_that_is_recognised_is_well() -> None:
    story = Story()
    story.send("a", 0, fate=Fate.UNKNOWN, number=1)
    story.send("b", 1, number=2)
    story.send("a", 0, number=1, is_duplicate=True)
    story.end_with("s", ["a", "b"])
    assert story.lies() == set()


def test_messages_of_a_producer_in_another_order_than_sent_are_found() -> None:
    story = Story()
    first, second = story.send("a", 1), story.send("b", 0)
    assert first.invoked < second.invoked
    story.end_with("s", ["b", "a"])
    assert story.lies() == {Lie.MISORDERED}


def test_messages_of_different_producers_are_ordered_only_by_their_answers() -> None:
    for returned, lies in ((2, {Lie.MISORDERED}), (9, set())):
        story = Story()
        story.send("a", 1, producer="p")
        story.send("b", 0, producer="q")
        first, second = story.history.sends
        story.history.sends[0] = type(first)(
            first.message, "s", "p", 1, None, first.invoked, returned, Fate.DONE, first.position
        )
        story.end_with("s", ["b", "a"])
        assert second.invoked == 3
        assert story.lies() == lies


def test_a_refused_message_that_is_there_is_found() -> None:
    story = Story()
    story.send("a", 0, fate=Fate.REFUSED)
    story.end_with("s", ["a"])
    assert story.lies() == {Lie.REFUSED_WRITE}


def test_a_message_that_was_refused_and_sent_again_is_well() -> None:
    story = Story()
    story.send("a", fate=Fate.REFUSED, number=1)
    story.send("a", 0, number=1)
    story.end_with("s", ["a"])
    assert story.lies() == set()


def test_a_message_that_nobody_sent_is_found() -> None:
    story = Story()
    story.end_with("s", ["ghost"])
    assert story.lies() == {Lie.INVENTED}


def test_a_message_of_another_segment_is_found() -> None:
    story = Story()
    story.send("a", 0, segment="t")
    story.end_with("t", ["a"])
    story.end_with("s", ["a"])
    assert story.lies() == {Lie.INVENTED}


def test_what_a_later_owner_wrote_cannot_be_shown_by_an_earlier_one() -> None:
    for term, lies in ((1, {Lie.INVENTED}), (2, set())):
        story = Story()
        story.send("a", 0, ledger=2)
        deliveries = story.open(term=term)
        last = story.open(is_final=True)
        story.show(deliveries, "a")
        deliveries.deliveries[0] = type(deliveries.deliveries[0])(at(0, 2), "a", 8, 9)
        last.deliveries.extend(deliveries.deliveries)
        assert story.lies() == lies


def test_a_message_elsewhere_than_told_is_found() -> None:
    story = Story()
    story.send("a", 3)
    story.show(story.open(is_final=True), "a", entry=4)
    assert story.lies() == {Lie.MOVED}


def test_a_position_with_two_messages_is_found_though_one_was_never_seen() -> None:
    story = Story()
    story.begin("x")
    story.send("a", 0, txn="x")
    story.abort("x")
    story.send("b", 0)
    story.end_with("s", ["b"])
    assert Lie.POSITION_REUSED in story.lies()


def test_a_reader_that_was_not_shown_an_entry_is_found() -> None:
    story = two_segments()
    story.show(story.open(), "plain", "s-2")
    story.end_with("s", ["plain", "s-1", "s-2"])
    story.end_with("t", ["t-1"])
    assert story.lies() == {Lie.SKIPPED}


def test_a_final_reader_that_stops_before_the_end_is_found() -> None:
    story = two_segments()
    story.end_with("s", ["plain", "s-1", "s-2"])
    story.end_with("s", ["plain", "s-1"])
    story.end_with("t", ["t-1"])
    assert story.lies() == {Lie.SKIPPED}


def test_a_reader_may_begin_in_the_middle_and_stop_anywhere() -> None:
    story = two_segments()
    story.show(story.open(start=at(1)), "s-1")
    story.end_with("s", ["plain", "s-1", "s-2"])
    story.end_with("t", ["t-1"])
    assert story.lies() == set()


def test_an_entry_that_was_trimmed_may_be_left_out_from_then_on() -> None:
    for trims_first, lies in ((True, set()), (False, {Lie.SKIPPED})):
        story = Story()
        story.send("a", 0)
        story.send("b", 1)
        full = story.open(is_final=True)
        story.show(full, "a", "b")
        if trims_first:
            story.trim(1)
        story.show(story.open(), "b")
        if not trims_first:
            story.trim(1)
        assert story.lies() == lies


def test_readers_see_each_entry_once_and_in_order() -> None:
    for names, lie in ((["a", "a", "b"], Lie.REPEATED), (["b", "a"], Lie.MISORDERED)):
        story = Story()
        story.send("a", 0)
        story.send("b", 1)
        story.show(story.open(), *names)
        story.end_with("s", ["a", "b"])
        assert lie in story.lies()


def test_answers_that_contradict_each_other_are_found() -> None:
    story = Story()
    story.begin("x")
    story.commit("x")
    story.end("x", ABORTED, ABORTED)
    assert story.lies() == {Lie.OUTCOME_LIE}


def test_an_answer_that_the_header_contradicts_is_found() -> None:
    story = Story()
    story.begin("x")
    story.commit("x")
    story.history.rest.states["x"] = ABORTED
    assert story.lies() == {Lie.OUTCOME_LIE}


def test_a_commit_that_nobody_asked_for_is_found() -> None:
    story = Story()
    story.begin("x")
    story.look("x", COMMITTED)
    assert story.lies() == {Lie.OUTCOME_LIE}


def test_a_transaction_that_is_open_again_is_found() -> None:
    story = Story()
    story.begin("x")
    story.commit("x")
    story.look("x", OPEN)
    assert story.lies() == {Lie.OUTCOME_LIE}


def test_a_race_that_is_told_truly_to_both_is_well() -> None:
    story = Story()
    story.begin("x")
    story.end("x", ABORTED, COMMITTED)
    story.end("x", COMMITTED, COMMITTED)
    story.look("x", COMMITTED)
    story.history.rest.states["x"] = COMMITTED
    assert story.lies() == set()


def test_a_commit_behind_the_deadline_has_to_lose() -> None:
    for invoked_ms, lies in ((100, {Lie.DEADLINE_MISSED}), (99, set())):
        story = Story()
        story.begin("x", deadline_ms=100)
        story.end("x", COMMITTED, COMMITTED, invoked_ms=invoked_ms, returned_ms=invoked_ms)
        assert story.lies() == lies


def test_a_deadline_has_to_have_come() -> None:
    for returned_ms, lies in ((99, {Lie.DEADLINE_MISSED}), (100, set())):
        story = Story()
        story.begin("x", deadline_ms=100)
        story.end("x", COMMITTED, ABORTED, is_deadline=True, invoked_ms=99, returned_ms=returned_ms)
        assert story.lies() == lies


def test_what_stands_still_in_the_end_is_found() -> None:
    story = Story()
    story.history.rest.ends = {"s": (at(2), at(3)), "t": (at(3), at(3))}
    story.history.rest.states["x"] = OPEN
    story.history.rest.unanswered.append("a send")
    findings = story.findings()
    assert findings.lies == [Lie.STUCK] * 3


def test_what_is_left_in_the_end_is_found() -> None:
    story = Story()
    story.history.rest.leftovers.append("/txn-op/md_0_1/1")
    assert story.lies() == {Lie.LEFTOVER}
