"""Who reads what in a subscription, and since which generation: an immutable value, and how it follows from the last.

The generation counts divisions: it is one more exactly where somebody has something else than before, or where
somebody has come or gone. So it grows over all leaders, for it is restored with the division.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from controller.assignment import Assignment, round_robin, servable, sticky
from controller.layout import Layout, Segment
from controller.subscriptions.records import SubscriptionKind, SubscriptionRecord


class Strategy(Enum):
    """How segments are divided."""

    STICKY = "sticky"
    """As little moves as can be."""
    ROUND_ROBIN = "round-robin"
    """By turns, whoever had them before."""

    def divide(self, segments: Sequence[Segment], members: Iterable[str], previous: Assignment) -> Assignment:
        """What each member has from now on."""
        if self is Strategy.ROUND_ROBIN:
            return round_robin(segments, members)
        return sticky(segments, members, previous)


@dataclass(frozen=True, slots=True)
class Group:
    """A division of the segments that may be read."""

    kind: SubscriptionKind
    layout: Layout
    drained: frozenset[int]
    generation: int
    assignment: Assignment
    """By the names of all members; those who have nothing as well."""

    @classmethod
    def restored(
        cls, record: SubscriptionRecord, members: Iterable[str], layout: Layout, drained: Collection[int]
    ) -> Group:
        """The division that a record says; where it says none, that of members who have nothing yet."""
        assignment = {name: () for name in members} if record.assignment is None else record.assignment
        return cls(record.kind, layout, frozenset(drained), record.generation, assignment)

    @property
    def record(self) -> SubscriptionRecord:
        """What is written down of it."""
        return SubscriptionRecord(self.kind, self.generation, self.assignment)

    def regrouped(
        self, members: Collection[str], layout: Layout, drained: Collection[int], strategy: Strategy
    ) -> Group:
        """The division of what may be read now among those who are members now."""
        assignment = strategy.divide(servable(layout, drained), members, self.assignment)
        generation = self.generation + (assignment != self.assignment)
        return Group(self.kind, layout, frozenset(drained), generation, assignment)

    def differing(self, before: Group) -> set[str]:
        """Members who have something else than before, or who are new."""
        return {name for name, shares in self.assignment.items() if before.assignment.get(name) != shares}
