"""Operations that are laid out (`txn.model.layout`): their columns, of a whole batch at once, without parsing.

Those of one participant often follow each other: all their bytes are the same but for a few numbers. So texts are
looked at once for each run of such records, and numbers, which are at fixed places, in all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy
import pyarrow
import pyarrow.compute as pc

from metastore.spark.columns import times
from metastore.spark.records import Numbers, Records, are_new
from txn.audit.views.form import NUMBER, TEXT, Array, Swift
from txn.audit.views.ids import ID
from txn.audit.views.letters import DIGITS_MAX, WORD, Digits, Flags, Letters
from txn.decoding.fields import TIME_MS_MAX
from txn.model import layout, paths
from txn.model.operation import OperationKind

BATCH = pyarrow.list_(NUMBER)

_KEY_HEAD, _KEY_NUMBER = f"{paths.OPERATIONS}/".encode(), b"/-00"
_HEAD_WORDS = layout.HEAD.size // WORD
_KINDS = pyarrow.array([OperationKind.WRITE.value, OperationKind.ACK.value], TEXT)
_LOW, _HALF = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)


@dataclass(frozen=True, slots=True)
class Numbered:
    """What each record says in numbers, whether it is sound or not."""

    is_ack: Flags
    is_cumulative: Flags
    ledger: Numbers
    first_entry: Numbers
    last_entry: Numbers
    term: Numbers
    written_ms: Numbers
    digits: Digits

    @property
    def sequence(self) -> Numbers:
        """The number in its key."""
        return self.digits.numbers


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the texts of each record are, and whether all else of it is as it should be."""

    value: Numbers
    texts: Numbers
    """The segment, the subscription and who wrote it, one behind the other."""
    segment_bytes: Numbers
    subscription_bytes: Numbers
    broker_bytes: Numbers
    key: Numbers
    number: Numbers
    """In the key, behind the transaction's id: where its end begins, which is a hyphen and a number."""
    is_sound: Flags

    def some(self, rows: Numbers) -> Placed:
        """Those of some records."""
        return Placed(*(getattr(self, name)[rows] for name in Placed.__slots__))


def _read(letters: Letters, records: Records) -> tuple[Numbered, Placed]:
    starts, sizes = records.value_bounds
    head = letters.rows(starts, _HEAD_WORDS)
    about, segment_bytes = head[:, 0] & _LOW, _number(head[:, 0] >> _HALF)
    subscription_bytes, broker_bytes = _number(head[:, 1] & _LOW), _number(head[:, 1] >> _HALF)
    ledger, first, last, term, written_ms = (_number(head[:, place]) for place in range(2, 7))
    flags = about >> numpy.uint64(8)
    is_ack, is_cumulative, is_several = (
        flags & numpy.uint64(flag) != 0 for flag in (layout.ACK, layout.CUMULATIVE, layout.SEVERAL)
    )
    key, key_bytes = records.key_bounds
    digits = letters.digits(key + key_bytes, DIGITS_MAX)
    number = key + key_bytes - DIGITS_MAX - len(_KEY_NUMBER)
    is_sound = (
        (about & numpy.uint64(0xFF) == numpy.uint64(layout.FORMAT))
        & (flags <= numpy.uint64(layout.FLAGS))
        & (sizes == layout.HEAD.size + segment_bytes + subscription_bytes + broker_bytes)
        & (head[:, 7] == 0)
        & numpy.where(is_ack, ~is_several, ~is_cumulative & (subscription_bytes == 0))
        & (ledger | first | term | written_ms >= 0)
        & numpy.where(is_several, last >= first, last == first)
        & (written_ms <= TIME_MS_MAX)
        & digits.are_digits
        & (number > key + len(_KEY_HEAD))
    )
    texts = starts + layout.HEAD.size
    placed = Placed(starts, texts, segment_bytes, subscription_bytes, broker_bytes, key, number, is_sound)
    return Numbered(is_ack, is_cumulative, ledger, first, last, term, written_ms, digits), placed


def _begins_run(records: Records, said: Numbered, placed: Placed) -> Flags:
    """Whether each is of another participant than the one before, or says other texts."""
    # From the texts on all is the same in a run, up to the number in the key, which stands behind the value.
    lengths = placed.number + len(_KEY_NUMBER) - placed.texts
    start = numpy.where(placed.is_sound, placed.texts, placed.value)
    same = records.cut(start, numpy.where(placed.is_sound, lengths, 0))
    is_new: Flags = are_new(same)
    for each in (placed.segment_bytes, placed.subscription_bytes, placed.broker_bytes, said.is_ack, placed.is_sound):
        is_new[1:] |= each[1:] != each[:-1]
    return is_new


class Laid:
    """A batch of operations. Those of another format are not sound, nor those that acknowledge parts of a batch."""

    def __init__(self, records: Records) -> None:
        letters = Letters(records.buffer)
        self.numbers, placed = _read(letters, records)
        self._is_new = _begins_run(records, self.numbers, placed)
        self.runs = numpy.flatnonzero(self._is_new)
        """Where each run begins."""
        self._some = records.some(self.runs)
        self._placed = placed.some(self.runs)
        self._is_sound_run = self._placed.is_sound
        self._is_sound_run = self._checked(letters)
        self.is_sound: Flags = self._is_sound_run[self.run_of]

    def _checked(self, letters: Letters) -> Flags:
        """Which runs have texts, and keys `/txn-op/ID/-NUMBER`."""
        placed = self._placed
        is_sound = placed.is_sound & letters.has(placed.key, _KEY_HEAD) & letters.has(placed.number, _KEY_NUMBER)
        for at in (self._subscriptions_at, self._brokers_at):
            is_sound &= letters.begins_letter(at)
        # All three are text where the whole is, and each begins with a letter.
        is_sound &= _is_text(self._cut(placed.texts, self._brokers_at + placed.broker_bytes - placed.texts))
        return is_sound & _are_ids(self._cut(*self._ids))

    @property
    def _subscriptions_at(self) -> Numbers:
        return self._placed.texts + self._placed.segment_bytes

    @property
    def _brokers_at(self) -> Numbers:
        return self._subscriptions_at + self._placed.subscription_bytes

    @property
    def _ids(self) -> tuple[Numbers, Numbers]:
        """Where the transaction's id is, and its length."""
        start = self._placed.key + len(_KEY_HEAD)
        return start, self._placed.number - start

    def _cut(self, at: Numbers, lengths: Numbers) -> Array:
        """A piece of the first record of each run; an empty one where that is not sound."""
        start = numpy.where(self._is_sound_run, at, self._placed.value)
        return self._some.cut(start, numpy.where(self._is_sound_run, lengths, 0))

    def _text(self, at: Numbers, lengths: Numbers) -> Array:
        pieces = self._cut(at, lengths)
        return pyarrow.StringArray.from_buffers(len(pieces), *pieces.buffers()[1:])

    # -- of each run

    @cached_property
    def txn_ids(self) -> Array:
        """The transaction."""
        return self._text(*self._ids)

    @cached_property
    def segments(self) -> Array:
        """The segment."""
        return self._text(self._placed.texts, self._placed.segment_bytes)

    @cached_property
    def subscriptions(self) -> Array:
        """The subscription; null for writes."""
        found = self._text(self._subscriptions_at, self._placed.subscription_bytes)
        return pc.if_else(pyarrow.array(self.numbers.is_ack[self.runs]), found, None)

    @cached_property
    def brokers(self) -> Array:
        """Who wrote it."""
        return self._text(self._brokers_at, self._placed.broker_bytes)

    # -- of each record

    @cached_property
    def run_of(self) -> Numbers:
        """The run of each."""
        return numpy.cumsum(self._is_new) - 1

    @property
    def columns(self) -> dict[str, Callable[[], Array]]:
        """The columns of the view, each made when it is asked for."""
        said, count = self.numbers, len(self.run_of)

        def each(of_runs: Callable[[], Array]) -> Callable[[], Array]:
            return lambda: of_runs().take(pyarrow.array(self.run_of))

        return {
            "txn_id": each(lambda: self.txn_ids),
            "sequence": lambda: pyarrow.array(said.sequence),
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


def _are_ids(pieces: Array) -> Flags:
    """Which pieces are ids of transactions. Those that are like the one before are not looked at again."""
    is_new = are_new(pieces)
    are_ids = pc.match_substring_regex(pieces.filter(pyarrow.array(is_new)), f"^{ID}$")
    found: Flags = are_ids.to_numpy(zero_copy_only=False)[numpy.cumsum(is_new) - 1]
    return found


def _is_text(pieces: Array) -> Flags:
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
    return Swift(laid.columns, pyarrow.array(laid.is_sound))


def _number(words: Array) -> Numbers:
    """As int64, in one piece; what does not fit is negative."""
    return numpy.ascontiguousarray(words).view(numpy.int64)
