"""What hosting refuses, within the tree of txn/model/errors.py.

SegmentUnavailable (retriable)     nobody serves the segment at the moment, or this broker does not: ask again
├── OwnedElsewhere                     another broker owns it; it says which, and under which term
└── NoBrokerServesSegment              its log is in a place that no live broker serves; it names the place
NoSuchSegment (fatal)              never created, or deleted
SegmentExists (fatal)              created before
TooManySubscriptions (fatal)       a named limit
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from metastore.interface import OutcomeUnknown, Retriable
from txn.model.errors import SegmentUnavailable, TxnFatal


class OwnedElsewhere(SegmentUnavailable):
    """Another broker owns the segment: ask there."""

    def __init__(self, message: str, broker: str, address: str, term: int) -> None:
        super().__init__(message)
        self.broker = broker
        self.address = address
        self.term = term
        """Terms only grow: of two answers the one with the greater term is the newer."""


class NoBrokerServesSegment(SegmentUnavailable):
    """The segment's log is in a place that no live broker serves."""


class NoSuchSegment(TxnFatal):
    """The segment was never created, or it was deleted."""


class SegmentExists(TxnFatal):
    """A segment of that name was created before."""


class TooManySubscriptions(TxnFatal):
    """A named limit."""


@contextmanager
def told(segment: str, doing: str) -> Iterator[None]:
    """Tells in the words of segments what may be tried again. Everything in hosting may be repeated."""
    try:
        yield
    except (Retriable, OutcomeUnknown) as error:
        raise SegmentUnavailable(f"while {doing} {segment!r}: {error}") from error
