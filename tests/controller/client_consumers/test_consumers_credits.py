"""Credits: one bound over all segments, whatever comes and goes, and nobody without any."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.client.errors import InvalidRequest
from controller.client.segment.credits import LEAST_BYTES, LEAST_ENTRIES, Allowance, Budget, Credit


def nothing() -> None:
    return


def granted(allowance: Allowance) -> Credit:
    credit = allowance.grant()
    assert credit is not None
    return credit


def test_a_single_segment_has_all_of_it() -> None:
    budget = Budget(100, 1 << 20)
    only = budget.join(nothing)
    assert granted(only) == (100, 1 << 20)
    assert only.grant() is None, "all of it is granted"


def test_what_was_taken_is_granted_again_when_it_is_worth_a_request() -> None:
    budget = Budget(100, 1 << 30)
    only = budget.join(nothing)
    granted(only)
    for _ in range(49):
        only.arrived(10)
        only.taken(1, 10)
        assert only.grant() is None
    only.arrived(10)
    only.taken(1, 10)
    assert granted(only) == (50, 500)


def test_large_entries_are_granted_by_their_bytes() -> None:
    budget = Budget(100, 1_000)
    only = budget.join(nothing)
    granted(only)
    only.arrived(1_500)
    assert only.grant() is None, "it holds more than it may"
    only.taken(1, 1_500)
    assert granted(only) == (1, 1_500)


def test_segments_share_and_the_bound_holds_however_many_there_are() -> None:
    budget = Budget(100, 100 * LEAST_BYTES)
    first = budget.join(nothing)
    granted(first)
    second = budget.join(nothing)
    assert granted(second) == (LEAST_ENTRIES, LEAST_BYTES), "the first has the rest"
    assert second.is_short
    assert budget.entries == 100 + LEAST_ENTRIES


def test_who_got_less_is_woken_when_there_is_room() -> None:
    woken: list[str] = []
    budget = Budget(100, 1 << 30)
    first = budget.join(lambda: woken.append("first"))
    granted(first)
    second = budget.join(lambda: woken.append("second"))
    granted(second)
    for _ in range(60):
        first.arrived(1)
    first.taken(60, 60)
    assert "second" in woken
    assert granted(second).entries == 50 - LEAST_ENTRIES, "its half"


def test_a_segment_that_rests_leaves_its_part_to_others() -> None:
    budget = Budget(100, 1 << 20)
    one, other = budget.join(nothing), budget.join(nothing)
    assert budget.share().entries == 50
    one.rest()
    assert budget.share().entries == 100
    one.arrived(10)
    assert budget.share().entries == 50, "something came all the same"
    other.leave()
    assert budget.share().entries == 100


def test_who_grants_nothing_is_full_at_his_part_and_always_takes_one() -> None:
    budget = Budget(2, 100)
    reader = budget.join(nothing)
    seen = [reader.is_full]
    reader.brought(1_000)
    seen.append(reader.is_full)
    reader.taken(1, 1_000)
    reader.brought(1)
    seen.append(reader.is_full)
    reader.brought(1)
    seen.append(reader.is_full)
    assert seen == [False, True, False, True]


def test_a_buffer_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="at least 1"):
        Budget(0, 1)
    with pytest.raises(InvalidRequest, match="at least 1"):
        Budget(1, 0)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_never_more_than_the_bound_and_the_least_of_each(data: st.DataObject) -> None:
    budget = Budget(data.draw(st.integers(1, 200)), data.draw(st.integers(1, 64 << 20)))
    members: list[Allowance] = []
    credits: dict[Allowance, list[int]] = {}
    held: dict[Allowance, list[int]] = {}
    for _ in range(data.draw(st.integers(1, 60))):
        step = data.draw(st.sampled_from(["join", "grant", "arrive", "take", "leave", "restart"]))
        if step == "join" or not members:
            member = budget.join(nothing)
            members.append(member)
            credits[member], held[member] = [0, 0], []
            continue
        member = data.draw(st.sampled_from(members))
        if step == "grant" and (credit := member.grant()) is not None:
            credits[member][0] += credit.entries
            credits[member][1] += credit.bytes
        elif step == "arrive" and credits[member][0] and credits[member][1] > 0:
            size = data.draw(st.integers(0, credits[member][1]))
            credits[member][0] -= 1
            credits[member][1] -= size
            held[member].append(size)
            member.arrived(size)
        elif step == "take" and held[member]:
            member.taken(1, held[member].pop(0))
        elif step == "leave":
            members.remove(member)
            member.leave()
        elif step == "restart":
            credits[member], held[member] = [0, 0], []
            member.restart()
        assert budget.entries == sum(credits[each][0] + len(held[each]) for each in members)
        assert budget.bytes == sum(credits[each][1] + sum(held[each]) for each in members)
        assert budget.entries <= budget.entries_max + len(credits) * LEAST_ENTRIES
        assert budget.bytes <= budget.bytes_max + len(credits) * LEAST_BYTES
    for member in members:
        if not held[member] and not credits[member][0]:
            assert member.grant() is not None, "nobody is left without any"
            assert member.grant() is None
