"""What can be wrong with topics, beside what layouts refuse. Each is of a class of txn/model/errors.py as well.

TopicError
├── TopicNotFound (fatal)           there is no such topic
├── TopicExists (fatal)             there is one already
├── SubscriptionNotFound (fatal)    the topic has no such subscription
├── InvalidTopic (fatal)            a property, a number of segments or a policy that no topic can have
├── OperationUnderWay (retriable)   the layout is being changed; try again when that is done
└── NotLeader (retriable)           somebody else leads the topic; it says who
"""

from __future__ import annotations

from txn.model.errors import TxnFatal, TxnRetriable


class TopicError(Exception):
    """A call about a topic that was not done."""


class TopicNotFound(TopicError, TxnFatal):
    """There is no such topic."""


class TopicExists(TopicError, TxnFatal):
    """There is one already."""


class SubscriptionNotFound(TopicError, TxnFatal):
    """The topic has no such subscription."""


class OperationUnderWay(TopicError, TxnRetriable):
    """The layout is being changed."""


class InvalidTopic(TopicError, TxnFatal):
    """A property, a number of segments or a policy that no topic can have."""


class NotLeader(TopicError, TxnRetriable):
    """Somebody else leads the topic, or nobody yet."""

    def __init__(self, message: str, leader: str | None = None) -> None:
        super().__init__(message)
        self.leader = leader
        """The address of the leader, where there is one."""
