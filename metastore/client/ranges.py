"""What a prefix is in a store's order of keys: one range, which has just the keys that begin with it. Pure.

In the natural order that is all there is to it. In the hierarchical order keys of different depth are far apart, and a
prefix means the keys of its own level: `/a/` has the children of `/a`, `/a/b` has `/a/b` and `/a/bc`, and neither has
`/a/b/c`.
"""

from __future__ import annotations

import sys

from metastore.interface import ALL, InvalidRequest, Range

HIERARCHICAL = "hierarchical"
_SURROGATES = range(0xD800, 0xE000)


def prefix_range(prefix: str, key_sorting: str) -> Range:
    """The range of the keys that begin with a prefix, in the hierarchical order those of its level."""
    if not prefix:
        return ALL
    is_hierarchical = key_sorting == HIERARCHICAL
    end = _end(prefix, is_hierarchical)
    if is_hierarchical and (prefix.endswith("//") or not end):
        raise InvalidRequest(f"prefix {prefix!r}: no range has just the keys of one level that begin so")
    return Range(prefix, end)


def _end(prefix: str, is_hierarchical: bool) -> str:
    """The least key behind all that begin with a prefix; empty if there is none."""
    kept = prefix.rstrip(chr(sys.maxunicode))
    if not kept:
        return ""
    if is_hierarchical and kept[-1] == "/":
        return kept + "/"  # this bounds the children from above, on their own level
    following = ord(kept[-1]) + 1
    if following in _SURROGATES:
        following = _SURROGATES.stop
    if is_hierarchical and chr(following) == "/":
        following += 1  # a slash there would be a level deeper
    return kept[:-1] + chr(following)
