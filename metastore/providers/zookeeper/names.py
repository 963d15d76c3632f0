"""Any text as the name of a znode, and back.

A name may hold no slash, no zero byte and no other control character, and may not be `.` or `..`. So a name here is
`=` and its parts, percent-encoded, with `@` between them. Where that grows too long for a comfortable path the name
is `#` and a digest, and what it stands for has to be read from the znode.
"""

from __future__ import annotations

from hashlib import sha256
from urllib.parse import quote, unquote

NAME_CHARACTERS_MAX = 200
"""Longer names become digests."""

_READABLE, _DIGEST, _BETWEEN = "=", "#", "@"
_SAFE = ":+,$&"


def name_of(*parts: str) -> str:
    """The name for these parts; different parts have different names."""
    assert parts, "a name has at least one part"
    name = _READABLE + _BETWEEN.join([quote(part, safe=_SAFE) for part in parts])
    return name if len(name) <= NAME_CHARACTERS_MAX else _DIGEST + sha256(name.encode()).hexdigest()


def is_digest(name: str) -> bool:
    """Whether a name does not say what it stands for."""
    return name.startswith(_DIGEST)


def parts_of(name: str) -> tuple[str, ...]:
    """What a readable name was made of."""
    assert name.startswith(_READABLE), f"{name!r} is no readable name"
    return tuple([unquote(part, errors="strict") for part in name[1:].split(_BETWEEN)])
