"""Sets of topics' names, as they are compared and sent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import google_crc32c

PAGE_NAMES_MAX = 1_000
PAGE_BYTES_MAX = 256 << 10
"""Of all names in one message together. A single name is always shorter."""


def in_order(names: Iterable[str]) -> list[str]:
    """In the order of UTF-16, as other software of the kind has it."""
    return sorted(names, key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def hash_of(names: Iterable[str]) -> str:
    """By which two sides know that they have the same set, without sending it: CRC32C, its lowest byte first."""
    text = ",".join(in_order(names)).encode("utf-8", "surrogatepass")
    return int(google_crc32c.value(text)).to_bytes(4, "little").hex()


def paged(names: Sequence[str]) -> list[tuple[str, ...]]:
    """The names in their order, in parts that each fit into one message; at least one part."""
    pages: list[tuple[str, ...]] = []
    page: list[str] = []
    size = 0
    for name in names:
        length = len(name.encode())
        if len(page) == PAGE_NAMES_MAX or (page and size + length > PAGE_BYTES_MAX):
            pages.append(tuple(page))
            page, size = [], 0
        page.append(name)
        size += length
    return [*pages, tuple(page)]
