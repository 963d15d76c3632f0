"""What an engine and the process that started it tell each other: one JSON object per line.

To the engine, the first line, and what may follow, in any order:
    {"names", "settings": {...}, "limits": {...}, "spacing"}
    {"rates": {SCENARIO: ARRIVALS_A_SECOND}}
    {"finish": true}
From the engine:
    {"ready": true}                         everything is prepared
    {"outcomes": [...], "marks": [...]}     now and then
    {"finished": true}                      every arrival has its outcome, and all of them were told
    {"failed": TEXT}                        the last line
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from loadtest.arrivals import Settings, Spacing
from loadtest.arrivals.pump import Limits
from loadtest.outcomes import Kind, Mark, Outcome

LINE_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Order:
    """What an engine is to do."""

    names: tuple[str, ...]
    settings: Settings
    limits: Limits
    spacing: Spacing

    def encode(self) -> bytes:
        """The first line."""
        said = asdict(self) | {"spacing": self.spacing.value}
        return encode(said)

    @classmethod
    def decode(cls, line: bytes) -> Order:
        """Reads what `encode` wrote."""
        said = json.loads(line)
        settings = said["settings"] | {"targets": tuple(said["settings"]["targets"])}
        return cls(tuple(said["names"]), Settings(**settings), Limits(**said["limits"]), Spacing(said["spacing"]))


def encode(message: Mapping[str, Any]) -> bytes:
    """A line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def encode_news(outcomes: Iterable[Outcome], marks: Iterable[Mark]) -> bytes:
    """Outcomes, whose beginnings are seconds since the epoch."""
    rows = [[*each[:2], each.kind.value, *each[3:]] for each in outcomes]
    return encode({"outcomes": rows, "marks": [list(mark) for mark in marks]})


def decode_outcomes(rows: Iterable[list[Any]]) -> list[Outcome]:
    """Reads them."""
    return [Outcome(row[0], row[1], Kind(row[2]), *row[3:]) for row in rows]
