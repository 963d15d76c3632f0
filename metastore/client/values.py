"""What the command line reads: durations, counts and pairs."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError

SECONDS_PER_UNIT = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


def duration_s(text: str) -> float:
    """A time such as 500ms, 30s, 2m, 1h30m; a bare number is seconds."""
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|$)", text, re.ASCII)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ArgumentTypeError(f"{text!r} is no time: give one such as 500ms, 30s or 2m")
    return sum(float(number) * SECONDS_PER_UNIT[unit] for number, unit in parts)


def positive(text: str) -> int:
    """A number of at least 1."""
    if not (text.isascii() and text.isdecimal()) or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is no count: give a number of at least 1")
    return int(text)


def sequence_deltas(text: str) -> list[int]:
    """One number, or several with commas between them."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentTypeError(f"{text!r} are no deltas: give numbers such as 1 or 1,0,5") from None


def index_entry(text: str) -> tuple[str, str]:
    """The name of an index and a secondary key."""
    name, separator, secondary_key = text.partition("=")
    if not separator:
        raise ArgumentTypeError(f"{text!r} is no index entry: give NAME=SECONDARY")
    return name, secondary_key
