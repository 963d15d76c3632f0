"""What subscriptions refuse, within the tree of txn/model/errors.py.

    SegmentUnavailable (retriable)
    └── SubscriptionClosed              it was closed, or its segment has another owner by now: subscribe again
    ConsumerBusy (retriable)        others are attached, and one more, or one of this kind, may not be
    SubscriptionDeleted (fatal)     there is no such subscription any more
    ConsumerClosed (fatal)          this consumer was closed by its owner
    ConsumerReplaced (fatal)        consumers of a newer division of the topic have taken over
    AckTooLate (abortable)          what was to be acknowledged is delivered again, here or to somebody else
    EndOfSegment (fatal)            not a failure: the segment is sealed, and everything in it is acknowledged or read

Conflicts are TxnConflict, an acknowledgement that fits no entry is InvalidAck, and a cursor that would not fit into its
record is CursorTooLarge.
"""

from __future__ import annotations

from txn.model.errors import SegmentUnavailable, TxnAbortable, TxnFatal, TxnRetriable


class SubscriptionClosed(SegmentUnavailable):
    """The subscription was closed here, or its segment has another owner by now."""


class ConsumerBusy(TxnRetriable):
    """Others are attached, and one more, or one of this kind, may not be."""


class SubscriptionDeleted(TxnFatal):
    """There is no such subscription any more."""


class ConsumerClosed(TxnFatal):
    """The consumer was closed by its owner."""


class ConsumerReplaced(TxnFatal):
    """Consumers of a newer division of the topic have taken over, or the same one on another way."""


class AckTooLate(TxnAbortable):
    """What was to be acknowledged is delivered again, here or to somebody else."""


class EndOfSegment(TxnFatal):
    """Nothing will ever come again: the segment is sealed, and everything in it is acknowledged, or was read."""
