"""What can be wrong with subscriptions and their consumers, beside what topics refuse. All are fatal.

TopicError
├── WrongKind              the subscription is of another kind than asked for
├── LimitReached           a named limit; the message says which
├── MemberReplaced         a consumer of the same name came on another connection
└── DamagedSubscription    the record says what no subscription's record says
"""

from __future__ import annotations

from controller.topics.errors import TopicError
from txn.model.errors import TxnFatal


class WrongKind(TopicError, TxnFatal):
    """The subscription is of another kind than asked for."""


class LimitReached(TopicError, TxnFatal):
    """A named limit; the message says which."""


class MemberReplaced(TopicError, TxnFatal):
    """A consumer of the same name came on another connection."""


class DamagedSubscription(TopicError, TxnFatal):
    """The record says what no subscription's record says."""
