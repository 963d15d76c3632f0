"""Hashes of 64 bits of many byte strings at once, in numpy. They are the same in every process, whatever the batch."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow

Hashes = Any
"""A numpy array of uint64."""

_WORD = 8
_SEED = numpy.uint64(0x9E3779B97F4A7C15)
_ROUNDS = [
    (numpy.uint64(shift), numpy.uint64(factor))
    for shift, factor in (
        (30, 0xBF58476D1CE4E5B9),
        (27, 0x94D049BB133111EB),
    )
]
"""Of the mixer of SplitMix64: shift, then multiply."""
_LAST_SHIFT = numpy.uint64(31)
_STEP = numpy.uint64(0xD6E8FEB86659FD93)
_HALF = numpy.uint64(32)
_ALL = numpy.uint64(0xFFFFFFFFFFFFFFFF)


def mixed(numbers: Any) -> Hashes:
    """Numbers spread over all bits; no two become the same."""
    found = numpy.asarray(numbers).astype(numpy.uint64)
    found += _SEED
    for shift, factor in _ROUNDS:
        found ^= found >> shift
        found *= factor
    found ^= found >> _LAST_SHIFT
    return found


def hashes(strings: pyarrow.Array[Any]) -> Hashes:
    """A hash of each string or binary; a null's is that of an empty one."""
    count = len(strings)
    _, bounds, content = strings.buffers()
    offsets = numpy.frombuffer(bounds, numpy.int32, count + 1, strings.offset * 4).astype(numpy.int64)
    lengths = numpy.diff(offsets)
    found = mixed(lengths)
    if count and int(lengths[0]) >= _WORD and (lengths == lengths[0]).all():
        _step_evenly(found, content, int(offsets[0]), int(lengths[0]))
    else:
        _step_each(found, content, offsets)
    return mixed(found)


def _step_evenly(found: Hashes, content: Any, start: int, length: int) -> None:
    """Through strings of one length: each word is a column."""
    for end in range(length, 0, -_WORD):
        place = max(0, end - _WORD)
        word = numpy.ndarray((len(found),), "<u8", content, start + place, (length,))
        if end < _WORD:
            word = word << numpy.uint64(_WORD * (_WORD - end))
        _step(found, word)


def _step_each(found: Hashes, content: Any, offsets: Any) -> None:
    # Words are read from the end of a string backwards: in front of the first one is room for a whole word.
    data = numpy.zeros(_WORD + int(offsets[-1]), numpy.uint8)
    if content is not None:
        data[_WORD:] = numpy.frombuffer(content, numpy.uint8, int(offsets[-1]))
    words = numpy.ndarray((len(data) - _WORD + 1,), "<u8", data, 0, (1,))
    starts, ends = offsets[:-1], offsets[1:].copy()
    left = numpy.flatnonzero(ends > starts)
    while len(left):
        end = ends[left]
        # Of the first word of a string only as many bytes count as there are.
        absent = numpy.clip(_WORD - (end - starts[left]), 0, _WORD - 1).astype(numpy.uint64) * numpy.uint64(_WORD)
        each = found[left]
        _step(each, words[end] & (_ALL << absent))
        found[left] = each
        ends[left] = end - _WORD
        left = left[ends[left] > starts[left]]


def _step(found: Hashes, word: Any) -> None:
    """One word more, in place; of one hash no two words make the same."""
    found ^= word
    found *= _STEP
    found ^= found >> _HALF
