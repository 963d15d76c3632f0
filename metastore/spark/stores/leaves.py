"""The records of a range, cut out of LMDB's pages by the thousand.

LMDB hands out one value at a time, and each becomes an object of Python. Its pages say where all values of a page are,
so that numpy finds those of many pages at once, and nothing is made of any. `engine.pages` describes the format;
who reads has a read transaction open as long, so that the pages stay as they are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy

from metastore.engine.leaves import HEAD_BYTES, PAGE_HEAD_BYTES, PLACE_BYTES
from metastore.engine.pages import NO_PAGE, Pages, Root
from metastore.spark.records import Buffer, Numbers, overlapping

Block = Any
"""Pages, as a matrix of bytes."""

FIRST_PAGES = 64
"""Few at first: how many records are on a page is not known yet."""
PAGES_MAX = 4096
"""16 MiB of them."""
_WORD = 8
_LOWER_AT, _PLACES_AT = 6, PAGE_HEAD_BYTES // PLACE_BYTES
"""In steps of two bytes: where a page says how far its nodes' places go, and where these are."""
_32_BITS = numpy.uint64((1 << 32) - 1)
_48_BITS = numpy.uint64((1 << 48) - 1)
_ELSEWHERE = numpy.uint64(1 << 32)


class Found(NamedTuple):
    """The values of some pages, in the order of their keys; one at least."""

    buffer: Any
    starts: Numbers
    """Where in the buffer each is."""
    nodes: Numbers
    """Where its node is: in front of it and its key."""

    @property
    def key_starts(self) -> Numbers:
        """Where in the buffer each key is; it ends where the value starts."""
        return self.nodes + _WORD

    @property
    def lengths(self) -> Numbers:
        """Of the values."""
        return (_words(self.buffer, self.nodes) & _32_BITS).astype(numpy.int64)


class Elsewhere(NamedTuple):
    """A range with large values, which are on pages of their own: to be read one by one."""

    low: bytes
    high: bytes


class Unsent(NamedTuple):
    """Records of a message, some of which have values on pages of their own: to be asked for again."""

    first: bytes
    last: bytes
    """Their keys."""
    records: int


class Leaves:
    """The leaves of an environment, whose pages stay open as long."""

    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        size = pages.page_bytes
        # What has no type is copied page by page, and not byte by byte.
        self._every = numpy.frombuffer(pages.content, f"V{size}", len(pages.content) // size)

    def values(self, root: Root, low: bytes, high: bytes, rows: int) -> Iterator[Found | Elsewhere]:
        """The values of [low, high), about so many at a time."""
        leaves = self._leaves(root, low, high)
        start, count = 0, FIRST_PAGES
        while start < len(leaves):
            block = self._block(leaves[start : start + count])
            places, starts, is_elsewhere = _nodes(block)
            is_last = start + count >= len(leaves)
            skipped = bisect_left(self._pages.keys(int(leaves[0])), low) if not start else 0
            if is_elsewhere.any():
                yield Elsewhere(
                    low if not start else self._pages.keys(int(leaves[start]))[0],
                    high if is_last else self._pages.keys(int(leaves[start + count]))[0],
                )
            else:
                wanted = len(places)
                if is_last:
                    keys = self._pages.keys(int(leaves[-1]))
                    wanted -= len(keys) - bisect_left(keys, high)
                if skipped < wanted:
                    yield Found(block.reshape(-1), starts[skipped:wanted], places[skipped:wanted])
            start += count
            count = max(1, min(PAGES_MAX, rows * count // max(1, len(places))))

    def _block(self, pages: Numbers) -> Block:
        return self._every[pages].view(numpy.uint8).reshape(len(pages), -1)

    def _leaves(self, root: Root, low: bytes, high: bytes) -> Numbers:
        """The leaves that may have keys of a range, in order."""
        if root.page == NO_PAGE or low >= high:
            return numpy.zeros(0, numpy.int64)
        pages = numpy.array([root.page])
        for _ in range(root.depth - 1):
            # What the first key of a branch is, does not count.
            first = self._pages.keys(int(pages[0]))
            last = self._pages.keys(int(pages[-1]))
            behind = len(last) - bisect_left(last, high, 1)
            pages = _below(self._block(pages))
            pages = pages[bisect_right(first, low, 1) - 1 : len(pages) - behind]
        return pages


def _places(block: Block) -> Numbers:
    """Where in a block each node is, in the order of the keys."""
    halves = block.view("<u2")
    counts = (halves[:, _LOWER_AT] - numpy.uint16(PAGE_HEAD_BYTES)) // PLACE_BYTES
    most = int(counts.max(initial=0))
    is_there = numpy.arange(most, dtype=numpy.uint16) < counts[:, None]
    starts = numpy.arange(0, block.size, block.shape[1])
    found: Numbers = (halves[:, _PLACES_AT : _PLACES_AT + most] + starts[:, None])[is_there]
    return found


def _words(block: Block, places: Numbers) -> Any:
    """The eight bytes with which each node begins."""
    return overlapping(block.reshape(-1), "<u8")[places]


def _below(block: Block) -> Numbers:
    """The pages below the nodes of branches."""
    return (_words(block, _places(block)) & _48_BITS).astype(numpy.int64)


def copied(buffer: Buffer, lengths: Numbers, skipped: int, told: int) -> list[Found | Unsent]:
    """So many values, behind some others, of leaves that lie one behind the other as `engine.leaves` copies them."""
    data = numpy.frombuffer(buffer, numpy.uint8)
    starts = numpy.cumsum(lengths) - lengths
    halves = overlapping(data, "<u2")
    lower, upper = halves[starts].astype(numpy.int64), halves[starts + PLACE_BYTES].astype(numpy.int64)
    counts = (lower - PAGE_HEAD_BYTES) // PLACE_BYTES
    before = numpy.cumsum(counts) - counts
    places = starts + HEAD_BYTES - PLACE_BYTES * before
    every = numpy.arange(int(counts.sum())) * PLACE_BYTES + numpy.repeat(places, counts)
    # What was between the places and the nodes is left out.
    nodes = starts + lower - (PAGE_HEAD_BYTES - HEAD_BYTES) - upper
    every = (halves[every] + numpy.repeat(nodes, counts))[skipped : skipped + told]
    found, is_elsewhere = _values(data, every)
    whole = Found(data, found, every)
    if not is_elsewhere.any():
        return [whole]
    leaf = numpy.repeat(numpy.arange(len(counts)), counts)[skipped : skipped + told]
    return list(_parted(whole, numpy.isin(leaf, leaf[is_elsewhere])))


def _parted(whole: Found, is_elsewhere: Any) -> Iterator[Found | Unsent]:
    """What is here, and what is not, in turns."""
    bounds = numpy.flatnonzero(numpy.diff(is_elsewhere)) + 1
    for start, end in pairwise([0, *bounds.tolist(), len(is_elsewhere)]):
        if is_elsewhere[start]:
            first, last = (bytes(whole.buffer[whole.key_starts[at] : whole.starts[at]]) for at in (start, end - 1))
            yield Unsent(first, last, end - start)
        else:
            yield Found(whole.buffer, whole.starts[start:end], whole.nodes[start:end])


def _nodes(block: Block) -> tuple[Numbers, Numbers, Any]:
    """Of leaves: where each node is, where its value is, and whether that is on pages of its own."""
    places = _places(block)
    return places, *_values(block.reshape(-1), places)


def _values(data: Any, nodes: Numbers) -> tuple[Numbers, Any]:
    """Where the values of nodes are, and whether they are on pages of their own."""
    words = _words(data, nodes)
    key_bytes = (words >> numpy.uint64(48)).astype(numpy.int64)
    return nodes + _WORD + key_bytes, words & _ELSEWHERE != 0
