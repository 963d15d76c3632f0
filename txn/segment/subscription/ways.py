"""How what may be read finds its consumer: what the dispatcher asks, whatever the kind of the subscription."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from txn.model.position import Position
from txn.segment.subscription.backlog import Backlog
from txn.segment.subscription.consumer import Consumer
from txn.segment.subscription.values import READ_ENTRIES_MAX, UNACKED_CONSUMER_MAX, Delivery, Nack, VisibleEntry

GAP_ENTRIES_MAX = 64
"""So many entries are read in vain rather than that what waits behind them is read by itself: that costs as much."""


class Wanted(NamedTuple):
    """What to read next."""

    start: Position
    entries: int
    is_again: bool
    """Whether it was read before."""
    epoch: int
    """Of the backlog, when that was said."""
    only: frozenset[Position] | None = None
    """What of it is wanted; None: all of it."""

    @classmethod
    def again(cls, found: Sequence[Position], epoch: int) -> Wanted:
        """These, which are near each other."""
        return cls(found[0], found[-1].entry - found[0].entry + 1, True, epoch, frozenset(found))


class Way(Protocol):
    """One way to deliver; there is one for all that give whole entries, and one for key-shared subscriptions."""

    @property
    def backlog(self) -> Backlog: ...

    @property
    def is_held_up(self) -> bool:
        """Whether somebody gets nothing until something is acknowledged."""

    def attached(self, consumer: Consumer) -> None:
        """Another consumer has come."""

    def detached(self, consumer: Consumer) -> None:
        """A consumer has gone; what it has comes again."""

    def negative_acknowledge(self, consumer: Consumer, nacks: Iterable[Nack]) -> None:
        """A consumer wants others, or itself, to have these again."""

    def current(self, consumer: Consumer, delivery: Delivery) -> Delivery | None:
        """What waits for a consumer, by what is acknowledged now; None if it is not the consumer's any more."""

    def in_others_hands(self, position: Position, consumer: Consumer) -> int:
        """Which messages of an entry this consumer comes too late to acknowledge; bit 0 is the first."""

    def wanted(self) -> Wanted | None:
        """What to read next; None if nobody could get anything."""

    def hand_out(
        self, wanted: Wanted, read: Sequence[Position], visible: Sequence[VisibleEntry], behind: Position
    ) -> None:
        """Gives what was read to consumers, as far as somebody takes it; `behind` is the bound behind all of it."""


def read_together(waiting: Iterable[Position], most: int) -> list[Position]:
    """The first of what waits, in its order: so many at most, each once, and near enough to be read at once."""
    found: list[Position] = []
    for position in waiting:
        if found and position == found[-1]:
            continue
        if found and (len(found) == most or not _is_near(found[0], found[-1], position)):
            break
        found.append(position)
    return found


def _is_near(first: Position, last: Position, position: Position) -> bool:
    """Whether what waits there is worth to be read with what waits from the first one to the last one."""
    is_near = position.ledger == last.ledger and position.entry - last.entry <= GAP_ENTRIES_MAX
    return is_near and position.entry - first.entry < READ_ENTRIES_MAX


def may_get(consumer: Consumer) -> bool:
    """Whether a consumer can be given anything."""
    return consumer.is_active and consumer.has_room and consumer.unacked < UNACKED_CONSUMER_MAX


def is_full(consumer: Consumer) -> bool:
    """Whether a consumer gets nothing until something is acknowledged."""
    return consumer.unacked >= UNACKED_CONSUMER_MAX or consumer.short_of > 0
