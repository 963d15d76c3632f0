"""What can be wrong with subscriptions and their consumers, beside what topics refuse.

    TopicError
    ├── WrongKind              the subscription is of another kind than asked for
    ├── LimitReached           a named limit; the message says which
    ├── ConsumerReplaced       a consumer of the same name came on another connection
    └── DamagedSubscription    the record says what no subscription's record says
"""

from __future__ import annotations

from controller.topics.errors import TopicError


class WrongKind(TopicError):
    """The subscription is of another kind than asked for."""


class LimitReached(TopicError):
    """A named limit; the message says which."""


class ConsumerReplaced(TopicError):
    """A consumer of the same name came on another connection."""


class DamagedSubscription(TopicError):
    """The record says what no subscription's record says."""
