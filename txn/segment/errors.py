"""What segments refuse, within the tree of txn/model/errors.py.

SegmentUnavailable (retriable)  the segment has no owner here that could serve it; ask again, maybe elsewhere
├── Fenced                          a later owner has taken the log over: this one stops for good
├── LogInUse                        another process has the log open
└── LogStopped                      closed, or in doubt about what is durable: only opening it again tells
SegmentFull (retriable)         no space; nothing was changed
SegmentBusy (retriable)         a named limit on what waits; it passes
CursorTooLarge (retriable)      too many holes between the acknowledged entries; it passes as older ones are
                                acknowledged
SegmentSealed (fatal)           the segment takes no more entries: its successors do
ProducerFenced (fatal)          somebody else has the exclusive right to produce
GroupTooLarge (fatal)           a named limit on what is appended at once
EntriesTrimmed (fatal)          the entries asked for are no longer kept; it says which is the oldest
InvalidAck (fatal)              an acknowledgement that fits no entry
RecordDamaged (fatal)           something stored is not as it was written
"""

from __future__ import annotations

from txn.model.errors import SegmentUnavailable, TxnFatal, TxnRetriable
from txn.model.position import Position


class Fenced(SegmentUnavailable):
    """A later owner has taken the log over: this one stops for good."""


class LogInUse(SegmentUnavailable):
    """Another process, or another owner in this one, has the log open."""


class LogStopped(SegmentUnavailable):
    """The log was closed, or stopped because it is in doubt what is durable: only opening it again tells."""


class SegmentFull(TxnRetriable):
    """No space; nothing was changed."""


class SegmentBusy(TxnRetriable):
    """A named limit on what waits; nothing was changed."""


class CursorTooLarge(TxnRetriable):
    """Too many holes between the acknowledged entries; it passes as older entries are acknowledged."""


class SegmentSealed(TxnFatal):
    """The segment takes no more entries."""


class ProducerFenced(TxnFatal):
    """Somebody else has the exclusive right to produce."""


class GroupTooLarge(TxnFatal):
    """A named limit on what is appended at once; nothing was changed."""


class EntriesTrimmed(TxnFatal):
    """The entries asked for are no longer kept."""

    def __init__(self, message: str, oldest: Position) -> None:
        super().__init__(message)
        self.oldest = oldest
        """Where what is kept begins."""


class InvalidAck(TxnFatal):
    """An acknowledgement that fits no entry."""
