"""Ranges as LMDB's leaves hold them: copied page by page, and nothing is made of any record.

LMDB hands out one value at a time, and to take it costs as much as all else that is done to send it. Of a page two
pieces are copied, whatever it holds: the places of its nodes, and these, without the room that is left between.
`engine.pages` describes the format. Who reads holds the state that he reads, so that its pages stay as they are.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from metastore.engine.pages import NO_PAGE, Root

CHUNK_BYTES = 256 << 20
"""The file is mapped in pieces of this size. As it grows only the last one is mapped anew: the kernel enters a new
mapping page by page, which takes longer than to copy what is there."""

PLACE_BYTES = 2
HEAD_BYTES = 4
"""In front of the places of a leaf's nodes, when it is copied: how far they go in a page, and where its nodes begin."""
PAGE_HEAD_BYTES = 16
COPIED_BYTES_MAX = 256 << 10
"""Of leaves in one go, while the state cannot be let go."""
_HEAD_AT = PAGE_HEAD_BYTES - HEAD_BYTES
_HEAD = struct.Struct("<HH")
_NODE = struct.Struct("<HHHH")


class Leaves(NamedTuple):
    """Some leaves beside each other."""

    pieces: list[bytes]
    """Two of each: head and places, and the nodes."""
    lengths: list[int]
    """Of the two together."""
    skipped: int
    """So many records of the first one come before the range."""
    records: int
    """So many from there on are in it."""


class MappedFile:
    """The pages of an environment that may grow."""

    def __init__(self, environment: Path, page_bytes: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        assert chunk_bytes % page_bytes == 0
        self._path = environment / "data.mdb"
        self._page_bytes = page_bytes
        self._chunk_bytes = chunk_bytes
        self._chunk_pages = chunk_bytes // page_bytes
        self._copied_max = max(1, COPIED_BYTES_MAX // page_bytes)
        self._chunks: list[mmap.mmap] = []

    def reach(self, pages: int) -> None:
        """Maps so many pages, as far as there are any: LMDB also counts those that were given up unwritten."""
        with self._path.open("rb") as file:
            size = file.seek(0, 2)
            pages = min(pages, size // self._page_bytes)
            for number in range(-(-pages // self._chunk_pages)):
                start = number * self._chunk_bytes
                needed = min(self._chunk_bytes, pages * self._page_bytes - start)
                if number < len(self._chunks) and len(self._chunks[number]) >= needed:
                    continue
                # Whoever still reads the one before keeps it by that.
                length = min(self._chunk_bytes, size - start)
                self._chunks[number : number + 1] = [
                    mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ, offset=start)
                ]

    def leaves(self, root: Root, low: bytes, high: bytes) -> Iterator[Leaves]:
        """All of [low, high). Of large values, which are on pages of their own, there is nothing but a node that is
        flagged. Between two of these the state must not be let go."""
        if root.page == NO_PAGE or low >= high:
            return
        is_first = True
        for pages, has_last in self._below(root.page, root.depth, low, high):
            for at in range(0, len(pages), self._copied_max):
                some = pages[at : at + self._copied_max]
                pieces, lengths, records = self._copied(some)
                skipped = self._nodes(some[0]).place_of(low) if is_first else 0
                if has_last and some[-1] == pages[-1]:
                    last = self._nodes(some[-1])
                    records -= len(last) - last.place_of(high)
                if records > skipped:
                    yield Leaves(pieces, lengths, skipped, records - skipped)
                is_first = False

    def _below(self, page: int, height: int, low: bytes | None, high: bytes | None) -> Iterator[tuple[list[int], bool]]:
        """The leaves that may have keys of the range, those of one branch at a time, and whether the last one is among
        them; None where all keys below the page are within that bound."""
        if height == 1:
            yield [page], high is not None
            return
        nodes = self._nodes(page)
        first = 0 if low is None else nodes.child_of(low)
        last = len(nodes) if high is None else nodes.place_of(high, 1)
        pages = [nodes.below(number) for number in range(first, last)]
        if height == 2:
            yield pages, high is not None
            return
        for number, each in enumerate(pages, 1):
            yield from self._below(
                each, height - 1, low if number == 1 else None, high if number == len(pages) else None
            )

    def _copied(self, pages: list[int]) -> tuple[list[bytes], list[int], int]:
        """Leaves, how long they are, and how many records they have."""
        pieces: list[bytes] = []
        lengths: list[int] = []
        places_bytes = 0
        size, unpack = self._page_bytes, _HEAD.unpack_from
        for page in pages:
            content, start = self._locate(page)
            lower, upper = unpack(content, start + _HEAD_AT)
            pieces += (content[start + _HEAD_AT : start + lower], content[start + upper : start + size])
            lengths.append(lower - _HEAD_AT + size - upper)
            places_bytes += lower - PAGE_HEAD_BYTES
        return pieces, lengths, places_bytes // PLACE_BYTES

    def _locate(self, page: int) -> tuple[mmap.mmap, int]:
        chunk, place = divmod(page, self._chunk_pages)
        return self._chunks[chunk], place * self._page_bytes

    def _nodes(self, page: int) -> _Nodes:
        return _Nodes(*self._locate(page))


class _Nodes:
    """The nodes of a page."""

    def __init__(self, content: mmap.mmap, start: int) -> None:
        self._content = content
        self._start = start
        lower, _ = _HEAD.unpack_from(content, start + _HEAD_AT)
        count = (lower - PAGE_HEAD_BYTES) // PLACE_BYTES
        self._places = struct.unpack_from(f"<{count}H", content, start + PAGE_HEAD_BYTES)

    def __len__(self) -> int:
        return len(self._places)

    def _key_at(self, place: int) -> bytes:
        start = self._start + place + _NODE.size
        return self._content[start : start + _NODE.unpack_from(self._content, self._start + place)[3]]

    def key(self, number: int) -> bytes:
        """The key of a node."""
        return self._key_at(self._places[number])

    def place_of(self, key: bytes, first: int = 0) -> int:
        """Of the nodes from one on, the first that has this key or a later one."""
        return bisect_left(self._places, key, first, key=self._key_at)

    def child_of(self, key: bytes) -> int:
        """The node of a branch below which a key is; what the key of the first one is, does not count."""
        return bisect_right(self._places, key, 1, key=self._key_at) - 1

    def below(self, number: int) -> int:
        """The page below a node of a branch."""
        low, high, flags, _ = _NODE.unpack_from(self._content, self._start + self._places[number])
        return int(low | high << 16 | flags << 32)
