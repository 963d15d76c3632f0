"""What the command line reads: lists and pairs."""

from __future__ import annotations

from argparse import ArgumentTypeError


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
