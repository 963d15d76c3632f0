"""What can be wrong with watches. What the store refuses is told as it is.

TooManyWatches (retriable)    a named limit of this broker; other brokers may have room
WatchesEnded (retriable)      the broker is about to end
"""

from __future__ import annotations

from txn.model.errors import TxnRetriable


class TooManyWatches(TxnRetriable):
    """A named limit of this broker; other brokers may have room."""


class WatchesEnded(TxnRetriable):
    """The broker is about to end: others serve the same watches."""
