"""Who has the exclusive right to produce to a topic: the record that its leader keeps.

The record stays when nobody has the right any more, so that the numbers of claims only grow.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from controller.layout import LayoutError


@dataclass(frozen=True, slots=True)
class Claim:
    """The newest claim of a topic."""

    number: int
    producer: str | None
    """None: it was given back, and nobody has the right."""

    @property
    def is_released(self) -> bool:
        """Whether nobody has the right."""
        return self.producer is None

    def encode(self) -> bytes:
        """The record's value."""
        fields = {"claim": self.number, "producer": self.producer}
        return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()

    @classmethod
    def decode(cls, value: bytes) -> Claim:
        """Reads a record's value; LayoutError for what no claim's record says."""
        try:
            fields = json.loads(value)
            producer = fields["producer"]
            return cls(int(fields["claim"]), None if producer is None else str(producer))
        except (ValueError, KeyError, TypeError) as error:
            raise LayoutError(f"a topic's claim says {value[:200]!r}: {error!r}") from error
