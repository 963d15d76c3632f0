"""What can become of an operation that cannot be done."""

from __future__ import annotations

from controller.topics.errors import TopicError


class OperationFailed(TopicError):
    """It was given up and undone; the cause says why."""
