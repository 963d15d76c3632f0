"""What the options of the doctor read, and what holds where they are left out."""

from __future__ import annotations

from argparse import ArgumentTypeError

from metastore.commandline import duration_s

LIMIT = 100
"""Transactions, or participants of one, that are printed."""
TABLE_LIMIT = 20
"""Rows of a table that is not the answer itself."""
STUCK_AFTER_MS = 60_000
"""A participant that has not carried an outcome out so long after the decision is stuck, or away."""


def duration_ms(text: str) -> int:
    """A time such as 500ms, 90s, 5m, 1h30m, 7d."""
    return round(duration_s(text) * 1000)


def name(text: str) -> str:
    """A name, which is not empty."""
    if not text:
        raise ArgumentTypeError("a name is expected, and it is empty")
    return text
