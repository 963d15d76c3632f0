"""What is cut out of LMDB's pages is what LMDB says, whatever was put, deleted and asked for in which order."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import numpy
import pytest

from metastore.engine.leaves import MappedFile
from metastore.engine.pages import Pages, root_of
from metastore.engine.tree import Transaction, Tree
from metastore.spark.records import Records
from metastore.spark.stores.leaves import Elsewhere, Found, Leaves, Unsent, copied

LENGTH = struct.Struct("<I")
MAP_BYTES = 1 << 30
CHUNK_PAGES = 16
"""Of which there are several soon."""
GIVEN_UP_PAGES = 3
"""LMDB also counts pages that were never written, since the same transaction has given them up."""


@contextmanager
def environment(path: Path) -> Iterator[tuple[lmdb.Environment, Tree]]:
    opened = lmdb.open(str(path), map_size=MAP_BYTES, max_dbs=4, sync=False)
    try:
        yield opened, Tree(opened, "records")
    finally:
        opened.close()


def value_of(choice: random.Random, longest: int) -> bytes:
    """A value that says how long it is."""
    return LENGTH.pack(size := choice.randrange(longest)) + choice.randbytes(size)


def disturb(
    choice: random.Random, opened: lmdb.Environment, tree: Tree, expected: dict[bytes, bytes], longest: int
) -> None:
    """Puts and deletes, in no order."""
    with opened.begin(write=True) as transaction:
        for _ in range(choice.choice([1, 30, 1500])):
            key = b"%0*d" % (choice.choice([4, 4, 4, 300]), choice.randrange(3000))
            if choice.random() < 0.2:
                expected.pop(key, None)
                tree.delete_all(transaction, [key])
            else:
                expected[key] = value_of(choice, longest)
                tree.put_all(transaction, [(key, expected[key])])


def stored(tree: Tree, transaction: Transaction, low: bytes, high: bytes, count: int) -> list[tuple[bytes, bytes]]:
    """Up to `count` items of a range, some at a time."""
    items: list[tuple[bytes, bytes]] = []
    following: bytes | None = low
    while following is not None and len(items) < count:
        more, following = tree.ascending(transaction, following, high, count - len(items))
        items += more
    return items


def found(
    pages: Pages, transaction: Transaction, tree: Tree, low: bytes, high: bytes, rows: int
) -> list[tuple[bytes, bytes]]:
    """All keys and values of a range."""
    items: list[tuple[bytes, bytes]] = []
    for part in Leaves(pages).values(root_of(transaction, b"records"), low, high, rows):
        if isinstance(part, Elsewhere):
            items += stored(tree, transaction, part.low, part.high, 1_000_000)
        else:
            items += items_of(part)
    return items


def items_of(part: Found) -> list[tuple[bytes, bytes]]:
    data = bytes(part.buffer)
    each = zip(part.key_starts.tolist(), part.starts.tolist(), part.lengths.tolist(), strict=True)
    return [(data[key:start], data[start : start + length]) for key, start, length in each]


def copies(
    file: MappedFile, opened: lmdb.Environment, transaction: Transaction, tree: Tree, low: bytes, high: bytes
) -> list[tuple[bytes, bytes]]:
    """The same, of leaves that were copied."""
    items: list[tuple[bytes, bytes]] = []
    file.reach(int(opened.info()["last_pgno"]) + 1 + GIVEN_UP_PAGES)
    for leaves in file.leaves(root_of(transaction, b"records"), low, high):
        for part in copied(b"".join(leaves.pieces), numpy.array(leaves.lengths), leaves.skipped, leaves.records):
            if isinstance(part, Unsent):
                items += stored(tree, transaction, part.first, part.last + b"\0", part.records)
            else:
                items += items_of(part)
    return items


@pytest.mark.parametrize("longest", [40, 1500, 9000])
@pytest.mark.parametrize("seed", range(3))
def test_every_range_is_read_as_lmdb_reads_it(tmp_path: Path, seed: int, longest: int) -> None:
    choice = random.Random(seed)
    expected: dict[bytes, bytes] = {}
    with environment(tmp_path) as (opened, tree):
        page_bytes = int(opened.stat()["psize"])
        file = MappedFile(tmp_path, page_bytes, CHUNK_PAGES * page_bytes)
        for _ in range(6):
            with opened.begin() as transaction, Pages(tmp_path, page_bytes) as pages:
                bounds = [b"", *choice.choices(sorted(expected) or [b"x"], k=4), b"1", b"~"]
                for low in bounds:
                    for high in bounds:
                        wanted = [(key, expected[key]) for key in sorted(expected) if low <= key < high]
                        rows = choice.choice([1, 50, 5000])
                        assert found(pages, transaction, tree, low, high, rows) == wanted
                        assert copies(file, opened, transaction, tree, low, high) == wanted
            disturb(choice, opened, tree, expected, longest)


def test_pieces_are_cut_in_whatever_order_records_lie() -> None:
    choice = random.Random(1)
    texts = [choice.randbytes(choice.randrange(1, 9)) for _ in range(50)]
    places = list(range(50))
    choice.shuffle(places)
    buffer, starts = b"", [0] * 50
    for place in places:
        starts[place] = len(buffer)
        buffer += texts[place]
    at = numpy.array(starts)
    lengths = numpy.array([len(text) for text in texts])
    assert Records(buffer, at, 0).cut(at, lengths).to_pylist() == texts
    some = numpy.array([3, 7, 40])
    assert Records(buffer, at, 0).some(some).cut(at[some], lengths[some]).to_pylist() == [texts[3], texts[7], texts[40]]
