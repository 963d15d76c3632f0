"""What consumers that are there have taken of buckets, and has come back since without their having acknowledged it.

It came back because something before it is to come again, or because they have given it back. They may have it yet, or
show it to their applications yet: nobody has told them. So it is *owed*: it comes again to who has it, and a bucket
does not move before that one has acknowledged it, or has gone. Else one consumer could acknowledge what another one
shows afterwards.
"""

from __future__ import annotations

from sortedcontainers import SortedSet

from txn.model.position import Position
from txn.segment.subscription.consumer import Consumer


class Owed:
    """By bucket: to whom, and where."""

    def __init__(self) -> None:
        self.consumers: dict[int, Consumer] = {}
        self._places: dict[int, SortedSet[Position]] = {}
        self._bits: dict[Position, dict[int, int]] = {}
        """Which messages of entries, by bucket; bit 0 is the first."""

    def add(self, bucket: int, position: Position, consumer: Consumer, bits: int) -> None:
        """A consumer had taken these messages."""
        assert self.consumers.get(bucket, consumer) is consumer, "a bucket is with one consumer at a time"
        self.consumers[bucket] = consumer
        self._places.setdefault(bucket, SortedSet()).add(position)
        known = self._bits.setdefault(position, {})
        known[bucket] = known.get(bucket, 0) | bits

    def reaches(self, bucket: int, position: Position) -> bool:
        """Whether something is owed of a bucket there, or behind that."""
        places = self._places.get(bucket)
        return places is not None and position <= places[-1]

    def acknowledged(self, position: Position, bits: int) -> None:
        """Of an entry these messages are acknowledged."""
        for bucket, owed in list(self._bits.get(position, {}).items()):
            if owed & ~bits:
                self._bits[position][bucket] = owed & ~bits
            else:
                self._drop(bucket, position)

    def forget_before(self, position: Position) -> None:
        """What lies before it counts as acknowledged."""
        for bucket, places in list(self._places.items()):
            for each in list(places.irange(maximum=position, inclusive=(True, False))):
                self._drop(bucket, each)

    def forget(self, consumer: Consumer) -> None:
        """A consumer has gone."""
        for bucket in [bucket for bucket, each in self.consumers.items() if each is consumer]:
            for position in list(self._places[bucket]):
                self._drop(bucket, position)

    def _drop(self, bucket: int, position: Position) -> None:
        known = self._bits[position]
        del known[bucket]
        if not known:
            del self._bits[position]
        places = self._places[bucket]
        places.remove(position)
        if not places:
            del self._places[bucket], self.consumers[bucket]
