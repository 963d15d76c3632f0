"""A versioned register: what it holds after an operation, or that it cannot have answered so."""

from __future__ import annotations

from dataclasses import dataclass

from linearizability.operations import (
    NO_RECORD,
    Action,
    Answer,
    Conflict,
    Delete,
    Found,
    Get,
    Missing,
    Put,
    Stored,
)


@dataclass(frozen=True)
class Record:
    """What the register holds; a put without an answer leaves a version id that nobody knows yet."""

    value: bytes
    version_id: int | None
    modifications_count: int


State = Record | None


class Impossible(Exception):
    """The register would not have answered so."""


def after(state: State, action: Action, answer: Answer | None) -> State:
    """The state after an operation; without an answer, the one after it has taken effect."""
    if isinstance(action, Get):
        return after_get(state, answer)
    if isinstance(action, Put):
        return after_put(state, action, answer)
    return after_delete(state, action, answer)


def after_get(state: State, answer: Answer | None) -> State:
    if isinstance(answer, Found):
        if state is None or state.value != answer.value:
            raise Impossible
        if state.modifications_count != answer.modifications_count:
            raise Impossible
        if state.version_id not in (None, answer.version_id):
            raise Impossible
        return Record(answer.value, answer.version_id, answer.modifications_count)
    if state is not None and isinstance(answer, Missing):
        raise Impossible
    return state


def after_put(state: State, put: Put, answer: Answer | None) -> State:
    if isinstance(answer, Conflict):
        return after_conflict(state, put.expected)
    if not may_be(state, put.expected):
        raise Impossible
    count = 0 if state is None else state.modifications_count + 1
    if answer is None:
        return Record(put.value, None, count)
    if not isinstance(answer, Stored) or answer.modifications_count != count:
        raise Impossible
    return Record(put.value, answer.version_id, count)


def after_delete(state: State, delete: Delete, answer: Answer | None) -> State:
    if isinstance(answer, Missing):
        if state is not None or delete.expected not in (None, NO_RECORD):
            raise Impossible
        return None
    if isinstance(answer, Conflict):
        if state is None and delete.expected not in (None, NO_RECORD):
            return None
        return after_conflict(state, delete.expected)
    if state is None or not may_be(state, delete.expected):
        raise Impossible
    return None


def after_conflict(state: State, expected: int | None) -> State:
    """Nothing has changed; the state must be able to differ from the expected one."""
    is_it = state is None and expected == NO_RECORD
    has_it = state is not None and state.version_id is not None and state.version_id == expected
    if expected is None or is_it or has_it:
        raise Impossible
    return state


def may_be(state: State, expected: int | None) -> bool:
    """Whether a condition can hold in a state; an unknown version id may be any."""
    if expected is None:
        return True
    if state is None or expected == NO_RECORD:
        return state is None and expected == NO_RECORD
    return state.version_id in (None, expected)
