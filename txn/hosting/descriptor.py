"""What a segment says of itself from its creation to its deletion: pure values."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import Enum

from metastore.interface import Index
from txn.model import paths
from txn.model.errors import RecordDamaged
from txn.model.fields import decoded_fields

FORMAT = 1


class SegmentState(Enum):
    """It only goes forward, in this order."""

    OPEN = "OPEN"
    SEALED = "SEALED"
    """Takes no more entries. The log's own seal decides; this tells those who do not have the log open."""
    DELETING = "DELETING"
    """To be removed, by whoever owns it next: nobody serves it any more, and there is no way back."""

    @property
    def rank(self) -> int:
        """How far along it is."""
        return list(SegmentState).index(self)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What a descriptor record says."""

    segment: str
    state: SegmentState
    place: str
    """Where its log is kept; see `places`."""
    mark: str
    """Of the creation: a segment that is deleted and created again is another one."""
    created_ms: int

    @property
    def is_deleting(self) -> bool:
        """Whether the segment is on its way out."""
        return self.state is SegmentState.DELETING

    def advanced(self, state: SegmentState) -> Descriptor:
        """The descriptor once the segment has come so far; the same if it is further already."""
        return replace(self, state=state) if state.rank > self.state.rank else self

    def indexes(self) -> tuple[Index, ...]:
        """The index entries of the record: by these all segments are found, in whatever partition."""
        return ((paths.SEGMENTS_BY_NAME, paths.escaped(self.segment)),)

    def encode(self) -> bytes:
        """The record's value."""
        fields = {
            "format": FORMAT,
            "segment": self.segment,
            "state": self.state.value,
            "log": self.place,
            "mark": self.mark,
            "created_ms": self.created_ms,
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Descriptor:
        """Reads a record's value."""
        fields = decoded_fields("segment descriptor", value, FORMAT)
        try:
            return cls(
                str(fields["segment"]),
                SegmentState(fields["state"]),
                str(fields["log"]),
                str(fields["mark"]),
                int(fields["created_ms"]),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise RecordDamaged(f"a segment descriptor says {value[:200]!r}: {error!r}") from error
