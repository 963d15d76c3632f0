"""Layers that no longer change, read by several threads at once."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from metastore.engine.overlay import Layer

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
