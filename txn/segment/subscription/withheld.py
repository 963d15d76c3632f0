"""What open transactions hold of each bucket, and who had it when it was acknowledged: key-shared subscriptions.

If the transaction aborts, what it holds comes again. So whoever is given something behind it may see the messages of a
key out of their order, and may have acknowledged the later ones for good. Only who has acknowledged it himself knows
that it is in doubt, and goes on. To all others what lies behind it in its bucket is *withheld* until the transaction is
decided: to the next one when a bucket moves, or when a consumer has gone; to who comes again on another stream; to who
was given it, and has not taken it when somebody who had it before acknowledges it late; and to everybody after the
segment has changed hands, because the records do not say whose acknowledgement it was.
"""

from __future__ import annotations

from sortedcontainers import SortedSet

from txn.model.position import Position
from txn.segment.subscription.consumer import Consumer


class Withheld:
    """Where something is held, by bucket and by who had it; None: that is not known."""

    def __init__(self) -> None:
        self._held: dict[Position, dict[tuple[int, Consumer | None], int]] = {}
        """Which messages of entries."""
        self._places: dict[int, dict[Consumer | None, SortedSet[Position]]] = {}

    def note(self, position: Position, bucket: int, consumer: Consumer | None, bits: int) -> None:
        """Transactions hold messages that a consumer had. What is known of them already stays known."""
        held = self._held.get(position, {})
        new = bits & ~sum(known for (place, _), known in held.items() if place == bucket)
        if new:
            key = bucket, consumer
            self._held.setdefault(position, held)[key] = held.get(key, 0) | new
            self._places.setdefault(bucket, {}).setdefault(consumer, SortedSet()).add(position)

    def released(self, position: Position, still_held: int) -> None:
        """Of an entry no more than these messages are held."""
        held = self._held.get(position, {})
        for key, bits in list(held.items()):
            if bits & still_held:
                held[key] = bits & still_held
            else:
                self._drop(position, *key)

    def is_behind(self, bucket: int, position: Position, consumer: Consumer) -> bool:
        """Whether something is held of a bucket up to there that is in doubt, and not by the consumer's own doing."""
        places = self._places.get(bucket)
        if places is None:
            return False
        return any(positions[0] <= position for holder, positions in places.items() if holder is not consumer)

    def forget_before(self, position: Position) -> None:
        """What lies before it counts as acknowledged."""
        for each in [each for each in self._held if each < position]:
            self.released(each, 0)

    def clear(self) -> None:
        """Nobody is there any more; what is held will be found when it is read."""
        self._held.clear()
        self._places.clear()

    def _drop(self, position: Position, bucket: int, consumer: Consumer | None) -> None:
        held, places = self._held[position], self._places[bucket]
        del held[bucket, consumer]
        if not held:
            del self._held[position]
        places[consumer].remove(position)
        if not places[consumer]:
            del places[consumer]
        if not places:
            del self._places[bucket]
