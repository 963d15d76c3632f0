"""Layers that no longer change, read by several threads at once; and layers over a tree, read a stretch at a time."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryDirectory
from threading import Barrier
from unittest.mock import patch

import lmdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.engine import limits
from metastore.engine.change import Table
from metastore.engine.overlay import Generation, Layer, View
from metastore.engine.tree import Tree

THREADS = 4
SWITCH_INTERVAL_S = 1e-6
"""So that threads meet in the middle of whatever they do."""


@pytest.fixture(autouse=True)
def hasty_threads() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("unsorted", [10, 2000])
def test_all_who_want_the_order_first_see_all_keys(unsorted: int) -> None:
    keys = [b"%05d" % number for number in range(4000)]
    random.Random(unsorted).shuffle(keys)
    with ThreadPoolExecutor(THREADS) as threads:
        for _ in range(20):
            layer = Layer(dict.fromkeys(keys[unsorted:], b""))
            layer.keys(b"", None, 1, reverse=False)  # those are sorted
            layer.entries.update(dict.fromkeys(keys[:unsorted], b""))
            together = Barrier(THREADS)

            def read(layer: Layer = layer, together: Barrier = together) -> list[bytes]:
                together.wait()
                return layer.keys(b"", None, len(keys), reverse=False)

            for found in [threads.submit(read) for _ in range(THREADS)]:
                assert found.result() == sorted(keys)


KEYS = st.integers(0, 60).map(lambda number: b"%02d" % number)
STORED = st.sampled_from([b"", b"v", b"v" * 50, b"v" * 200])


@given(
    stored=st.dictionaries(KEYS, STORED, max_size=40),
    changed=st.lists(st.dictionaries(KEYS, st.none() | STORED, max_size=20), max_size=3),
    bounds=st.tuples(KEYS, KEYS),
    limit=st.integers(1, 30),
)
def test_a_range_is_read_a_stretch_at_a_time_whatever_was_changed(
    stored: dict[bytes, bytes], changed: list[dict[bytes, bytes | None]], bounds: tuple[bytes, bytes], limit: int
) -> None:
    model: dict[bytes, bytes | None] = dict(stored)
    generations = []
    for entries in changed:
        model.update(entries)
        generations.append(Generation(tuple(Layer(dict(entries)) for _ in Table)))
    low, high = bounds
    expected = [(key, value) for key, value in sorted(model.items()) if value is not None and low <= key < high]
    with TemporaryDirectory() as folder, lmdb.open(folder, max_dbs=2, sync=False) as environment:
        tree = Tree(environment, "records")
        with environment.begin(write=True) as transaction, patch.object(limits, "SCAN_CHUNK_BYTES", 100):
            tree.put_all(transaction, sorted(stored.items()))
            view = View([tree for _ in Table], transaction, generations)
            found = []
            following: bytes | None = low
            while following is not None:
                items, following = view.ascending(Table.RECORDS, following, high, limit)
                assert items or following is None, "what is empty is the end"
                assert len(items) <= limit
                found += items
                assert sum(len(key) + len(value) for key, value in items[:-1]) < 100
            keys: list[bytes] = []
            following = low
            while following is not None:
                more, following = view.keys(Table.RECORDS, following, high, limit)
                assert len(more) <= limit
                assert sum(map(len, more[:-1])) < 100
                keys += more
    assert found == expected
    assert keys == [key for key, _ in expected]


EVERY = [b"%03d" % number * 200 for number in range(100)]
LONG_KEYS = {"stored": (EVERY, []), "changed": (EVERY, EVERY), "some changed": (EVERY, EVERY[::2]), "new": ([], EVERY)}


@pytest.mark.parametrize(("stored", "changed"), LONG_KEYS.values(), ids=LONG_KEYS)
def test_long_keys_are_listed_within_the_bound_of_bytes(stored: list[bytes], changed: list[bytes]) -> None:
    generation = Generation(tuple(Layer(dict.fromkeys(changed, b"")) for _ in Table))
    with TemporaryDirectory() as folder, lmdb.open(folder, max_dbs=2, sync=False) as environment:
        tree = Tree(environment, "records")
        with environment.begin(write=True) as transaction, patch.object(limits, "SCAN_CHUNK_BYTES", 5_000):
            tree.put_all(transaction, [(key, b"") for key in stored])
            view = View([tree for _ in Table], transaction, [generation])
            found = []
            following: bytes | None = b""
            while following is not None:
                keys, following = view.keys(Table.RECORDS, following, None, len(EVERY))
                assert sum(map(len, keys[:-1])) < 5_000
                found += keys
    assert found == EVERY
