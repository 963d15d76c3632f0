"""A record as a znode and the change log hold it: a line of JSON that says all about it, then its value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from metastore.interface import Index, Record, Version
from metastore.providers.zookeeper.layout import Identity


@dataclass(frozen=True, slots=True)
class Header:
    """A record without its value."""

    identity: Identity
    version: Version
    indexes: tuple[Index, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The header as JSON has it; what is empty is left out."""
        version = self.version
        fields: dict[str, Any] = {
            "key": self.identity.key,
            "partition": self.identity.partition,
            "version": version.version_id,
            "modifications": version.modifications,
            "created": version.created_ms,
            "modified": version.modified_ms,
            "session": version.session_id,
            "identity": version.identity,
            "indexes": self.indexes or None,
        }
        return {name: field for name, field in fields.items() if field is not None}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Header:
        """The header that was written."""
        version = Version(
            version_id=fields["version"],
            modifications=fields["modifications"],
            created_ms=fields["created"],
            modified_ms=fields["modified"],
            session_id=fields.get("session"),
            identity=fields.get("identity"),
        )
        indexes = tuple([(name, key) for name, key in fields.get("indexes", ())])
        return cls(Identity(fields["key"], fields.get("partition")), version, indexes)

    def as_record(self, value: bytes | None, secondary_key: str | None = None) -> Record:
        return Record(self.identity.key, value, self.version, secondary_key)


@dataclass(frozen=True, slots=True)
class Stored:
    """A record, whole."""

    header: Header
    value: bytes

    @property
    def identity(self) -> Identity:
        return self.header.identity

    @property
    def version_id(self) -> int:
        return self.header.version.version_id

    def encode(self) -> bytes:
        return encode_line(self.header.to_json()) + self.value

    @classmethod
    def decode(cls, data: bytes) -> Stored:
        line, value = decode_line(data)
        return cls(Header.from_json(line), value)

    def as_record(self, secondary_key: str | None = None) -> Record:
        return self.header.as_record(self.value, secondary_key)


def encode_line(fields: dict[str, Any]) -> bytes:
    """JSON on one line: JSON escapes the line breaks in texts."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def decode_line(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The fields of the first line, and what follows it."""
    line, _, rest = data.partition(b"\n")
    return json.loads(line), rest
