"""How a watch ends when it cannot go on, or is refused.

EngineError
├── OffsetTrimmed            what the watch needs next is no longer in the log
│   └── PreviousValuesMissing    it is, but without what the records were before
└── TooManyWatches           the shard has WATCHES_MAX watches already
"""

from __future__ import annotations

from metastore.engine.errors import EngineError


class OffsetTrimmed(EngineError):
    """Changes are missing from an offset on; a new watch may resume at `oldest`, or begin with a snapshot."""

    def __init__(self, offset: int, oldest: int, why: str = "is no longer in the log") -> None:
        super().__init__(f"offset {offset} {why}: the oldest that a watch can begin with is {oldest}")
        self.offset = offset
        self.oldest = oldest


class PreviousValuesMissing(OffsetTrimmed):
    """The changes are there, but not what the records were before, which this watch asks for."""

    def __init__(self, offset: int, oldest: int) -> None:
        super().__init__(offset, oldest, "is in the log without previous values")


class TooManyWatches(EngineError):
    """The shard has as many watches as it may have."""
