"""What a producer gets for a message."""

from __future__ import annotations

from typing import NamedTuple

from txn.model.position import Position


class Published(NamedTuple):
    """The message is in the segment, durably."""

    position: Position | None
    """Where; None of a duplicate whose original is not at hand any more."""
    is_duplicate: bool = False
    """It was there before, and was not appended again."""
