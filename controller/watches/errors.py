"""What can be wrong with watches. What the store refuses is told as it is.

    TooManyWatches    a named limit of this broker; other brokers may have room
    WatchesEnded      the broker is about to end
"""

from __future__ import annotations


class TooManyWatches(Exception):
    """A named limit of this broker; other brokers may have room."""


class WatchesEnded(Exception):
    """The broker is about to end: others serve the same watches."""
