"""What the options of the doctor read, and what holds where they are left out."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

LIMIT = 100
"""Transactions, or participants of one, that are printed."""
TABLE_LIMIT = 20
"""Rows of a table that is not the answer itself."""
STUCK_AFTER_MS = 60_000
"""A participant that has not carried an outcome out so long after the decision is stuck, or away."""

UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_PART = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)", re.ASCII)


def duration_ms(text: str) -> int:
    """A time such as 500ms, 90s, 5m, 1h30m, 7d."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ArgumentTypeError(f"{text!r} is no time: give one such as 500ms, 90s, 5m or 1h30m")
    return sum(int(number) * UNIT_MS[unit] for number, unit in parts)


def count(text: str) -> int:
    """A number of at least 1."""
    if not (text.isascii() and text.isdecimal()) or int(text[:9]) == 0 or len(text) > 9:
        raise ArgumentTypeError(f"{text!r} is no count: give a number from 1 to 999999999")
    return int(text)


def name(text: str) -> str:
    """A name, which is not empty."""
    if not text:
        raise ArgumentTypeError("a name is expected, and it is empty")
    return text
