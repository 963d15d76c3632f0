"""Hashes of 64 bits of many byte strings at once, in numpy. They are the same in every process, whatever the batch."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow

Hashes = Any
"""A numpy array of uint64."""

_WORD = 8
_SEED = numpy.uint64(0x9E3779B97F4A7C15)
_ROUNDS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""Of the mixer of SplitMix64: shift, then multiply."""
_LAST_SHIFT = numpy.uint64(31)
_ALL = numpy.uint64(0xFFFFFFFFFFFFFFFF)


def mixed(numbers: Any) -> Hashes:
    """Numbers spread over all bits; no two become the same."""
    found = numpy.asarray(numbers).astype(numpy.uint64) + _SEED
    for shift, factor in _ROUNDS:
        found = (found ^ (found >> numpy.uint64(shift))) * numpy.uint64(factor)
    return found ^ (found >> _LAST_SHIFT)


def hashes(strings: pyarrow.Array[Any]) -> Hashes:
    """A hash of each string or binary; a null's is that of an empty one."""
    count = len(strings)
    _, bounds, content = strings.buffers()
    offsets = numpy.frombuffer(bounds, numpy.int32, count + 1, strings.offset * 4).astype(numpy.int64)
    # Words are read from the end of a string backwards: in front of the first one is room for a whole word.
    data = numpy.zeros(_WORD + int(offsets[-1]), numpy.uint8)
    if content is not None:
        data[_WORD:] = numpy.frombuffer(content, numpy.uint8, int(offsets[-1]))
    words = numpy.ndarray((len(data) - _WORD + 1,), "<u8", data, 0, (1,))
    starts, ends = offsets[:-1], offsets[1:]
    found = mixed(ends - starts)
    while (left := ends > starts).any():
        # Of the first word of a string only as many bytes count as there are.
        absent = numpy.clip(_WORD - (ends - starts), 0, _WORD - 1).astype(numpy.uint64) * numpy.uint64(_WORD)
        word = words[ends] & (_ALL << absent)
        found = numpy.where(left, mixed(found ^ word), found)
        ends = numpy.where(left, ends - _WORD, ends)
    return found
