"""The head: the one znode that every write compares and sets.

It counts the writes: its `next` is the number of the write that comes next, which becomes that write's entry in the
change log, and its offset. It counts the versions as well, so that no two records that were ever stored have the same
version id. A write that was prepared at one head and committed at the same one has seen everything: nobody has written
in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from metastore.interface import Range
from metastore.providers.zookeeper.records import decode_line, encode_line


@dataclass(frozen=True, slots=True)
class Sweep:
    """The removal of a range too large for one write. It holds from the moment it is in the head: whoever writes next
    removes the records first, a portion at a time, and to readers they are gone."""

    range: Range
    partition_key: str | None


@dataclass(frozen=True, slots=True)
class Head:
    """The state of the store, in short."""

    next: int = 0
    """The number of the next write."""
    next_version: int = 0
    """The version id of the next record that is stored."""
    oldest: int = 0
    """The oldest write in the log; as large as `next` if the log is empty."""
    log_bytes: int = 0
    sweep: Sweep | None = None

    def encode(self) -> bytes:
        fields: dict[str, Any] = {
            "next": self.next,
            "next_version": self.next_version,
            "oldest": self.oldest,
            "log_bytes": self.log_bytes,
        }
        if self.sweep is not None:
            range = self.sweep.range
            fields["sweep"] = [range.start, range.end, self.sweep.partition_key]
        return encode_line(fields)

    @classmethod
    def decode(cls, data: bytes) -> Head:
        fields, _ = decode_line(data)
        sweep = None
        if "sweep" in fields:
            start, end, partition_key = fields["sweep"]
            sweep = Sweep(Range(start, end), partition_key)
        return cls(fields["next"], fields["next_version"], fields["oldest"], fields["log_bytes"], sweep)
