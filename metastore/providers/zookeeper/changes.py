"""An entry of the change log: what one write did, and whole the records that it replaced.

The log holds what was *before*. So it undoes: a scan takes back what was written since it began, and sees one state.
And it tells what was *after* as well, since the new value of one entry is the replaced value of the next entry about
the same record, or the record itself where there is none. A value is stored twice at most, however long the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from metastore.providers.zookeeper.layout import Identity
from metastore.providers.zookeeper.records import Header, Stored, decode_line, encode_line


@dataclass(frozen=True, slots=True)
class Effect:
    """What a write did to one record."""

    before: Stored | None
    after: Header | None
    sequence: str | None = None
    """The prefix of the sequence that generated the key."""

    @property
    def identity(self) -> Identity:
        if self.after is not None:
            return self.after.identity
        assert self.before is not None, "an effect has a before or an after"
        return self.before.identity


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One write."""

    number: int
    time_ms: int
    writer: str
    """Of no two attempts to write the same: tells a writer that lost the answer whether the entry is its own."""
    effects: tuple[Effect, ...]

    def encode(self) -> bytes:
        effects, replaced = [], []
        for effect in self.effects:
            fields: dict[str, Any] = {}
            if effect.after is not None:
                fields["after"] = effect.after.to_json()
            if effect.before is not None:
                replaced.append(effect.before.encode())
                fields["before_bytes"] = len(replaced[-1])
            if effect.sequence is not None:
                fields["sequence"] = effect.sequence
            effects.append(fields)
        line = {"number": self.number, "time": self.time_ms, "writer": self.writer, "effects": effects}
        return encode_line(line) + b"".join(replaced)

    @classmethod
    def decode(cls, data: bytes) -> LogEntry:
        line, replaced = decode_line(data)
        effects = []
        begin = 0
        for fields in line["effects"]:
            end = begin + fields.get("before_bytes", 0)
            before = Stored.decode(replaced[begin:end]) if end > begin else None
            after = Header.from_json(fields["after"]) if "after" in fields else None
            effects.append(Effect(before, after, fields.get("sequence")))
            begin = end
        return cls(line["number"], line["time"], line["writer"], tuple(effects))
