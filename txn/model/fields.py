"""The fields of a JSON record, each asked for by its name and kind: what is not as it was written is found out here."""

from __future__ import annotations

import json
from typing import Any

from txn.model.errors import RecordDamaged

_ENCODER = json.JSONEncoder(separators=(",", ":"))
_KINDS = {int: "a whole number", str: "a text", list: "a list", bool: "true or false"}


def encoded_fields(fields: dict[str, Any]) -> bytes:
    """A record's value. One encoder serves all: making one takes longer than using it."""
    return _ENCODER.encode(fields).encode()


class Fields(dict[str, Any]):
    """What a record says. Fields that nobody asks for are ignored; RecordDamaged names one of the wrong kind."""

    def __init__(self, what: str, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self._what = what

    def number(self, name: str) -> int:
        """A whole number."""
        number: int = self._of_kind(name, int)
        return number

    def maybe_number(self, name: str) -> int | None:
        """A whole number, if it is there."""
        return None if self.get(name) is None else self.number(name)

    def text(self, name: str) -> str:
        """A text."""
        text: str = self._of_kind(name, str)
        return text

    def maybe_text(self, name: str) -> str | None:
        """A text, if it is there."""
        return None if self.get(name) is None else self.text(name)

    def numbers(self, name: str) -> tuple[int, ...]:
        """Whole numbers; none if the field is not there."""
        found: list[int] = self._of_kind(name, list) if name in self else []
        if not all(type(each) is int for each in found):
            raise self._damaged(name, "whole numbers")
        return tuple(found)

    def flag(self, name: str) -> bool:
        """True or false; false if it is not there."""
        is_set: bool = self._of_kind(name, bool) if name in self else False
        return is_set

    def _of_kind(self, name: str, kind: type[Any]) -> Any:
        if type(self.get(name)) is not kind:
            raise self._damaged(name, _KINDS[kind])
        return self[name]

    def _damaged(self, name: str, expected: str) -> RecordDamaged:
        return RecordDamaged(f"a {self._what} has {name} {str(self.get(name))[:100]!r}: {expected} is expected")


def decoded_fields(what: str, value: bytes, newest_format: int) -> Fields:
    """The fields of a record; refuses what is no JSON object, and formats that this code does not know."""
    try:
        fields = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise RecordDamaged(f"a {what} is no JSON: {value[:200]!r}") from error
    if not isinstance(fields, dict) or type(fields.get("format")) is not int:
        raise RecordDamaged(f"a {what} has no format: {value[:200]!r}")
    if fields["format"] > newest_format:
        raise RecordDamaged(f"a {what} has format {fields['format']}; this version reads up to {newest_format}")
    return Fields(what, fields)
