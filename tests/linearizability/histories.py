"""Histories made for the tests of the search, and a search that is too simple to be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations, permutations

from hypothesis import strategies as st

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
from linearizability.register import Impossible, State, after

KEY = b"k"
STEP = 10
"""The moments at which operations really happen lie so far apart."""


class RealRegister:
    """A register that simply does what it is told."""

    def __init__(self) -> None:
        self.record: Found | None = None
        self.versions_given = 0

    def do(self, action: Action) -> Answer:
        if isinstance(action, Get):
            return self.record or Missing()
        if isinstance(action, Delete) and self.record is None:
            return Missing() if action.expected in (None, NO_RECORD) else Conflict()
        version_id = NO_RECORD if self.record is None else self.record.version_id
        if action.expected not in (None, version_id):
            return Conflict()
        if isinstance(action, Delete):
            self.record = None
            return Deleted()
        count = 0 if self.record is None else self.record.modifications_count + 1
        self.record = Found(action.value, self.versions_given, count)
        self.versions_given += 1
        return Stored(self.record.version_id, count)


@st.composite
def real_histories(draw: st.DrawFn, max_size: int = 30) -> list[Operation]:
    """What a correct register lets its clients see: overlapping calls, some of them without an answer."""
    register, history = RealRegister(), []
    size = draw(st.integers(1, max_size))
    for number in range(size):
        expected = draw(st.sampled_from([None, None, NO_RECORD, register.versions_given - 1, 0]))
        value = b"%d" % number
        actions: list[Action] = [Get(), Put(value, expected), Put(value, expected), Delete(expected)]
        action = draw(st.sampled_from(actions))
        invoked = STEP * number - draw(st.integers(0, 4 * STEP))
        fate = draw(st.sampled_from(["answered"] * 6 + ["unanswered", "never"]))
        if fate == "never":
            history.append(Operation(number, KEY, action, invoked))
            continue
        answer = register.do(action)
        if fate == "unanswered":
            history.append(Operation(number, KEY, action, invoked))
        else:
            returned = STEP * number + draw(st.integers(0, 4 * STEP))
            history.append(Operation(number, KEY, action, invoked, returned, answer))
    return history


@st.composite
def spoiled_histories(draw: st.DrawFn, max_size: int = 6) -> list[Operation]:
    """Small histories with some answers exchanged, changed or moved: many of them are impossible."""
    history = draw(real_histories(max_size))
    answered = [place for place, operation in enumerate(history) if operation.answer is not None]
    for place in draw(st.lists(st.sampled_from(answered), min_size=1, max_size=2)) if answered else ():
        history[place] = draw(st.sampled_from([*ways_to_spoil(history[place])]))
    return history


def ways_to_spoil(operation: Operation) -> Sequence[Operation]:
    answer, returned = operation.answer, operation.returned
    assert returned is not None
    changed: list[Answer] = [Conflict(), Missing()]
    if isinstance(answer, Stored | Found):
        changed.append(replace(answer, version_id=answer.version_id + 1))
        changed.append(replace(answer, modifications_count=answer.modifications_count + 1))
    if isinstance(answer, Found):
        changed.append(replace(answer, value=b"0"))
    later = replace(operation, invoked=returned + 2 * STEP, returned=returned + 3 * STEP)
    return [later, *(replace(operation, answer=other) for other in changed)]


def has_an_order(history: Sequence[Operation]) -> bool:
    """Tries every order of the answered operations and of any of the others."""
    answered = [operation for operation in history if operation.answer is not None]
    unanswered = [operation for operation in history if operation.answer is None]
    some = chain.from_iterable(combinations(unanswered, size) for size in range(len(unanswered) + 1))
    return any(explains(order) for extra in some for order in permutations([*answered, *extra]))


def explains(order: Sequence[Operation]) -> bool:
    """Whether a register gives these answers in this order, and every answer precedes the later calls."""
    for place, operation in enumerate(order):
        if any(later.returned is not None and later.returned < operation.invoked for later in order[place:]):
            return False
    state: State = None
    try:
        for operation in order:
            state = after(state, operation.action, operation.answer)
    except Impossible:
        return False
    return True
