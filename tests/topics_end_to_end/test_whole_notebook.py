"""What the notebook of whole runs says is found by the judges: each lie is told once here, and has to be seen."""

from __future__ import annotations

import pickle
from enum import Enum

import pytest

from controller.client import MessageId, TopicMessageId, TopicSent
from topics_end_to_end.whole_evidence import Evidence, judge
from topics_end_to_end.whole_notebook import Notebook, place_of
from topics_end_to_end.whole_rest import judge_dead_letters, judge_rework
from topics_simulation.topic_checker import check_topics
from topics_simulation.topic_lies import TopicLie
from topics_simulation.topic_notes import Part, Reading, Shape
from txn.model.header import TxnState
from txn.model.position import Position
from txn_histories.violations import Lie

TOPIC, KEY, SUBSCRIPTION = "topic://public/default/orders", "k", "billing"
SEGMENT = "segment://public/default/orders/0000-ffff-0"


def noted(count: int = 3) -> Notebook:
    """A topic with one segment, and so many messages in one batch that were sent, one by one."""
    book = Notebook()
    book.topics.shapes.append(Shape(book.tick(), TOPIC, 0, {0: Part(0, SEGMENT, 0, 0xFFFF, True)}))
    book.subscribed(TOPIC, SUBSCRIPTION, Reading.STREAM)
    for number in range(count):
        attempt = book.attempt(book.want_keyed(TOPIC, KEY, "one", number))
        book.sent(attempt, TopicSent(number, TopicMessageId(0, Position(3, 0), number)))
    return book


def shown(book: Notebook, source: str, numbers: list[int], *, is_acknowledged: bool = True) -> None:
    for number in numbers:
        id, name = MessageId(Position(3, 0), number), f"m{number + 1}"
        at = book.show(source, SEGMENT, id, name, topic=TOPIC, subscription=SUBSCRIPTION)
        if is_acknowledged:
            book.acknowledged([book.acknowledge(TOPIC, SEGMENT, SUBSCRIPTION, {at: name})])


def lies(book: Notebook, read: list[int]) -> set[Enum]:
    """What is found, if that can be read in the end."""
    book.look("final", SEGMENT)
    for number in read:
        id = MessageId(Position(3, 0), number)
        book.show("final", SEGMENT, id, f"m{number + 1}", topic=TOPIC, subscription=None, is_final=True)
    return set(check_topics(book.judged()).lies)


def test_what_is_as_it_should_be_has_no_lie() -> None:
    book = noted()
    shown(book, "a", [0, 1, 2])
    assert not book.missing((TOPIC, SUBSCRIPTION))
    assert lies(book, [0, 1, 2]) == set()


@pytest.mark.parametrize(
    ("first", "again", "read", "lie"),
    [
        ([0, 1, 2], [], [0, 1], Lie.LOST_WRITE),
        ([0, 1], [], [0, 1, 2], TopicLie.LOST_MESSAGE),
        ([0, 1, 2], [1], [0, 1, 2], Lie.ACK_REDELIVERED),
        ([0, 2, 1], [], [0, 1, 2], TopicLie.MISORDERED_DELIVERY),
        ([0, 1, 2, 3], [], [0, 1, 2, 3], Lie.INVENTED),
    ],
)
def test_each_lie_is_found(first: list[int], again: list[int], read: list[int], lie: Enum) -> None:
    book = noted()
    shown(book, "a", first)
    shown(book, "b", again)
    assert lie in lies(book, read)


def test_notes_are_stored_and_judged_again_with_the_same_verdict() -> None:
    book = noted()
    shown(book, "a", [0, 2, 1])
    looked = Evidence(book, [], {}, None)
    found, again = judge(looked), judge(pickle.loads(pickle.dumps(looked.at_rest())))
    assert TopicLie.MISORDERED_DELIVERY in found.lies
    assert again.violations == found.violations
    assert again.counts == found.counts
    with pytest.raises(AssertionError, match="a run that is over"):
        looked.at_rest().book.attempt(book.topics.written[0])


def test_what_is_doubted_may_be_done_or_come_again() -> None:
    book = noted(1)
    shown(book, "a", [0], is_acknowledged=False)
    assert book.missing((TOPIC, SUBSCRIPTION)) == {"m1"}
    book.doubted([book.acknowledge(TOPIC, SEGMENT, SUBSCRIPTION, {place_of(MessageId(Position(3, 0))): "m1"})])
    assert not book.missing((TOPIC, SUBSCRIPTION))
    shown(book, "b", [0])
    assert lies(book, [0]) == set()


def test_a_seek_makes_everything_due_again() -> None:
    book = noted(1)
    shown(book, "a", [0])
    book.forget_acks((TOPIC, SUBSCRIPTION))
    assert book.missing((TOPIC, SUBSCRIPTION)) == {"m1"}
    shown(book, "b", [0])
    assert lies(book, [0]) == set()


def test_work_is_done_once() -> None:
    history = noted().judged()
    read = {TOPIC: ["m1", "m2", "m3"]}
    origins = {"o1": "m1", "o2": "m2", "o3": "m3", "again": "m3"}
    assert judge_rework(history, read, TOPIC, ["o1", "o2", "o3"], origins) == []
    assert judge_rework(history, read, TOPIC, ["o1", "o2"], origins) == ["m3 was not worked on"]
    assert judge_rework(history, read, TOPIC, ["o1", "o2", "o3", "again"], origins) == ["m3 was worked on 2 times"]
    read = {TOPIC: ["m1", "m2"]}
    assert judge_rework(history, read, TOPIC, ["o1", "o2", "o3"], origins) == ["m3 was worked on, and is not there"]


def test_dead_letters_are_there_once() -> None:
    assert judge_dead_letters(["m1", "m2"], ["m1"]) == []
    assert judge_dead_letters(["m1", "m1"], ["m1"]) == ["m1 is 2 times among the dead letters"]
    assert judge_dead_letters([], ["m1"]) == ["m1 is not among the dead letters"]


def test_the_trail_of_a_message_has_who_was_shown_it_and_who_acknowledged_it_and_what_became_of_that() -> None:
    book = noted()
    shown(book, "a", [0])
    shown(book, "a", [1], is_acknowledged=False)
    at = place_of(MessageId(Position(3, 0), 1))
    book.acknowledge(TOPIC, SEGMENT, SUBSCRIPTION, {at: "m2"}, "md_0_1")
    book.ended("md_0_1", TxnState.ABORTED, book.tick(), None)
    first, other = (book.trail((TOPIC, SUBSCRIPTION), each).splitlines() for each in ("m1", "m2"))
    assert [each.split("(")[0].split()[0] for each in first[1:]] == ["sighting-0", "AckCall"]
    assert [each.split("(")[0].split()[0] for each in other[1:]] == ["sighting-0", "AckCall", "Ending"]
