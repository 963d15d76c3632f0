"""What can be wrong with a topic, beside what can be wrong with one of its segments (`txn_histories.violations`)."""

from __future__ import annotations

from enum import Enum


class TopicLie(Enum):
    """The kinds."""

    NOT_TILED = "the active segments do not tile the ring"
    WENT_BACK = "a layout is older than the one before it, or has a segment that was gone or sealed already"
    TWO_WRITABLE = "an older segment took a message of a hash after a newer one had"
    NOT_WRITABLE = "a range took no message within the time after the last fault"
    MISROUTED = "a segment took a message whose hash is not its own"
    MISSING_SEGMENT = "a segment of a layout is not there to be read"
    LOST_MESSAGE = "a message that was acknowledged to its sender never came to a subscription"
    STORED_TWICE = "a message is in two segments"
    MISORDERED_LOG = "messages of a key do not lie in the order in which they were sent"
    MISORDERED_DELIVERY = "messages of a key came to a subscription in another order than they lie in"
    TOO_EARLY = "a delayed message came to a queue before its time"
    TWO_WRITERS = "messages of somebody who had the exclusive right to produce lie among those of others"
    FENCED_WRITE = "somebody was told that a message is there which he had no right to send any more"
    UNCOVERED = "a segment that may be read is nobody's, or two consumers', or is read before its time"
    LEFT_BEHIND = "something is left of a topic, a segment or a subscription that is gone"
