"""Any sequence of calls on a segment's log, beside a model that is a list."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from segment_subjects import EVERYTHING, place, placed, read_all

from txn.model.position import Position
from txn.segment.errors import EntriesTrimmed, Fenced, SegmentSealed
from txn.segment.log import LogEntry

data = st.binary(max_size=120)
groups = st.lists(data, min_size=1, max_size=4)
positions = st.builds(Position, st.integers(0, 12), st.integers(0, 30))


class LogMachine(RuleBasedStateMachine):
    """The model: everything ever confirmed, from which reads take what is not trimmed."""

    subject: str

    @initialize()
    def open_first(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.stack = AsyncExitStack()
        self.place = self.loop.run_until_complete(self.stack.enter_async_context(place(self.subject)))
        self.term = 1
        self.log = self.loop.run_until_complete(self.place.open(1))
        self.all: list[LogEntry] = []
        self.next_entry = 0
        self.is_sealed = False
        self.trim_target = Position(0, 0)

    @rule(waiting=st.lists(groups, min_size=1, max_size=5))
    @precondition(lambda self: not self.is_sealed)
    def append(self, waiting: list[list[bytes]]) -> None:
        async def append() -> None:
            under_way = [self.log.append(group) for group in waiting]
            for group, each in zip(waiting, under_way, strict=True):
                assert await each == Position(self.term, self.next_entry)
                self.all += placed(self.term, group, self.next_entry)
                self.next_entry += len(group)

        self.loop.run_until_complete(append())

    @rule(group=groups)
    @precondition(lambda self: self.is_sealed)
    def append_to_the_sealed(self, group: list[bytes]) -> None:
        with pytest.raises(SegmentSealed):
            self.log.append(group)

    @rule(step=st.integers(1, 3))
    def take_over(self, step: int) -> None:
        self.loop.run_until_complete(self.log.close())
        with pytest.raises(Fenced):
            self.loop.run_until_complete(self.place.open(self.term))
        self.term += step
        self.log = self.loop.run_until_complete(self.place.open(self.term))
        self.next_entry = 0

    @rule(before=positions)
    def trim(self, before: Position) -> None:
        self.loop.run_until_complete(self.log.trim(before))
        self.trim_target = max(self.trim_target, before)

    @rule()
    @precondition(lambda self: len(self.all) > 12)
    def seal(self) -> None:
        self.loop.run_until_complete(self.log.seal())
        self.is_sealed = True

    @rule(start=positions, entries_max=st.integers(1, 8), bytes_max=st.sampled_from([1, 150, EVERYTHING]))
    def read(self, start: Position, entries_max: int, bytes_max: int) -> None:
        oldest = self.log.lengths.oldest
        if start < oldest:
            with pytest.raises(EntriesTrimmed):
                self.loop.run_until_complete(self.log.read(start, entries_max, bytes_max))
            return
        found = self.loop.run_until_complete(self.log.read(start, entries_max, bytes_max))
        wanted = [each for each in self.all if each.position >= start]
        assert found == wanted[: len(found)]
        assert min(1, len(wanted)) <= len(found) <= entries_max
        assert len(found) <= 1 or sum(len(each.data) for each in found) <= bytes_max

    @invariant()
    def says_what_there_is(self) -> None:
        if not hasattr(self, "log"):
            return
        oldest = self.log.lengths.oldest
        assert all(each.position >= oldest for each in self.all if each.position >= self.trim_target)
        kept = [each for each in self.all if each.position >= oldest]
        assert self.log.first == (kept[0].position if kept else None)
        assert self.log.last_confirmed == (self.all[-1].position if self.all else None)
        assert (self.log.next_position, self.log.is_sealed) == (Position(self.term, self.next_entry), self.is_sealed)
        assert all(self.log.lengths.holds(each.position) for each in kept)
        assert not self.log.lengths.holds(self.log.next_position)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            oldest = self.log.lengths.oldest
            kept = [each for each in self.all if each.position >= oldest]
            assert self.loop.run_until_complete(read_all(self.log)) == kept
            self.loop.run_until_complete(self.stack.aclose())
            self.loop.close()


@pytest.mark.parametrize("subject", ["local", "memory-3", "memory-plain"])
def test_a_log_does_what_the_model_says(subject: str) -> None:
    machine = type("Machine", (LogMachine,), {"subject": subject})
    run_state_machine_as_test(machine, settings=settings(max_examples=12, stateful_step_count=25, deadline=None))
