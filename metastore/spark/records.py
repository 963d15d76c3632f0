"""A batch of records as columns: cut out of their bytes all at once, made into Python objects only where asked for."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy
import pyarrow
import pyarrow.compute as pc

from metastore.engine.record import HEADER_SIZE, LENGTH_BYTES

Numbers = Any
"""A numpy array of int64."""
Buffer = Any
"""Bytes, in an object that lends them."""

BYTES_MAX = (1 << 31) - 1
"""Of a buffer: Arrow says in 32 bits where in it a piece begins."""
_VARINT_BYTES_MAX = 10
_FIXED64_BYTES = 8


def overlapping(data: Buffer, kind: str) -> Any:
    """Values of a type, one from each byte on: a view, and no copy."""
    return numpy.ndarray((len(data) - numpy.dtype(kind).itemsize + 1,), kind, data, 0, (1,))


class Records:
    """Records of one shard, of one state of the store.

    They are the entries of a RangeScanResponse in a buffer: `0a len {12 len version} {1a len value} {22 len key}`. All
    arrays have one element for each record.
    """

    def __init__(
        self, buffer: Buffer, starts: Numbers, shard: int | None, secondary_keys: list[bytes] | None = None
    ) -> None:
        self.buffer = buffer
        self.shard = shard
        self.secondary_keys = secondary_keys
        """By which an index led to each record; None where no index was read."""
        self.index: bytes | None = None
        """That index."""
        self.as_of_ms: int | None = None
        """When it is, if the reader has said so."""
        self._bytes = numpy.frombuffer(buffer, numpy.uint8)
        assert len(self._bytes) <= BYTES_MAX, "whoever reads hands out less at a time"
        self._starts = starts

    def __len__(self) -> int:
        return len(self._starts)

    def some(self, places: Numbers) -> Records:
        """Those at these places, which ascend."""
        keys = self.secondary_keys
        chosen = None if keys is None else [keys[place] for place in places]
        return Records(self.buffer, self._starts[places], self.shard, chosen)

    # -- where things are

    @cached_property
    def _version_bounds(self) -> tuple[Numbers, Numbers]:
        lengths, position = self._varints(self._behind_varints(self._starts + 1) + 1)
        return position, lengths

    @cached_property
    def value_bounds(self) -> tuple[Numbers, Numbers]:
        """Where in `buffer` each value begins, and its length."""
        starts, lengths = self._version_bounds
        lengths, position = self._varints(starts + lengths + 1)
        return position, lengths

    @cached_property
    def key_bounds(self) -> tuple[Numbers, Numbers]:
        """Where in `buffer` each key begins, and its length."""
        starts, lengths = self.value_bounds
        lengths, position = self._varints(starts + lengths + 1)
        return position, lengths

    def _varints(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """The numbers at these positions, and the positions behind them."""
        byte = self._bytes[positions]
        numbers, positions = byte.astype(numpy.int64), positions + 1
        if byte.max(initial=0) < 128:
            return numbers, positions
        going_on = numpy.flatnonzero(byte >= 128)
        numbers[going_on] &= 127
        for shift in range(7, 7 * _VARINT_BYTES_MAX, 7):
            if not len(going_on):
                break
            byte = self._bytes[positions[going_on]].astype(numpy.int64)
            numbers[going_on] |= (byte & 127) << shift
            positions[going_on] += 1
            going_on = going_on[byte >= 128]
        return numbers, positions

    def _behind_varints(self, positions: Numbers) -> Numbers:
        """The positions behind the numbers at these, whatever those are."""
        is_on = self._bytes[positions] >= 128
        while is_on.any():
            positions = positions + is_on
            is_on &= self._bytes[positions] >= 128
        return positions + 1

    # -- what things are, in Arrow

    @cached_property
    def values(self) -> pyarrow.BinaryArray:
        """The values."""
        return self.cut(*self.value_bounds)

    @cached_property
    def keys(self) -> pyarrow.BinaryArray:
        """The keys, as bytes."""
        return self.cut(*self.key_bounds)

    @cached_property
    def secondaries(self) -> pyarrow.BinaryArray:
        """The secondary keys, as bytes."""
        return pyarrow.array(self.secondary_keys, pyarrow.binary())

    @cached_property
    def secondary_runs(self) -> tuple[Numbers, pyarrow.BinaryArray]:
        """The secondary keys, each once for all records beside each other, and where each begins."""
        return numpy.arange(len(self)), self.secondaries

    @cached_property
    def _order(self) -> tuple[Numbers, Numbers] | None:
        """The records as they lie in the buffer, and the place of each in that order; None if that is theirs."""
        if (self._starts[1:] > self._starts[:-1]).all():
            return None
        # Pages hold records the last one first: a stable sort knows what to make of runs.
        order = numpy.argsort(self._starts, kind="stable")
        places = numpy.empty_like(order)
        places[order] = numpy.arange(len(order))
        return order, places

    def cut(self, starts: Numbers, lengths: Numbers) -> pyarrow.BinaryArray:
        """Pieces of `buffer`, one for each record, and within it."""
        if self._order is None:
            return cut(self.buffer, starts, lengths)
        order, places = self._order
        return cut(self.buffer, starts[order], lengths[order], places)

    # -- versions, as numpy arrays of int64
    #
    # The fields of a Version come in their order, and those that are 0 may be left out. Each is found behind the one
    # before, so whoever asks for the first pays for no other.

    @property
    def version_ids(self) -> Numbers:
        """The version ids."""
        return self._ids_and_rest[0]

    @property
    def modifications(self) -> Numbers:
        """How often each was overwritten."""
        return self._modifications_and_rest[0]

    @cached_property
    def created_ms(self) -> Numbers:
        """When each was created."""
        return self._fixed64(self._times_and_rest[0])

    @cached_property
    def modified_ms(self) -> Numbers:
        """When each was last written."""
        return self._fixed64(self._times_and_rest[1])

    @cached_property
    def sessions(self) -> pyarrow.Int64Array:
        """The sessions of ephemeral records; null for others."""
        positions = self._times_and_rest[2]
        has_session = self._is_tag(positions, 0x28)
        numbers = numpy.zeros(len(self), numpy.int64)
        numbers[has_session], _ = self._varints(positions[has_session] + 1)
        return pyarrow.array(numbers, mask=~has_session)

    @cached_property
    def _ids_and_rest(self) -> tuple[Numbers, Numbers]:
        return self._optional(self._version_bounds[0], 0x08)

    @cached_property
    def _modifications_and_rest(self) -> tuple[Numbers, Numbers]:
        return self._optional(self._ids_and_rest[1], 0x10)

    @cached_property
    def _times_and_rest(self) -> tuple[Numbers, Numbers, Numbers]:
        """Where both times are, -1 for none, and what follows them."""
        position, found = self._modifications_and_rest[1], []
        for tag in (0x19, 0x21):
            is_there = self._is_tag(position, tag)
            found.append(numpy.where(is_there, position + 1, -1))
            position = numpy.where(is_there, position + 9, position)
        return found[0], found[1], position

    def _optional(self, positions: Numbers, tag: int) -> tuple[Numbers, Numbers]:
        """The numbers of a field, 0 where it is left out, and the positions behind it."""
        is_there = self._is_tag(positions, tag)
        if is_there.all():
            return self._varints(positions + 1)
        numbers, positions = numpy.zeros(len(self), numpy.int64), positions.copy()
        present = numpy.flatnonzero(is_there)
        numbers[present], positions[present] = self._varints(positions[present] + 1)
        return numbers, positions

    def _is_tag(self, positions: Numbers, tag: int) -> Numbers:
        """Where a Version goes on with this field."""
        starts, lengths = self._version_bounds
        last = max(0, len(self._bytes) - 1)
        return (positions < starts + lengths) & (self._bytes[numpy.minimum(positions, last)] == tag)

    def _fixed64(self, positions: Numbers) -> Numbers:
        """The numbers of eight bytes at these positions; 0 where there is none."""
        if len(self._bytes) < _FIXED64_BYTES:
            return numpy.zeros(len(self), numpy.int64)
        return numpy.where(positions < 0, 0, overlapping(self._bytes, "<i8")[positions])


class KeysOnly(Records):
    """Records of which nothing is known but their keys, and by which secondary keys an index led to them."""

    def __init__(
        self, keys: pyarrow.BinaryArray, shard: int, starts: Numbers, secondaries: pyarrow.BinaryArray
    ) -> None:
        super().__init__(b"", numpy.zeros(len(keys), numpy.int64), shard)
        self.keys = keys
        self.secondary_runs = starts, secondaries

    @cached_property
    def secondaries(self) -> pyarrow.BinaryArray:
        """The secondary keys, as bytes."""
        starts, secondaries = self.secondary_runs
        return secondaries.take(pyarrow.array(numpy.repeat(numpy.arange(len(starts)), _run_lengths(starts, len(self)))))


def _run_lengths(starts: Numbers, count: int) -> Numbers:
    return numpy.diff(numpy.append(starts, count))


def cut(buffer: Buffer, starts: Numbers, lengths: Numbers, places: Numbers | None = None) -> pyarrow.BinaryArray:
    """Pieces of a buffer, of which none begins before the one before ends; in another order, where that is given."""
    count = len(starts)
    bounds = numpy.empty(2 * count + 1, numpy.int32)
    bounds[0:-1:2] = starts
    numpy.add(starts, lengths, out=bounds[1::2], casting="unsafe")
    bounds[-1] = bounds[-2] if count else 0
    # Every other piece is what lies between.
    every = pyarrow.BinaryArray.from_buffers(
        pyarrow.binary(), 2 * count, [None, pyarrow.py_buffer(bounds), pyarrow.py_buffer(buffer)]
    )
    return every.take(pyarrow.array(numpy.arange(0, 2 * count, 2) if places is None else 2 * places))


def are_new(array: pyarrow.Array[Any]) -> Any:
    """Where an array without nulls says something else than just before: bools of numpy."""
    found = numpy.ones(len(array), bool)
    found[1:] = pc.not_equal(array[1:], array[:-1]).to_numpy(zero_copy_only=False)
    return found


def records_of(blobs: list[bytes], shard: int, secondary_keys: list[bytes] | None = None) -> Records:
    """Records as the engine stores them."""
    lengths = numpy.fromiter(map(len, blobs), numpy.int64, len(blobs))
    return records_in(b"".join(blobs), numpy.cumsum(lengths) - lengths, shard, secondary_keys)


def records_in(buffer: Buffer, starts: Numbers, shard: int, secondary_keys: list[bytes] | None = None) -> Records:
    """Records as the engine stores them, in a buffer where they may lie in any order."""
    data = numpy.frombuffer(buffer, numpy.uint8)
    has_extras = data[starts] != 0
    starts = starts + HEADER_SIZE
    if has_extras.any():
        # Behind the header of a record without extras there is at least as much.
        lengths = overlapping(data, "<u4")[starts] + numpy.int64(LENGTH_BYTES)
        starts += lengths if has_extras.all() else numpy.where(has_extras, lengths, 0)
    return Records(buffer, starts, shard, secondary_keys)


def records_of_entries(entries: list[bytes], shard: int | None, secondary_keys: list[bytes] | None = None) -> Records:
    """Records that are entries already."""
    lengths = numpy.fromiter(map(len, entries), numpy.int64, len(entries))
    return Records(b"".join(entries), numpy.cumsum(lengths) - lengths, shard, secondary_keys)
