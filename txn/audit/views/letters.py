"""Bytes looked at eight at a time, from wherever they are: literals, fields of fixed width, digits. In numpy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy

from metastore.spark.records import Numbers, overlapping

Flags = Any
"""A numpy array of bool."""

WORD = 8
DIGITS_MAX = 18
"""Of numbers that fit for certain."""

_LETTER_MASK, _WITHIN_LETTER = numpy.uint8(0xC0), numpy.uint8(0x80)
_ZEROS = numpy.uint64(0x3030303030303030)
_ONES = numpy.uint64(0xFFFFFFFFFFFFFFFF)
_SIX = numpy.uint64(0x7676767676767676)
"""Added to a byte of 0 to 9 it leaves the highest bit as it is."""
_HIGHEST = numpy.uint64(0x8080808080808080)
_STEPS = ((2561, 8, 0x00FF00FF00FF00FF), (6553601, 16, 0x0000FFFF0000FFFF), (42949672960001, 32, 0xFFFFFFFF))
"""Neighbours are put together: digits to pairs, pairs to fours, fours to eights."""
_JOINS = [tuple(map(numpy.uint64, step)) for step in _STEPS]


class Letters:
    """A buffer. What is out of it may be asked for, and is something else."""

    def __init__(self, buffer: Any) -> None:
        self.data = numpy.frombuffer(buffer, numpy.uint8)
        self._words = overlapping(self.data, "<u8") if len(self.data) >= WORD else numpy.zeros(1, "<u8")

    def _words_at(self, positions: Numbers) -> Any:
        return self._words[positions if self._has_all(positions, 1) else numpy.clip(positions, 0, len(self._words) - 1)]

    def _has_all(self, positions: Numbers, words: int) -> bool:
        """Whether so many words from each position on are in the buffer."""
        last = len(self.data) - words * WORD
        return len(positions) > 0 and int(positions.min()) >= 0 and int(positions.max()) <= last

    def has(self, positions: Numbers, literal: bytes) -> Flags:
        """Where a literal of up to eight bytes is."""
        assert len(literal) <= WORD
        mask = numpy.uint64((1 << 8 * len(literal)) - 1)
        found: Flags = self._words_at(positions) & mask == numpy.uint64(int.from_bytes(literal, "little"))
        return found

    def begins_letter(self, positions: Numbers) -> Flags:
        """Where no letter of UTF-8 is cut in two, if what is before and behind is text together."""
        found: Flags = self.data[numpy.clip(positions, 0, len(self.data) - 1)] & _LETTER_MASK != _WITHIN_LETTER
        return found

    def rows(self, positions: Numbers, words: int) -> Any:
        """So many words from each position on, as a matrix of u64."""
        if self._has_all(positions, words):
            # What has no type is copied row by row, and not word by word.
            found = overlapping(self.data, f"V{words * WORD}")[positions]
            return found.view("<u8").reshape(-1, words)
        return self._words_at(positions[:, None] + numpy.arange(0, words * WORD, WORD))

    def digits(self, ends: Numbers, count: int) -> Digits:
        """So many digits before these positions."""
        assert 0 < count <= DIGITS_MAX
        words = -(-count // WORD)
        rows = self.rows(ends - words * WORD, words)
        found = [rows[:, words - 1 - place] ^ _ZEROS for place in range(words)]
        if count % WORD:
            found[-1] &= _ONES << numpy.uint64(8 * (WORD - count % WORD))
        return Digits(found)


class Digits:
    """Digits of numbers, eight in each word, the last ones first. What they say is found out when it is asked for."""

    def __init__(self, words: Sequence[Any]) -> None:
        self._words = words

    @property
    def are_digits(self) -> Flags:
        """Where there is nothing else."""
        beyond = reduce(or_, ((word + _SIX) | word for word in self._words))
        found: Flags = beyond & _HIGHEST == 0
        return found

    @property
    def numbers(self) -> Numbers:
        """What they say."""
        found = numpy.zeros(len(self._words[0]), numpy.int64)
        for place, digits in enumerate(self._words):
            for factor, shift, mask in _JOINS:
                digits = (digits * factor) >> shift & mask
            found += digits.astype(numpy.int64) * 10 ** (WORD * place)
        return found
