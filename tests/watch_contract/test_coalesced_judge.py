"""The judge for stores that may tell several changes as one: it accepts that, and no other liberty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.interface import ALL, BatchKind, Change, ChangeKind, Record, Version, WatchBatch
from shard_model.order import natural
from watch_contract.coalesced import check_coalesced
from watch_contract.lies import (
    changed_first,
    changed_record,
    first_is,
    has_one_change,
    has_previous,
    places,
    stores,
    tell_batch_again,
    with_batch,
)
from watch_contract.recorded import SEEDS, recorded_coalesced
from watch_contract.sightings import Event, Opened, Scope, Sighting, Told
from watch_contract.verdict import History, names_of, report
from watch_contract.violations import Lie
from watch_contract.writes import Answer, Fate, Operation, Put, Remove, Write

SPOILED = settings(max_examples=12, deadline=None, derandomize=True)

WAYS = {
    "a change is told again": (tell_batch_again, has_one_change, {Lie.REPEATED, Lie.WRONG_KIND}),
    "another value": (changed_record("record", value=b"other"), stores, {Lie.INVENTED}),
    "another previous value": (changed_record("previous", value=b"other"), has_previous, {Lie.WRONG_PREVIOUS}),
    "left for deleted": (changed_first(kind=ChangeKind.LEFT), first_is(ChangeKind.DELETED), {Lie.WRONG_KIND}),
    "deleted for modified": (changed_first(kind=ChangeKind.DELETED), first_is(ChangeKind.MODIFIED), {Lie.WRONG_KIND}),
}


def lies_of(history: History, watcher: Sighting, events: Sequence[Event]) -> set[Lie]:
    spoiled = replace(watcher, events=[*events])
    return {*names_of(check_coalesced(replace(history, watchers=[spoiled])))}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_good_coalesced_histories_are_accepted(seed: int) -> None:
    findings = check_coalesced(recorded_coalesced(seed))
    assert not findings.violations, report(findings)
    assert findings.counts["changes"] > 50


@pytest.mark.parametrize("name", WAYS)
def test_lies_are_found_in_coalesced_histories(name: str) -> None:
    spoil, fits, lies = WAYS[name]
    found = [
        (history, watcher, place)
        for history in map(recorded_coalesced, range(SEEDS))
        for watcher in history.watchers
        for place in places(watcher)
        if fits(watcher.events, place)
    ]
    assert found, "the histories have no place for this lie"

    @given(st.sampled_from(found))
    @SPOILED
    def check(chosen: tuple[History, Sighting, int]) -> None:
        history, watcher, place = chosen
        assert lies & lies_of(history, watcher, spoil(watcher.events, place))

    check()


def test_the_last_change_has_to_come() -> None:
    silenced = 0
    for history in map(recorded_coalesced, range(SEEDS)):
        for watcher in history.watchers:
            told = [*places(watcher)]
            if told and isinstance(watcher.events[-1], Told) and told[-1] == len(watcher.events) - 1:
                events = with_batch(watcher.events, told[-1], kind=BatchKind.PROGRESS, changes=())
                assert Lie.STARVED in lies_of(history, watcher, events)
                silenced += 1
    assert silenced, "the histories have no place for this lie"


# -- by hand: one record, put as 1, 2, removed, put as 3


Telling = tuple[ChangeKind, Record | None, Record | None]
"""A kind, the record, and the one before."""


def version(version_id: int, modifications: int) -> Version:
    return Version(version_id, modifications, 0, 0)


VERSIONS = [version(1, 0), version(2, 1), version(3, 0)]
RECORDS = [Record("k", b"%d" % each.version_id, each) for each in VERSIONS]
FIRST, SECOND, THIRD = RECORDS


def history_of(changes: Sequence[Telling]) -> History:
    """A watch from an empty range on that was told these changes: kind, record, previous."""
    operations: list[tuple[Operation, Answer]] = [
        (Put("k", b"1"), VERSIONS[0]),
        (Put("k", b"2"), VERSIONS[1]),
        (Remove("k"), True),
        (Put("k", b"3"), VERSIONS[2]),
    ]
    writes = [
        Write(number, "w", 0, (operation,), 10 * number, 10 * number + 1, Fate.DONE, (answer,))
        for number, (operation, answer) in enumerate(operations)
    ]
    scope = Scope(ALL, previous_values=True)
    batches = [
        WatchBatch(BatchKind.SNAPSHOT_BEGIN),
        WatchBatch(BatchKind.SNAPSHOT_END, token="0"),
        *(
            WatchBatch(BatchKind.CHANGES, (), (Change(kind, "k", record, previous, 0, number, 0),), f"{number}")
            for number, (kind, record, previous) in enumerate(changes, 1)
        ),
    ]
    watcher = Sighting("by hand", scope, [Opened(0), *(Told(5, batch) for batch in batches)])
    return History(1, natural, writes, Sighting("nobody", scope), [watcher], [THIRD])


CREATED, MODIFIED, DELETED = ChangeKind.CREATED, ChangeKind.MODIFIED, ChangeKind.DELETED
ALLOWED: dict[str, list[Telling]] = {
    "every change": [
        (CREATED, FIRST, None),
        (MODIFIED, SECOND, FIRST),
        (DELETED, None, SECOND),
        (CREATED, THIRD, None),
    ],
    "only the last": [(CREATED, THIRD, None)],
    "over the removal": [(CREATED, FIRST, None), (MODIFIED, THIRD, FIRST)],
    "from the removal on": [(CREATED, SECOND, None), (DELETED, None, SECOND), (CREATED, THIRD, None)],
    "the removal, of what was told": [(CREATED, FIRST, None), (DELETED, None, FIRST), (CREATED, THIRD, None)],
}
FORBIDDEN: dict[str, tuple[list[Telling], Lie]] = {
    "nothing": ([], Lie.STARVED),
    "all but the last": ([(CREATED, FIRST, None), (MODIFIED, SECOND, FIRST)], Lie.STARVED),
    "the removal last": ([(CREATED, FIRST, None), (DELETED, None, FIRST)], Lie.STARVED),
    "backwards": ([(CREATED, SECOND, None), (MODIFIED, FIRST, SECOND), (MODIFIED, THIRD, FIRST)], Lie.REPEATED),
    "twice": ([(CREATED, THIRD, None), (MODIFIED, THIRD, THIRD)], Lie.REPEATED),
    "a second removal": ([(DELETED, None, SECOND), (DELETED, None, SECOND), (CREATED, THIRD, None)], Lie.REPEATED),
    "created where it was": ([(CREATED, FIRST, None), (CREATED, SECOND, None)], Lie.WRONG_KIND),
    "a previous one that came later": ([(CREATED, FIRST, None), (MODIFIED, SECOND, THIRD)], Lie.WRONG_PREVIOUS),
    "entered a range of keys": ([(ChangeKind.ENTERED, None, None)], Lie.WRONG_KIND),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_changes_may_be_told_as_one(name: str) -> None:
    findings = check_coalesced(history_of(ALLOWED[name]))
    assert not findings.violations, report(findings)


@pytest.mark.parametrize("name", FORBIDDEN)
def test_nothing_else_may_be_done_with_them(name: str) -> None:
    changes, lie = FORBIDDEN[name]
    assert lie in names_of(check_coalesced(history_of(changes)))
