"""JSON as it usually is: the same letters in all records of a kind, but for times of thirteen digits. Without parsing.

An example of each kind says which letters are where. Times have had thirteen digits since 2001, and will until 2286;
what is written in any other way is for whoever parses.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy

from metastore.spark.records import Numbers, Records
from txn.audit.views.letters import WORD, Flags, Letters

TIME_DIGITS = 13
_TIME_LEAST = 10 ** (TIME_DIGITS - 1)
_TIME = re.compile(rb"\d{%d}" % TIME_DIGITS)


@dataclass(frozen=True)
class Example:
    """A value, of which all numbers of thirteen digits may be others."""

    value: bytes

    @cached_property
    def literals(self) -> Sequence[tuple[int, bytes]]:
        """Where which letters are, no more than a word each."""
        bounds = [0, *(place for found in _TIME.finditer(self.value) for place in found.span()), len(self.value)]
        return [
            (at, self.value[at : min(at + WORD, end)])
            for start, end in zip(bounds[::2], bounds[1::2], strict=True)
            for at in range(start, end, WORD)
        ]

    @cached_property
    def times_end(self) -> Sequence[int]:
        """Where each time ends."""
        return [found.end() for found in _TIME.finditer(self.value)]


@dataclass(frozen=True, slots=True)
class Usual:
    """A batch of records, beside examples."""

    example: Numbers
    """Which example each is like; -1 for none."""
    times: Numbers
    """The times of each, one row for each place; 0 where its example has none there."""


def usual(records: Records, examples: Sequence[Example]) -> Usual:
    """Which records are like which example."""
    letters = Letters(records.buffer)
    starts, sizes = records.value_bounds
    found = numpy.full(len(records), -1)
    times = numpy.zeros((max(len(each.times_end) for each in examples), len(records)), numpy.int64)
    for number, example in enumerate(examples):
        rows = numpy.flatnonzero((sizes == len(example.value)) & (found < 0))
        if len(rows):
            is_like, own = _like(letters, starts[rows], example)
            found[rows[is_like]] = number
            times[: len(own), rows[is_like]] = own[:, is_like]
    return Usual(found, times)


def _like(letters: Letters, starts: Numbers, example: Example) -> tuple[Flags, Numbers]:
    is_like = numpy.ones(len(starts), bool)
    for at, literal in example.literals:
        is_like &= letters.has(starts + at, literal)
    times = numpy.zeros((len(example.times_end), len(starts)), numpy.int64)
    for place, end in enumerate(example.times_end):
        digits = letters.digits(starts + end, TIME_DIGITS)
        times[place] = digits.numbers
        is_like &= digits.are_digits & (times[place] >= _TIME_LEAST)
    return is_like, times
