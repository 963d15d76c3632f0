"""What leading refuses, beside what topics and subscriptions do.

TopicError
└── ProducerBusy (retriable)    somebody else has the exclusive right to produce
"""

from __future__ import annotations

from controller.topics.errors import TopicError
from txn.model.errors import TxnRetriable


class ProducerBusy(TopicError, TxnRetriable):
    """Somebody else has the exclusive right to produce."""
