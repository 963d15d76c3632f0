"""What is in work: when it comes again, by hand of the clock, and what is held back meanwhile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.client import Message, MessageId, Position
from controller.client.consumers.deadletters import DeadLetters, addressed, is_dead_letter_topic
from controller.client.consumers.messages import TopicMessage
from controller.client.consumers.redelivery import AT_ONCE, DELAY_MS_MAX, Agenda, RedeliveryBackoff
from controller.client.consumers.works import Came, Due, Works
from controller.client.errors import InvalidRequest

BACKOFF = RedeliveryBackoff(1_000, 8_000, 2.0)


def test_what_is_given_back_comes_again_later_each_time() -> None:
    assert [BACKOFF.delay_ms(times) for times in range(6)] == [1_000, 2_000, 4_000, 8_000, 8_000, 8_000]
    assert BACKOFF.delay_ms(1_000_000) == 8_000
    assert AT_ONCE.delay_ms(10) == 0


@pytest.mark.parametrize(
    ("first", "longest", "factor"),
    [(-1, 10, 2.0), (10, 9, 2.0), (1, DELAY_MS_MAX + 1, 2.0), (1, 2, 0.5), (1, 2, 101.0), (1, 2, float("nan"))],
)
def test_delays_that_cannot_be_are_refused(first: int, longest: int, factor: float) -> None:
    with pytest.raises(InvalidRequest):
        RedeliveryBackoff(first, longest, factor)


def test_given_back_is_due_when_its_time_has_come_and_not_before() -> None:
    works: Works[str] = Works(BACKOFF)
    works.begin("a", Came(1, 0), 100.0)
    works.give_back("a", 0, 100.0)
    assert works.next_s == 101.0
    assert works.due(100.9) == []
    assert "a" in works, "a copy that comes earlier is not handed out"
    assert works.due(101.0) == [Due("a", Came(1, 0))]
    assert "a" not in works
    assert works.next_s is None


def test_what_is_given_back_is_the_copy_that_came_last() -> None:
    works: Works[str] = Works(BACKOFF)
    works.begin("a", Came(1, 0), 100.0)
    works.came_again("a", Came(2, 1))
    works.acknowledge("a")
    works.not_acknowledged("a", 100.0)
    works.give_back("a", 0, 100.0)
    assert works.due(101.0) == [Due("a", Came(2, 1))]
    works.give_back("b", 0, 101.0)
    assert works.due(102.0) == [Due("b", None)], "nobody knows by what it came"


def test_what_takes_too_long_is_given_back_by_itself() -> None:
    works: Works[str] = Works(BACKOFF, timeout_ms=500, overdue=RedeliveryBackoff(100, 100))
    works.begin("a", Came(1, 3), 10.0)
    works.begin("b", Came(1, 0), 10.2)
    assert works.due(10.4) == []
    works.acknowledge("b")
    assert works.due(10.5) == [], "it waits as overdue messages do"
    assert works.due(10.6) == [Due("a", Came(1, 3))]
    assert works.next_s is None, "what is being acknowledged is not overdue"


def test_what_takes_too_long_comes_at_once_where_nothing_else_is_said() -> None:
    works: Works[str] = Works(BACKOFF, timeout_ms=500)
    works.begin("a", Came(1, 3), 10.0)
    assert works.due(10.5) == [Due("a", Came(1, 3))]


def test_what_could_not_be_acknowledged_is_in_work_again() -> None:
    works: Works[str] = Works(BACKOFF, timeout_ms=500)
    works.begin("a", Came(1, 0), 10.0)
    works.acknowledge("a")
    works.not_acknowledged("a", 20.0)
    assert works.next_s == 20.5
    works.forget("a")
    works.not_acknowledged("a", 30.0)
    assert "a" not in works, "it was settled otherwise"


def test_no_more_is_in_work_than_the_limit() -> None:
    works: Works[str] = Works(BACKOFF, in_work_max=2)
    works.begin("a", Came(1, 0), 0.0)
    seen = [works.room]
    works.begin("b", Came(1, 0), 0.0)
    seen.append(works.room)
    works.forget("a")
    seen.append(works.room)
    assert seen == [1, 0, 1]
    works.clear()
    assert len(works) == 0


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.none() | st.integers(0, 20)), max_size=60))
def test_an_agenda_says_what_a_sorted_list_says(steps: list[tuple[str, int | None]]) -> None:
    agenda: Agenda[str] = Agenda()
    expected: dict[str, int] = {}
    for key, due in steps:
        if due is None:
            assert agenda.drop(key) == (expected.pop(key, None) is not None)
        else:
            agenda.put(key, due)
            expected[key] = due
        assert agenda.next_s == min(expected.values(), default=None)
        assert len(agenda) == len(expected)
    taken = agenda.take(10)
    assert set(taken) == {key for key, due in expected.items() if due <= 10}
    assert [expected[key] for key in taken] == sorted(expected[key] for key in taken)
    assert agenda.take(20) is not None
    assert len(agenda) == 0


def test_a_dead_letter_came_again_too_often() -> None:
    policy = DeadLetters(3)
    assert [policy.takes(times) for times in (0, 3, 4)] == [False, False, True]
    assert DeadLetters(0).takes(1)
    with pytest.raises(InvalidRequest):
        DeadLetters(-1)
    with pytest.raises(InvalidRequest, match="non-persistent"):
        DeadLetters(0, "non-persistent://acme/sales/lost")


def test_dead_letters_have_a_topic_of_their_own() -> None:
    assert DeadLetters(3).topic_of("topic://acme/sales/orders") == "topic://acme/sales/orders-DLQ"
    assert DeadLetters(3, "lost").topic_of("topic://acme/sales/orders") == "topic://public/default/lost"
    assert is_dead_letter_topic("topic://acme/sales/orders-DLQ")
    assert not is_dead_letter_topic("topic://acme/sales/orders")


def test_a_dead_letter_says_where_it_comes_from() -> None:
    inner = Message(b"x", MessageId(Position(4, 2), 1), "s", {"colour": "red"}, key="k", event_ms=7)
    properties = addressed(TopicMessage("topic://acme/sales/orders", 3, inner), "billing")
    assert properties == {
        "colour": "red",
        "REAL_TOPIC": "topic://acme/sales/orders",
        "REAL_SUBSCRIPTION": "billing",
        "ORIGIN_MESSAGE_ID": "3@4:2/1",
    }
