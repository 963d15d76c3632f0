"""Who is attached to a subscription, and who may be: one kind at a time, and one division of the topic at a time.

Where a topic's segments are divided among consumers, each says by which division it comes. The newest that was heard of
is remembered as long as anybody is there: whoever comes by an older one is sent away, for somebody else has got what it
comes for. Those of an older division that are still there are in the way of a newer one, until they go, or until it
says that they are to be replaced: then they end at once. So does an earlier consumer of the same name.

Those who share a segment by its buckets are together whatever their divisions: nobody is told of a new one who has what
he had, so they know of different ones, and no bucket has two owners at a time.
"""

from __future__ import annotations

from txn.segment.subscription.consumer import Consumer
from txn.segment.subscription.errors import ConsumerBusy, ConsumerReplaced
from txn.segment.subscription.values import CONSUMERS_MAX, Asking, SubscriptionKind


class Attached:
    """The consumers of a subscription."""

    def __init__(self, subscription: str) -> None:
        self.consumers: list[Consumer] = []
        """In the order in which they came."""
        self._subscription = subscription
        self._newest: Asking | None = None
        """By the newest division that was heard of while anybody was there."""

    def judge(self, asking: Asking) -> list[Consumer]:
        """Those who have to go first if another consumer comes. ConsumerBusy, ConsumerReplaced if it may not."""
        self._note(asking)
        in_way = [each for each in self.consumers if not _are_together(asking, each.asking)]
        if in_way and not (asking.replaces and asking.assigned is not None):
            raise ConsumerBusy(
                f"the subscription {self._subscription!r} has {len(self.consumers)} consumers of kind "
                f"{in_way[0].kind.value}, {in_way[0].name!r} first: {_difference(asking, in_way[0].asking)} has to wait"
            )
        if len(self.consumers) - len(in_way) >= CONSUMERS_MAX:
            raise ConsumerBusy(
                f"the subscription {self._subscription!r} has {len(self.consumers)} consumers: at most {CONSUMERS_MAX} "
                "(CONSUMERS_MAX)"
            )
        return in_way

    def _note(self, asking: Asking) -> None:
        if asking.assigned is None or not self.consumers:
            return
        newest = self._newest
        if newest is None or newest.assigned is None or newest.assigned <= asking.assigned:
            self._newest = asking
        elif not _are_together(asking, newest):
            raise ConsumerReplaced(
                f"the consumer {asking.name!r} of {self._subscription!r} comes by generation "
                f"{asking.assigned.generation} of term {asking.assigned.term}, and generation "
                f"{newest.assigned.generation} of term {newest.assigned.term} is known: it is assigned to another one "
                "by now"
            )

    def add(self, consumer: Consumer) -> None:
        """Another one has come."""
        self.consumers.append(consumer)
        if self._newest is None and consumer.asking.assigned is not None:
            self._newest = consumer.asking

    def remove(self, consumer: Consumer) -> None:
        """One has gone."""
        self.consumers.remove(consumer)
        if not self.consumers:
            self._newest = None

    def replaced(self, consumer: Consumer) -> ConsumerReplaced:
        """What one is told that has to go."""
        return ConsumerReplaced(
            f"the consumer {consumer.name!r} of {self._subscription!r} was replaced: by one of a newer division of the "
            "topic, or by itself on another stream"
        )


def _are_together(one: Asking, other: Asking) -> bool:
    """Whether two can be there at the same time."""
    if one.kind is not other.kind or one.kind is SubscriptionKind.EXCLUSIVE:
        return False
    if one.starts != other.starts or (one.replaces and one.name != "" and one.name == other.name):
        return False
    is_shared = one.kind is SubscriptionKind.KEY_SHARED and None not in (one.assigned, other.assigned)
    return is_shared or one.assigned == other.assigned


def _difference(one: Asking, other: Asking) -> str:
    if one.kind is not other.kind or one.kind is SubscriptionKind.EXCLUSIVE:
        return f"one of kind {one.kind.value}"
    if one.starts != other.starts:
        return f"one with {len(one.starts)} buckets that begin at {_shown(one.starts)}, not {_shown(other.starts)},"
    return "one of another division of the topic"


def _shown(starts: tuple[int, ...]) -> str:
    return ", ".join(map(str, starts[:8])) + (", ..." if len(starts) > 8 else "")
