"""A look at LMDB's pages: where a sub-database can be cut into equal parts, and what an old state of it held.

LMDB answers neither, and its file says both: it is a B+tree of pages of one size, of format 1 of LMDB 0.9. A state is
its root's page. Its pages stay as they are while any process reads that state, so whoever looks at one must know that
somebody holds it. Nothing is written here.

    page     number u64 | pad u16 | flags u16 | lower u16 | upper u16 | place of each node u16
    node     low u16 | high u16 | flags u16 | key length u16 | key | data
             low, high and flags of a branch are the number of the page below; low and high of a leaf the data's length
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from metastore.engine.tree import Transaction

FORMAT_VERSIONS = ((0, 9),)
"""Of LMDB, those whose file is as described."""
NO_PAGE = (1 << 64) - 1

_DATABASE = struct.Struct("<IHHQQQQQ")
_PAGE = struct.Struct("<QHHHH")
_NODE = struct.Struct("<HHHH")
_BRANCH, _LEAF = 1, 2
_ELSEWHERE = 1
"""The flag of a leaf's node whose data is on pages of its own."""
_PAGE_NUMBER = struct.Struct("<Q")


class Root(NamedTuple):
    """One state of a sub-database."""

    page: int
    depth: int
    entries: int


class Separators(NamedTuple):
    """Where a range can be parted."""

    keys: list[bytes]
    """In order."""
    entries: int
    """About how many entries the range has."""


def root_of(transaction: Transaction, name: bytes) -> Root:
    """The state of a sub-database that a transaction sees."""
    with transaction.cursor() as cursor:
        found = cursor.set_key(name)
        assert found, f"there is no sub-database {name!r}"
        _, _, depth, _, _, _, entries, page = _DATABASE.unpack(cursor.value())
    return Root(page, depth, entries)


class Pages:
    """The pages of an environment."""

    def __init__(self, environment: Path, page_bytes: int) -> None:
        self.page_bytes = page_bytes
        with (environment / "data.mdb").open("rb") as file:
            self.content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def get(self, root: Root, key: bytes) -> bytes | None:
        """The value of a short key in a state."""
        page = root.page
        while page != NO_PAGE:
            nodes = list(self._nodes(page))
            flags = self._flags(page)
            assert flags & (_BRANCH | _LEAF), f"page {page} is none of a tree"
            if flags & _LEAF:
                return next((self._data(at) for found, at in nodes if found == key), None)
            # The first key of a branch stands for everything below the second.
            page = self._below([at for number, (found, at) in enumerate(nodes) if not number or found <= key][-1])
        return None

    def separators(self, root: Root, low: bytes, high: bytes | None, wanted: int) -> Separators:
        """Keys between low and high that cut what lies between into nearly equal parts.

        There are at least `wanted`, unless so little lies between that it fits into few pages.
        """
        if root.page == NO_PAGE:
            return Separators([], 0)
        pages, firsts = [root.page], [b""]
        while True:
            inner = [key for key in firsts if low < key and (high is None or key < high)]
            if len(inner) >= wanted or not pages or not self._flags(pages[0]) & _BRANCH:
                return Separators(inner, self._entries(pages, low, high))
            below = [child for page, first in zip(pages, firsts, strict=True) for child in self._children(page, first)]
            chosen = [(page, first) for page, first, end in below if _meet(first, end, low, high)]
            pages, firsts = [page for page, _ in chosen], [first for _, first in chosen]

    def _entries(self, pages: list[int], low: bytes, high: bytes | None) -> int:
        """How many keys of a range are below these pages; if they are no leaves, about: as many below each as below
        the one in the middle."""
        if not pages or not self._flags(pages[0]) & _BRANCH:
            return sum(low <= key and (high is None or key < high) for page in pages for key in self.keys(page))
        count, page = len(pages), pages[len(pages) // 2]
        while self._flags(page) & _BRANCH:
            nodes = list(self._nodes(page))
            count, page = count * len(nodes), self._below(nodes[len(nodes) // 2][1])
        return count * len(self.keys(page))

    def _children(self, page: int, first: bytes) -> Iterator[tuple[int, bytes, bytes | None]]:
        """The pages below a branch: each with its first key, and where the next one begins."""
        nodes = list(self._nodes(page))
        keys = [first, *(key for key, _ in nodes[1:])]
        for number, (_, at) in enumerate(nodes):
            yield self._below(at), keys[number], keys[number + 1] if number + 1 < len(keys) else None

    def keys(self, page: int) -> list[bytes]:
        """The keys of a page, in order; the first one of a branch says nothing."""
        return [key for key, _ in self._nodes(page)]

    def _flags(self, page: int) -> int:
        return int(_PAGE.unpack_from(self.content, page * self.page_bytes)[2])

    def _nodes(self, page: int) -> Iterator[tuple[bytes, int]]:
        """The keys of a page, and where their nodes are."""
        start = page * self.page_bytes
        lower = _PAGE.unpack_from(self.content, start)[3]
        count = (lower - _PAGE.size) // 2
        for place in struct.unpack_from(f"<{count}H", self.content, start + _PAGE.size):
            at = start + place
            key_start = at + _NODE.size
            yield self.content[key_start : key_start + _NODE.unpack_from(self.content, at)[3]], at

    def _below(self, at: int) -> int:
        low, high, flags, _ = _NODE.unpack_from(self.content, at)
        return int(low | high << 16 | flags << 32)

    def _data(self, at: int) -> bytes:
        low, high, flags, key_bytes = _NODE.unpack_from(self.content, at)
        start, size = at + _NODE.size + key_bytes, low | high << 16
        if flags & _ELSEWHERE:
            start = _PAGE_NUMBER.unpack_from(self.content, start)[0] * self.page_bytes + _PAGE.size
        return self.content[start : start + size]

    def close(self) -> None:
        """Lets the file go."""
        self.content.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _meet(first: bytes, end: bytes | None, low: bytes, high: bytes | None) -> bool:
    """Whether [first, end) has a part of [low, high)."""
    return (high is None or first < high) and (end is None or end > low)
