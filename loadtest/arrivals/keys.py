"""Which of the keys an arrival is about."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_left
from collections.abc import Callable, Mapping

ZIPF_EXPONENT = 0.99
"""As in the Yahoo! benchmark of stores."""
HOT_KEYS_SHARE = 0.01
HOT_DRAWS_SHARE = 0.9
SPREAD = 2_654_435_761
"""A prime: it puts the ranks of keys in another order, so that popular keys are not neighbours."""

Choice = Callable[[random.Random], int]
"""Draws the number of a key."""


def uniform(keys: int) -> Choice:
    """Every key as often as every other."""
    return lambda draw: draw.randrange(keys)


def zipfian(keys: int) -> Choice:
    """The n-th most popular key with a frequency of 1/n, about."""
    weights = list(itertools.accumulate(1 / rank**ZIPF_EXPONENT for rank in range(1, keys + 1)))
    return lambda draw: _spread(bisect_left(weights, draw.random() * weights[-1]), keys)


def hot_set(keys: int) -> Choice:
    """A hundredth of the keys get nine draws of ten."""
    hot = max(1, int(keys * HOT_KEYS_SHARE))

    def choose(draw: random.Random) -> int:
        return _spread(draw.randrange(hot if draw.random() < HOT_DRAWS_SHARE else keys), keys)

    return choose


DISTRIBUTIONS: Mapping[str, Callable[[int], Choice]] = {"uniform": uniform, "zipfian": zipfian, "hot": hot_set}


def _spread(rank: int, keys: int) -> int:
    """Another order of the numbers below `keys`, one to one where SPREAD does not divide it."""
    return min(rank, keys - 1) * SPREAD % keys
