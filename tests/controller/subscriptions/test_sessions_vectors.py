"""Divisions, as recorded where they should be (V6), and as they are better here (H5)."""

from __future__ import annotations

from typing import Any

import pytest
from sessions_stage import STREAM, ids, shown

from controller.assignment import servable
from controller.layout import Layout
from controller.subscriptions import Group, Sessions, Strategy, SubscriptionRecord
from support.vectors import cases, changed


class Theirs:
    """A recorded coordinator, played on the values that are the heart of ours."""

    def __init__(self, case: dict[str, Any]) -> None:
        start = case["start"]
        layout = Layout.initial(start["segments"], 0, bucket_budget=start["budget"])
        self.is_gated = case["gated"]
        self.drained: set[int] = set()
        self.sessions = Sessions()
        self.group = Group.restored(SubscriptionRecord(STREAM, 0, {}), (), layout, ())

    def take(self, event: list[Any]) -> set[str]:
        """Does what happened; who came, or came back."""
        arrivals: set[str] = set()
        layout = self.group.layout
        match event:
            case ["restore", names]:
                self.sessions = Sessions({**Sessions.restored(names, 1.0).by_name, **self.sessions.by_name})
            case ["register", name, connection]:
                self.sessions = self.sessions.connected(name, connection)
                arrivals = {name}
            case ["unregister", name]:
                self.sessions = Sessions({each: s for each, s in self.sessions.by_name.items() if each != name})
            case ["disconnect", name]:
                session = self.sessions.by_name.get(name)
                if session is not None and session.connection is not None:
                    self.sessions = self.sessions.disconnected(name, session.connection, 1.0)
            case ["graceExpired", names]:
                self.sessions = Sessions({n: s for n, s in self.sessions.by_name.items() if n not in names})
            case ["layout", operation]:
                layout = changed(layout, [operation])
            case ["poll", drained]:
                self.drained |= set(drained)
            case ["installChecker"]:
                self.is_gated = True
        self.group = self.group.regrouped(self.sessions.names, layout, self.drained, Strategy.ROUND_ROBIN)
        return arrivals

    @property
    def divides_the_same(self) -> bool:
        """Whether the rules coincide: theirs has drained segments too, and gates only active ones, if at all."""
        layout = self.group.layout
        theirs = {
            segment.segment_id
            for segment in layout.segments.values()
            if not segment.is_active or not self.is_gated or set(segment.parents) <= self.drained
        }
        return theirs == {segment.segment_id for segment in servable(layout, self.drained)}


def test_divisions_and_pushes_are_as_recorded_where_the_rules_coincide() -> None:
    """Two differences. Segments that are drained, or behind some that are not, are not divided (H5). And who has what
    he had is told nothing: of their pushes ours are those to whoever came, or has something else than before.
    """
    compared = pushes = skipped = 0
    for case in cases("head-coordinator"):
        ours = Theirs(case)
        before: dict[str, Any] = {}
        did_coincide = True
        for step in case["steps"]:
            earlier = ours.group
            arrivals = ours.take(step["event"])
            theirs = {name: shares for name, shares in step["assignment"]}
            if ours.divides_the_same:
                compared += 1
                assert shown(ours.group.assignment) == theirs, step
                assert ours.group.layout.epoch == step["epoch"]
                assert sum(not each.is_connected for each in ours.sessions.by_name.values()) == step["graceTimers"]
                if did_coincide and step["event"][0] != "restore":  # before that there is nobody to be told
                    connected = {name for name, each in ours.sessions.by_name.items() if each.is_connected}
                    told = (ours.group.differing(earlier) | arrivals) & connected
                    wanted = {push[0] for push in step["pushed"]}
                    pushes += len(told)
                    assert told == {name for name in wanted if name in arrivals or before.get(name) != theirs[name]}
            else:
                skipped += 1
            did_coincide = ours.divides_the_same
            before = theirs
    assert (compared, pushes, skipped) == (417, 285, 560)


def divided(layout: Layout, members: list[str], drained: list[int] | None = None) -> dict[str, list[Any]]:
    empty = Group.restored(SubscriptionRecord(STREAM, 0, {}), (), layout, ())
    return shown(empty.regrouped(members, layout, drained or [], Strategy.ROUND_ROBIN).assignment)


def members(count: int) -> list[str]:
    return [f"c{number}" for number in range(1, count + 1)]


QUARTERS = [[0, 0x3FFF], [0x4000, 0x7FFF], [0x8000, 0xBFFF], [0xC000, 0xFFFF]]
HALVES = [[0, 0x7FFF], [0x8000, 0xFFFF]]
FOUR = Layout.initial(4, 0)
SPLIT = FOUR.split(0, 1)
ONE = Layout.initial(1, 0)
ONE_SPLIT = ONE.split(0, 1)
TWO_SHARED = Layout.initial(2, 0)


@pytest.mark.parametrize(
    ("layout", "drained", "count", "expected"),
    [
        (FOUR, [], 1, [[0, 1, 2, 3]]),
        (FOUR, [], 2, [[0, 2], [1, 3]]),
        (FOUR, [], 3, [[0, 3], [1], [2]]),
        (FOUR, [], 4, [[0], [1], [2], [3]]),
        (FOUR, [], 5, [[0], [1], [2], [3], []]),
        (SPLIT, [], 1, [[0, 1, 2, 3]]),
        (SPLIT, [], 2, [[0, 2], [1, 3]]),
        # Drained: Pulsar still divides segment 0 among them (H5), and so has [4,0,5,1,2,3] and c1 4,5,2 c2 0,1,3.
        (SPLIT, [0], 1, [[4, 5, 1, 2, 3]]),
        (SPLIT, [0], 2, [[4, 1, 3], [5, 2]]),
        (SPLIT, [0], 3, [[4, 2], [5, 3], [1]]),
        (SPLIT.prune([0]), [], 2, [[4, 1, 3], [5, 2]]),
        (ONE, [], 1, [[0]]),
        (ONE, [], 2, [[[0, QUARTERS]], [[0, QUARTERS]]]),
        (ONE, [], 5, [[[0, QUARTERS]]] * 4 + [[]]),
        (TWO_SHARED, [], 3, [[[0, HALVES]], [[0, HALVES]], [1]]),
        (TWO_SHARED, [], 4, [[[0, HALVES]], [[0, HALVES]], [[1, HALVES]], [[1, HALVES]]]),
        (TWO_SHARED, [], 5, [[[0, HALVES]], [[0, HALVES]], [[1, HALVES]], [[1, HALVES]], []]),
        (ONE_SPLIT, [], 2, [[[0, QUARTERS]], [[0, QUARTERS]]]),
        (ONE_SPLIT, [], 5, [[[0, QUARTERS]]] * 4 + [[]]),
        # Pulsar: c1 both children, c2 only the drained parent (H5).
        (ONE_SPLIT, [0], 2, [[1], [2]]),
        (ONE_SPLIT.prune([0]), [], 2, [[1], [2]]),
        (ONE_SPLIT.prune([0]), [], 3, [[[1, HALVES]], [[1, HALVES]], [2]]),
        (ONE_SPLIT.prune([0]), [], 5, [[[1, HALVES]], [[1, HALVES]], [[2, HALVES]], [[2, HALVES]], []]),
    ],
)
def test_divisions_by_turns(layout: Layout, drained: list[int], count: int, expected: list[Any]) -> None:
    assert divided(layout, members(count), drained) == dict(zip(members(count), expected, strict=True))


def test_names_are_in_the_order_of_their_letters() -> None:
    assert list(divided(Layout.initial(16, 0), members(10))) == sorted(members(10))


def test_the_same_names_give_the_same_division_everywhere() -> None:
    names = members(7)
    assert divided(FOUR, names) == divided(FOUR, names[::-1])


def test_h5_three_generations_are_read_in_their_order() -> None:
    """Pulsar gates only active segments: it would have 1 beside 0, its undrained parent."""
    layout = changed(ONE, [["split", 0, 1], ["split", 1, 2]])
    group = Group.restored(SubscriptionRecord(STREAM, 0, {}), (), layout, ())
    expected: list[tuple[list[int], list[int]]] = [([], [0]), ([0], [1, 2]), ([0, 1], [3, 4, 2]), ([0, 2], [1])]
    for drained, served in expected:
        group = group.regrouped(["c1"], layout, drained, Strategy.STICKY)
        assert ids(group.assignment) == {"c1": served}
    assert group.generation == len(expected)


def test_h5_what_is_drained_takes_nobodys_place() -> None:
    """Pulsar: one consumer owns both children, the other only the drained parent, until that is pruned."""
    layout = Layout.initial(1, 0, bucket_budget=1).split(0, 1)
    group = Group.restored(SubscriptionRecord(STREAM, 0, {}), (), layout, ())
    group = group.regrouped(["c1", "c2"], layout, [], Strategy.STICKY)
    assert ids(group.assignment) == {"c1": [0], "c2": []}
    group = group.regrouped(["c1", "c2"], layout, [0], Strategy.STICKY)
    assert ids(group.assignment) == {"c1": [1], "c2": [2]}
