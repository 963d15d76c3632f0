"""What the feeder does by parts, so that nobody waits for it."""

from __future__ import annotations

import random

import pytest

from metastore.engine.feeder import SORTED_ENTRIES, sorted_parts

SOURCE = random.Random(7)
COUNTS = [0, 1, 100, SORTED_ENTRIES - 1, SORTED_ENTRIES, 3 * SORTED_ENTRIES + 5, 20 * SORTED_ENTRIES]


@pytest.mark.parametrize("count", COUNTS)
def test_keys_are_sorted_by_parts_of_bounded_size(count: int) -> None:
    keys = dict.fromkeys(SOURCE.randbytes(8) for _ in range(count))
    parts = list(sorted_parts(keys))
    assert [key for part in parts for key in part] == sorted(keys)
    assert max(map(len, parts)) <= 4 * SORTED_ENTRIES


@pytest.mark.parametrize("step", [1, -1])
def test_keys_that_came_in_order(step: int) -> None:
    keys = dict.fromkeys(b"%08d" % number for number in range(10 * SORTED_ENTRIES)[::step])
    parts = list(sorted_parts(keys))
    assert [key for part in parts for key in part] == sorted(keys)
    assert max(map(len, parts)) <= 4 * SORTED_ENTRIES
