"""What became of one arrival, one step of it, or one event of a stream."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

NOT_STARTED = "NotStarted"
"""The error of an arrival that could not be begun in time."""
UNFINISHED = "Unfinished"
"""The error of an arrival that was under way when the run was over, and did not end."""


class Kind(Enum):
    """What is timed, and from when."""

    ARRIVAL = "arrival"
    """A whole arrival, from when it was meant to begin."""
    STEP = "step"
    """A part of an arrival, from when that part began."""
    EVENT = "event"
    """Something that came by itself (news of a watch, a message), from when what caused it was meant to begin."""


class Outcome(NamedTuple):
    """One thing that was timed."""

    scenario: str
    operation: str
    kind: Kind
    began_s: float
    """When it was meant to begin (arrivals), or what is timed began; by the clock of the event loop."""
    latency_s: float
    late_s: float = 0.0
    """Of an arrival: how long after it was meant to it was begun. Part of the latency."""
    error: str | None = None
    """The name of the error's class."""
    size: int = 0
    """Bytes that came back."""


Record = Callable[[Outcome], None]
"""Takes outcomes, and must not wait."""
