"""The search accepts what can have happened and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from linearizability.histories import KEY, has_an_order, real_histories, spoiled_histories
from linearizability.operations import (
    NO_RECORD,
    Action,
    Answer,
    Conflict,
    Delete,
    Deleted,
    Found,
    Get,
    Missing,
    Operation,
    Put,
    Stored,
)
from linearizability.report import violations
from linearizability.search import Search, SearchTooLarge
from linearizability.versions import wrong_version_ids

Call = tuple[int, int | None, Action, Answer | None]


def history(*calls: Call) -> list[Operation]:
    return [
        Operation(client, KEY, action, invoked, returned, answer)
        for client, (invoked, returned, action, answer) in enumerate(calls)
    ]


POSSIBLE = {
    "one after the other": history(
        (0, 1, Get(), Missing()),
        (2, 3, Put(b"a", NO_RECORD), Stored(0, 0)),
        (4, 5, Put(b"b", 0), Stored(1, 1)),
        (6, 7, Get(), Found(b"b", 1, 1)),
        (8, 9, Delete(1), Deleted()),
        (10, 11, Delete(), Missing()),
        (12, 13, Put(b"c"), Stored(2, 0)),
    ),
    "an overlapping get sees the new value before the put returns": history(
        (0, 9, Put(b"a"), Stored(0, 0)), (1, 2, Get(), Found(b"a", 0, 0))
    ),
    "an overlapping get does not yet see the new value": history(
        (0, 9, Put(b"a"), Stored(0, 0)), (1, 8, Get(), Missing())
    ),
    "of two conditional puts at once one wins": history(
        (0, 9, Put(b"a", NO_RECORD), Conflict()), (1, 8, Put(b"b", NO_RECORD), Stored(0, 0))
    ),
    "an unanswered put has happened": history(
        (0, None, Put(b"a"), None), (5, 6, Get(), Missing()), (7, 8, Get(), Found(b"a", 0, 0))
    ),
    "an unanswered put has never happened": history((0, None, Put(b"a"), None), (5, 6, Get(), Missing())),
    "an unanswered put shows in the count only": history((0, None, Put(b"a"), None), (5, 6, Put(b"b"), Stored(1, 1))),
    "an unanswered delete has happened": history(
        (0, 1, Put(b"a"), Stored(0, 0)), (2, None, Delete(0), None), (9, 10, Put(b"b"), Stored(1, 0))
    ),
    "a conflict with an unanswered put": history(
        (0, 1, Put(b"a"), Stored(0, 0)), (2, None, Put(b"b"), None), (3, 4, Put(b"c", 0), Conflict())
    ),
    "returns and calls of the same moment overlap": history((0, 5, Put(b"a"), Stored(0, 0)), (5, 6, Get(), Missing())),
}

IMPOSSIBLE = {
    "a stale read": history(
        (0, 1, Put(b"a"), Stored(0, 0)), (2, 3, Put(b"b"), Stored(1, 1)), (4, 5, Get(), Found(b"a", 0, 0))
    ),
    "a lost update": history(
        (0, 1, Put(b"a", NO_RECORD), Stored(0, 0)),
        (2, 9, Put(b"b", 0), Stored(1, 1)),
        (3, 8, Put(b"c", 0), Stored(2, 1)),
    ),
    "a lost write": history((0, 1, Put(b"a"), Stored(0, 0)), (2, 3, Get(), Missing())),
    "a record that comes back after its deletion": history(
        (0, 1, Put(b"a"), Stored(0, 0)), (2, 3, Delete(), Deleted()), (4, 5, Get(), Found(b"a", 0, 0))
    ),
    "a value that was never written": history(
        (0, 1, Put(b"a"), Stored(0, 0)), (2, 3, Get(), Found(b"x", 0, 0))
    ),
    "a version id that the write did not get": history(
        (0, 1, Put(b"a"), Stored(0, 0)), (2, 3, Get(), Found(b"a", 7, 0))
    ),
    "a modification that was counted twice": history(
        (0, 1, Put(b"a"), Stored(0, 0)), (2, 3, Put(b"b"), Stored(1, 2))
    ),
    "two gets see a put and then not": history(
        (0, 9, Put(b"a"), Stored(0, 0)), (1, 2, Get(), Found(b"a", 0, 0)), (3, 4, Get(), Missing())
    ),
    "a conflict without a rival": history((0, 1, Put(b"a", NO_RECORD), Conflict())),
    "an unanswered put is seen before it was called": history(
        (5, None, Put(b"a"), None), (0, 1, Get(), Found(b"a", 0, 0))
    ),
    "an unanswered put is seen with two version ids": history(
        (0, None, Put(b"a"), None), (1, 2, Get(), Found(b"a", 0, 0)), (3, 4, Get(), Found(b"a", 1, 0))
    ),
    "an unanswered put happens twice": history(
        (0, None, Put(b"a"), None), (1, 2, Get(), Found(b"a", 0, 0)), (3, 4, Delete(), Deleted()),
        (5, 6, Get(), Found(b"a", 0, 0)),
    ),
    "a delete finds nothing where a record is": history(
        (0, 1, Put(b"a"), Stored(0, 0)), (2, 3, Delete(), Missing())
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", POSSIBLE)
def test_possible_histories_are_accepted(name: str) -> None:
    assert violations(POSSIBLE[name]) == []


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_histories_are_rejected(name: str) -> None:
    assert len(violations(IMPOSSIBLE[name])) == 1


@given(real_histories(max_size=40))
@settings(deadline=None)
def test_what_a_real_register_answers_is_accepted(recorded: list[Operation]) -> None:
    assert violations(recorded) == []
    assert wrong_version_ids(recorded) == []


@given(spoiled_histories())
@settings(max_examples=300, deadline=None)
def test_the_search_agrees_with_trying_every_order(recorded: list[Operation]) -> None:
    assert Search(recorded).run().linearizable == has_an_order(recorded)


@given(spoiled_histories())
@settings(max_examples=100, deadline=None)
def test_the_order_found_explains_the_answers(recorded: list[Operation]) -> None:
    result = Search(recorded).run()
    assert has_an_order(result.order)
    answered = sum(operation.answer is not None for operation in recorded)
    assert sum(operation.answer is not None for operation in result.order) + len(result.remaining) == answered


def test_a_long_history_is_searched_without_backtracking_over_all_of_it() -> None:
    calls: list[Call] = []
    for number in range(3000):
        calls.append((10 * number, 10 * number + 15, Put(b"%d" % number), Stored(number, number)))
    assert violations(history(*calls)) == []


def test_keys_are_independent() -> None:
    good = [Operation(0, b"good", Get(), 0, 1, Missing())]
    (violation,) = violations([*good, *IMPOSSIBLE["a stale read"]])
    assert violation.key == KEY


def test_the_report_names_the_answer_that_made_it_impossible() -> None:
    stale = IMPOSSIBLE["a stale read"]
    later = history((20, 21, Put(b"z"), Stored(9, 2)), (22, 23, Get(), Found(b"z", 9, 2)))
    (violation,) = violations([*stale, *later])
    assert list(violation.before) == stale[:2]
    assert list(violation.window) == stale[2:]
    assert "Found(value=b'a', version_id=0, modifications_count=0)" in str(violation)


def test_the_bound_of_the_search_is_an_error_and_no_verdict() -> None:
    puts: list[Call] = [(0, None, Put(b"%d" % number), None) for number in range(12)]
    with pytest.raises(SearchTooLarge):
        violations(history(*puts, (1, 2, Get(), Found(b"x", 0, 99))), max_configurations=1000)


def test_version_ids_are_unique_over_all_keys() -> None:
    twice = [
        Operation(0, b"a", Put(b"1"), 0, 1, Stored(5, 0)),
        Operation(1, b"b", Put(b"2"), 0, 1, Stored(5, 0)),
    ]
    assert len(wrong_version_ids(twice)) == 1
    read = Operation(2, b"b", Get(), 2, 3, Found(b"2", 5, 0))
    assert len(wrong_version_ids([twice[0], read])) == 1


def test_version_ids_never_go_back() -> None:
    first = Operation(0, b"a", Put(b"1"), 0, 1, Stored(5, 0))
    overlapping = Operation(1, b"b", Put(b"2"), 1, 3, Stored(4, 0))
    later = Operation(1, b"c", Put(b"3"), 2, 3, Stored(3, 0))
    assert wrong_version_ids([first, overlapping]) == []
    assert len(wrong_version_ids([first, later])) == 1
