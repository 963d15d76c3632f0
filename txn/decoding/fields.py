"""Reading JSON that anybody may have written: each field has its type and its bounds, or the record is malformed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NoReturn

TIME_S_MAX = 10**12
TIME_MS_MAX = TIME_S_MAX * 1000
"""Later than any clock: 33 millennia after 1970."""
NUMBER_MAX = (1 << 63) - 1
SHOWN_BYTES_MAX = 120


class Malformed(ValueError):
    """A record does not say what its place asks for."""


def json_object(value: bytes) -> dict[str, Any]:
    """The fields of a value. Fractions come as Decimal: a float has no room for nanoseconds since the epoch."""
    try:
        found = json.loads(value, parse_float=Decimal, parse_constant=_no_number)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Malformed(f"no JSON: {shown(value)}") from error
    if not isinstance(found, dict):
        raise Malformed(f"no JSON object: {shown(value)}")
    return found


def shown(value: bytes) -> str:
    """The beginning of a value, for a message."""
    return repr(value[:SHOWN_BYTES_MAX])


def text(fields: Mapping[str, Any], name: str) -> str:
    """A text that can be written as UTF-8, which a lone surrogate cannot."""
    return checked_text(name, fields.get(name))


def optional_text(fields: Mapping[str, Any], name: str) -> str | None:
    return None if fields.get(name) is None else text(fields, name)


def checked_text(name: str, found: object) -> str:
    if not isinstance(found, str):
        raise Malformed(f"{name} is {found!r}"[:SHOWN_BYTES_MAX] + ": a text is expected")
    try:
        found.encode()
    except UnicodeEncodeError as error:
        raise Malformed(f"{name} is {found[:SHOWN_BYTES_MAX]!r}, which is no text") from error
    return found


def number(fields: Mapping[str, Any], name: str, least: int = 0, most: int = NUMBER_MAX) -> int:
    return checked_number(name, fields.get(name), least, most)


def checked_number(name: str, found: object, least: int = 0, most: int = NUMBER_MAX) -> int:
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        raise Malformed(f"{name} is {type(found).__name__} and no whole number from {least} to {most}")
    return found


def seconds_as_ms(fields: Mapping[str, Any], name: str) -> int:
    """Decimal seconds, truncated to milliseconds."""
    found = fields.get(name)
    if not isinstance(found, int | Decimal) or isinstance(found, bool) or not 0 <= found <= TIME_S_MAX:
        raise Malformed(f"{name} is {type(found).__name__} and no time in seconds")
    return int(found * 1000)


def _no_number(name: str) -> NoReturn:
    raise Malformed(f"{name} is no number")
