"""Operations that are laid out (`txn.model.layout`): their columns, of a whole batch at once, without parsing.

Those of one participant often follow each other: all their bytes are the same but for a few numbers. So texts are
looked at once for each run of such records, and numbers, which are at fixed places, in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy
import pyarrow
import pyarrow.compute as pc

from metastore.spark.columns import times
from metastore.spark.records import Numbers, Records, are_new, cut
from txn.audit.views.form import NUMBER, TEXT, Array, Swift
from txn.audit.views.heads import HEAD_BYTES, NUMBERS_BYTES, Heads
from txn.audit.views.ids import ID
from txn.audit.views.letters import DIGITS_MAX, Flags, Letters
from txn.model import paths
from txn.model.operation import OperationKind

BATCH = pyarrow.list_(NUMBER)

_KEY_HEAD, _KEY_NUMBER = f"{paths.OPERATIONS}/".encode(), b"/-00"
_AROUND_ID_BYTES = len(_KEY_HEAD) + len(_KEY_NUMBER) + DIGITS_MAX
_KINDS = pyarrow.array([OperationKind.WRITE.value, OperationKind.ACK.value], TEXT)
_ASCII_MAX = 127
_SEGMENT, _SUBSCRIPTION, _BROKER, _ID = range(4)


class Laid:
    """A batch of operations. Those of another format are not sound, nor those that acknowledge parts of a batch."""

    def __init__(self, records: Records) -> None:
        letters = Letters(records.buffer)
        (values, value_bytes), (keys, key_bytes) = records.value_bounds, records.key_bounds
        key_ends = keys + key_bytes
        self.heads = Heads.at(letters, values)
        self._digits = letters.digits(key_ends, DIGITS_MAX)
        # Behind its numbers all of a record is the same in a run, up to the number in the key, which is its end.
        ends = numpy.maximum(key_ends - DIGITS_MAX, values)
        starts = numpy.minimum(values + NUMBERS_BYTES, ends)
        same = records.cut(starts, ends - starts)
        self._is_new = are_new(same) | self.heads.are_unlike
        self._is_new[1:] |= value_bytes[1:] != value_bytes[:-1]
        self.runs = runs = numpy.flatnonzero(self._is_new)
        """Where each run begins."""
        heads = self.heads.some(runs)
        is_sound = (
            heads.are_sound(value_bytes[runs])
            & (key_bytes[runs] > _AROUND_ID_BYTES)
            & letters.has(keys[runs], _KEY_HEAD)
            & letters.has(ends[runs] - len(_KEY_NUMBER), _KEY_NUMBER)
        )
        self._texts = _Texts(same, runs, heads.text_bytes, key_bytes[runs] - _AROUND_ID_BYTES, is_sound)
        self.is_sound: Flags = self._texts.is_sound[self.run_of] & self.heads.are_possible & self._digits.are_digits

    # -- of each run

    @cached_property
    def txn_ids(self) -> Array:
        """The transaction."""
        return self._texts.text(_ID)

    @cached_property
    def segments(self) -> Array:
        """The segment."""
        return self._texts.text(_SEGMENT)

    @cached_property
    def subscriptions(self) -> Array:
        """The subscription; null for writes."""
        return pc.if_else(pyarrow.array(self.heads.is_ack[self.runs]), self._texts.text(_SUBSCRIPTION), None)

    @cached_property
    def brokers(self) -> Array:
        """Who wrote it."""
        return self._texts.text(_BROKER)

    # -- of each record

    @cached_property
    def run_of(self) -> Numbers:
        """The run of each."""
        return numpy.cumsum(self._is_new) - 1

    @property
    def sequence(self) -> Numbers:
        """The number in its key."""
        return self._digits.numbers

    @property
    def columns(self) -> dict[str, Callable[[], Array]]:
        """The columns of the view, each made when it is asked for."""
        said, count = self.heads, len(self.run_of)

        def each(of_runs: Callable[[], Array]) -> Callable[[], Array]:
            return lambda: of_runs().take(pyarrow.array(self.run_of))

        return {
            "txn_id": each(lambda: self.txn_ids),
            "sequence": lambda: pyarrow.array(self.sequence),
            "kind": lambda: _KINDS.take(pyarrow.array(said.is_ack.astype(numpy.int8))),
            "segment": each(lambda: self.segments),
            "subscription": each(lambda: self.subscriptions),
            "ledger": lambda: pyarrow.array(said.ledger),
            "first_entry": lambda: pyarrow.array(said.first_entry),
            "last_entry": lambda: pyarrow.array(said.last_entry),
            "cumulative": lambda: pyarrow.array(said.is_cumulative),
            "batch": lambda: pyarrow.nulls(count, BATCH),
            "written": lambda: times(said.written_ms),
            "broker": each(lambda: self.brokers),
            "term": lambda: pyarrow.array(said.term),
        }


class _Texts:
    """What the first record of each run says in texts, of which each has one piece: three of its value, and its key."""

    def __init__(
        self, pieces: Array, runs: Numbers, text_bytes: Sequence[Numbers], id_bytes: Numbers, is_sound: Flags
    ) -> None:
        _, bounds, content = pieces.buffers()
        self._content = pyarrow.py_buffer(b"") if content is None else content
        bounds = numpy.frombuffer(bounds, numpy.int32).astype(numpy.int64)
        ends = bounds[runs + 1]
        at = numpy.minimum(bounds[runs] + (HEAD_BYTES - NUMBERS_BYTES), ends)
        self._bounds = []
        for lengths in text_bytes:
            self._bounds.append((at, lengths * is_sound))
            at = at + self._bounds[-1][1]
        # Of a record that is not sound nothing is known, not even where an id would be.
        ids = numpy.where(is_sound, ends - len(_KEY_NUMBER) - id_bytes, at)
        self._bounds.append((ids, id_bytes * is_sound))
        self.is_sound = is_sound
        self.is_sound = is_sound & self._are_texts() & _are_ids(self._pieces(_ID))

    def _are_texts(self) -> Flags:
        content = numpy.frombuffer(self._content, numpy.uint8)
        if int(content.max(initial=0)) <= _ASCII_MAX:
            return numpy.ones(len(self.is_sound), bool)
        letters = Letters(self._content)
        (segments, _), (subscriptions, _), (brokers, broker_bytes), _ = self._bounds
        # All three are text where the whole is, and each begins with a letter.
        whole = cut(self._content, segments, brokers + broker_bytes - segments)
        return letters.begins_letter(subscriptions) & letters.begins_letter(brokers) & _are_text(whole)

    def _pieces(self, number: int) -> Array:
        """An empty one where the record is not sound."""
        starts, lengths = self._bounds[number]
        return cut(self._content, starts, lengths * self.is_sound)

    def text(self, number: int) -> Array:
        """One text of each."""
        pieces = self._pieces(number)
        return pyarrow.StringArray.from_buffers(len(pieces), *pieces.buffers()[1:])


def _are_ids(pieces: Array) -> Flags:
    """Which pieces are ids of transactions. Those that are like the one before are not looked at again."""
    is_new = are_new(pieces)
    are_ids = pc.match_substring_regex(pieces.filter(pyarrow.array(is_new)), f"^{ID}$")
    found: Flags = are_ids.to_numpy(zero_copy_only=False)[numpy.cumsum(is_new) - 1]
    return found


def _are_text(pieces: Array) -> Flags:
    """Which pieces are UTF-8: nearly always all."""
    try:
        pieces.cast(TEXT)
    except pyarrow.ArrowInvalid:
        return numpy.array([_is_utf8(each) for each in pieces.to_pylist()], bool)
    return numpy.ones(len(pieces), bool)


def _is_utf8(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True


def laid_operations(records: Records) -> Swift:
    """The columns of a batch."""
    laid = Laid(records)
    return Swift(laid.columns, laid.is_sound)
