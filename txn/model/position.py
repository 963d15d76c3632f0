"""Where an entry is in a segment."""

from __future__ import annotations

import re
from typing import NamedTuple

from txn.model.errors import RecordDamaged

_TEXT = re.compile(r"(0|[1-9][0-9]{0,18}):(0|[1-9][0-9]{0,18})")


class Position(NamedTuple):
    """A ledger, which is one owner's stretch of the segment's log, and an entry in it. Ledgers only grow.

    A tuple, as every value of which each message has its own: it is made, compared and hashed without Python code.
    """

    ledger: int
    entry: int

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Reads the form that `str` writes."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise RecordDamaged(f"{text[:80]!r} is no position: LEDGER:ENTRY is expected")
        return cls(int(match[1]), int(match[2]))
