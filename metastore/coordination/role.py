"""What a grant is a grant of: a role's name, the partition it lives in, and the keys that belong to it."""

from __future__ import annotations

from dataclasses import dataclass

from metastore.interface import InvalidRequest
from metastore.interface.checks import check_key, shown

_SEQUENCE_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Role:
    """Something that one at a time may do. Its name is the key of the grant; what lies below it belongs to the role."""

    name: str
    partition_key: str

    @classmethod
    def named(cls, name: str, partition_key: str | None) -> Role:
        """A role in the partition of its own name, unless it is to be in another."""
        check_key(name, partition_key)
        if not name or name.endswith("/"):
            raise InvalidRequest(f"a role is named {shown(name)}: give a name that does not end with a slash")
        return cls(name, name if partition_key is None else partition_key)

    @property
    def line_key(self) -> str:
        """The sequence of the places in line."""
        return f"{self.name}/line"

    def is_place(self, key: str) -> bool:
        """Whether a key is that of a place in this role's line."""
        prefix = f"{self.line_key}-"
        number = key.removeprefix(prefix)
        return key.startswith(prefix) and len(number) == _SEQUENCE_DIGITS and number.isdecimal()

    def place_number(self, key: str) -> int:
        """The number of a place in this role's line."""
        assert self.is_place(key)
        return int(key[-_SEQUENCE_DIGITS:])
