"""Ranges as LMDB's leaves hold them: copied page by page, and nothing is made of any record.

LMDB hands out one value at a time, and to take it costs as much as all else that is done to send it. Of a page two
pieces are copied, whatever it holds: the places of its nodes, and these, without the room that is left between.
`engine.pages` describes the format. Who reads holds the state that he reads, so that its pages stay as they are.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left, bisect_right
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
COPIED_BYTES_MAX = 1 << 20
"""In one go, unless a page is larger."""
_HEAD_AT = PAGE_HEAD_BYTES - HEAD_BYTES
_HEAD = struct.Struct("<HH")
_NODE = struct.Struct("<HHHH")


class Leaves(NamedTuple):
    """Some leaves beside each other."""

    pieces: list[bytes]
    """Two of each: head and places, and the nodes."""
    skipped: int
    """So many records of the first one come before the range."""
    records: int
    """So many from there on are in it."""


class _Stretch(NamedTuple):
    """Leaves below one branch."""

    pages: list[int]
    end: bytes
    """Where the next branch begins, or the range ends."""
    branch: _Nodes | None = None
    """None where there is but one leaf."""
    first: int = 0
    """The node of the first leaf in it."""

    def beginning(self, number: int) -> bytes:
        """Where a leaf begins; not the first one."""
        assert self.branch is not None
        return self.branch.key(self.first + number)


class MappedFile:
    """The pages of an environment that may grow."""

    def __init__(self, environment: Path, page_bytes: int, chunk_bytes: int = CHUNK_BYTES) -> None:
        assert chunk_bytes % page_bytes == 0
        self._path = environment / "data.mdb"
        self._page_bytes = page_bytes
        self._chunk_bytes = chunk_bytes
        self._chunk_pages = chunk_bytes // page_bytes
        self._chunks: list[mmap.mmap] = []

    def reach(self, pages: int) -> None:
        """Maps the file as far as so many pages, which it has."""
        with self._path.open("rb") as file:
            size = file.seek(0, 2)
            assert size >= pages * self._page_bytes, f"{self._path} is shorter than LMDB says"
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

    def leaves(self, root: Root, low: bytes, high: bytes, count: int, has_large: bool) -> tuple[Leaves, bytes] | None:
        """About so many records of [low, high), and where to go on; None where the first ones cannot be had so.

        `has_large` says whether there may be values on pages of their own, which no leaf holds.
        """
        assert low < high
        if root.page == NO_PAGE:
            return Leaves([], 0, 0), high
        stretch = self._stretch(root, low, high)
        pieces: list[bytes] = []
        found = taken = 0
        for page in stretch.pages[: max(1, COPIED_BYTES_MAX // self._page_bytes)]:
            if found >= count or (has_large and not self._nodes(page).are_whole):
                break
            places, nodes = self._copied(page)
            pieces += (places, nodes)
            found += (len(places) - HEAD_BYTES) // PLACE_BYTES
            taken += 1
        if not taken:
            return None
        following = stretch.beginning(taken) if taken < len(stretch.pages) else stretch.end
        skipped = self._nodes(stretch.pages[0]).place_of(low)
        if following == high:
            last = self._nodes(stretch.pages[taken - 1])
            found -= len(last) - last.place_of(high)
        return Leaves(pieces, skipped, found - skipped), following

    def _stretch(self, root: Root, low: bytes, high: bytes) -> _Stretch:
        """The leaves below the branch that `low` belongs to, as far as they may have keys of the range."""
        page, end = root.page, high
        for height in range(root.depth - 1, 0, -1):
            nodes = self._nodes(page)
            first = nodes.child_of(low)
            if height == 1:
                pages = [nodes.below(number) for number in range(first, nodes.place_of(end, 1))]
                return _Stretch(pages, end, nodes, first)
            if first + 1 < len(nodes):
                end = min(end, nodes.key(first + 1))
            page = nodes.below(first)
        return _Stretch([page], end)

    def _copied(self, page: int) -> tuple[bytes, bytes]:
        chunk, place = divmod(page, self._chunk_pages)
        content, start = self._chunks[chunk], place * self._page_bytes
        lower, upper = _HEAD.unpack_from(content, start + _HEAD_AT)
        return content[start + _HEAD_AT : start + lower], content[start + upper : start + self._page_bytes]

    def _nodes(self, page: int) -> _Nodes:
        chunk, place = divmod(page, self._chunk_pages)
        return _Nodes(self._chunks[chunk], place * self._page_bytes)


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

    @property
    def are_whole(self) -> bool:
        """Of a leaf: whether no value is on pages of its own."""
        return not any(_NODE.unpack_from(self._content, self._start + place)[2] for place in self._places)
