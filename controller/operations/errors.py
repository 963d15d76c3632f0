"""What can become of an operation that cannot be done."""

from __future__ import annotations

from controller.topics.errors import TopicError
from txn.model.errors import TxnRetriable


class OperationFailed(TopicError, TxnRetriable):
    """It was given up and undone; the cause says why."""
