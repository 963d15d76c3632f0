"""What can be wrong with topics, beside what layouts refuse.

    TopicError
    ├── TopicNotFound           there is no such topic
    ├── TopicExists             there is one already
    ├── SubscriptionNotFound    the topic has no such subscription
    ├── OperationUnderWay       the layout is being changed; try again when that is done
    ├── InvalidTopic            a property, a number of segments or a policy that no topic can have
    └── NotLeader (retriable)   somebody else leads the topic; it says who
"""

from __future__ import annotations


class TopicError(Exception):
    """A call about a topic that was not done."""


class TopicNotFound(TopicError):
    """There is no such topic."""


class TopicExists(TopicError):
    """There is one already."""


class SubscriptionNotFound(TopicError):
    """The topic has no such subscription."""


class OperationUnderWay(TopicError):
    """The layout is being changed."""


class InvalidTopic(TopicError):
    """A property, a number of segments or a policy that no topic can have."""


class NotLeader(TopicError):
    """Somebody else leads the topic, or nobody yet."""

    def __init__(self, message: str, leader: str | None = None) -> None:
        super().__init__(message)
        self.leader = leader
        """The address of the leader, where there is one."""
