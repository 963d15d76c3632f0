"""The structure over the ranges, beside a plain list of them."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from metastore.watch.ranges import RangeIndex

KEYS = st.binary(max_size=2) | st.sampled_from([b"", b"a", b"a\0", b"b", b"\xff"])


class RangeIndexMachine(RuleBasedStateMachine):
    """Ranges come and go; at every key the same members are found."""

    def __init__(self) -> None:
        super().__init__()
        self.index: RangeIndex[int] = RangeIndex()
        self.ranges: dict[int, tuple[bytes, bytes]] = {}
        self.created = 0

    @rule(one=KEYS, other=KEYS)
    def add(self, one: bytes, other: bytes) -> None:
        self.created += 1
        bounds = (min(one, other), max(one, other))
        self.index.add(*bounds, self.created)
        self.ranges[self.created] = bounds

    @precondition(lambda self: self.ranges)
    @rule(data=st.data())
    def add_an_equal_one(self, data: st.DataObject) -> None:
        self.add(*data.draw(st.sampled_from(list(self.ranges.values()))))

    @precondition(lambda self: self.ranges)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        member = data.draw(st.sampled_from(list(self.ranges)))
        self.index.remove(*self.ranges.pop(member), member)

    @rule(key=KEYS)
    def ask(self, key: bytes) -> None:
        found = self.index.at(key)
        assert sorted(found) == [member for member, (low, high) in self.ranges.items() if low <= key < high]

    @invariant()
    def bounds_are_asked(self) -> None:
        for low, high in list(self.ranges.values())[:4]:
            self.ask(low)
            self.ask(high)

    @invariant()
    def counts_what_can_be_found(self) -> None:
        assert len(self.index) == sum(low < high for low, high in self.ranges.values())


TestRangeIndex = RangeIndexMachine.TestCase
TestRangeIndex.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


class CountingKey(bytes):
    """A key that counts how often it is compared: the cost of an answer, without a clock."""

    comparisons = 0

    def __ge__(self, other: bytes) -> bool:
        CountingKey.comparisons += 1
        return bytes.__ge__(self, other)

    def __lt__(self, other: bytes) -> bool:
        CountingKey.comparisons += 1
        return bytes.__lt__(self, other)


def cost(index: RangeIndex[int], key: bytes) -> tuple[int, int]:
    """How many were found, and how many comparisons that took."""
    CountingKey.comparisons = 0
    return len(index.at(CountingKey(key))), CountingKey.comparisons


COUNT = 10_000


def name(number: int) -> bytes:
    return b"%08d" % number


def test_an_answer_among_many_disjoint_ranges_costs_a_logarithm() -> None:
    index: RangeIndex[int] = RangeIndex()
    for number in range(COUNT):
        index.add(name(number), name(number + 1), number)
    found, comparisons = cost(index, name(5_000) + b"x")
    assert found == 1
    assert comparisons < 200
    found, comparisons = cost(index, b"x")
    assert (found, comparisons) == (0, 1)


def test_wide_and_identical_ranges_do_not_make_others_dearer() -> None:
    index: RangeIndex[int] = RangeIndex()
    for number in range(COUNT):
        index.add(b"wide", b"wider", number)
        index.add(name(number), name(2 * COUNT - number), COUNT + number)
    found, comparisons = cost(index, name(7))
    assert found == 8
    assert comparisons < 1_000
    assert len(index.at(b"widely")) == COUNT
    for number in range(COUNT):
        index.remove(b"wide", b"wider", number)
        index.remove(name(number), name(2 * COUNT - number), COUNT + number)
    assert len(index) == 0
    assert index.at(name(7)) == []
