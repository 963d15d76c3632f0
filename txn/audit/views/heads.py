"""What operations that are laid out (`txn.model.layout`) begin with: numbers at fixed places, of a whole batch."""

from __future__ import annotations

from typing import Any

import numpy

from metastore.spark.records import Numbers
from txn.audit.views.letters import WORD, Flags, Letters
from txn.decoding.fields import TIME_MS_MAX
from txn.model import layout

_HEAD = numpy.dtype(
    [
        *(("about", "<u4"), ("segment", "<u4"), ("subscription", "<u4"), ("broker", "<u4")),
        *(("ledger", "<i8"), ("first", "<i8"), ("last", "<i8"), ("term", "<i8"), ("written", "<i8"), ("batch", "<u8")),
    ]
)
"""`about` are format and flags. A number that does not fit is negative."""
_FLAGS_AT = 8
"""The first bit of the flags in `about`."""
_ABOUT_MAX = layout.FORMAT | layout.FLAGS << _FLAGS_AT
_IS_OPERATION = numpy.zeros(_ABOUT_MAX + 2, bool)
_IS_OPERATION[
    [layout.FORMAT | flags << _FLAGS_AT for flags in (0, layout.SEVERAL, layout.ACK, layout.ACK | layout.CUMULATIVE)]
] = True
"""By what a record is about; the last place is for all beyond."""

HEAD_BYTES = layout.HEAD.size
NUMBERS_BYTES = HEAD_BYTES - _HEAD["batch"].itemsize
"""Of a head: what is in front of this, is another number in each record."""
assert _HEAD.itemsize == HEAD_BYTES


class Heads:
    """The heads of some records, whether these are sound or not."""

    def __init__(self, words: Any) -> None:
        self._words = words
        self._fields = words.view(_HEAD).reshape(-1)

    @classmethod
    def at(cls, letters: Letters, values: Numbers) -> Heads:
        """The heads of values."""
        return cls(letters.rows(values, HEAD_BYTES // WORD))

    def _has(self, flag: int) -> Flags:
        found: Flags = self._fields["about"] & (flag << _FLAGS_AT) != 0
        return found

    @property
    def is_ack(self) -> Flags:
        """Whether it is an acknowledgement."""
        return self._has(layout.ACK)

    @property
    def is_cumulative(self) -> Flags:
        """Whether it acknowledges everything before, too."""
        return self._has(layout.CUMULATIVE)

    @property
    def ledger(self) -> Numbers:
        """Where its entries are."""
        return self._fields["ledger"]

    @property
    def first_entry(self) -> Numbers:
        """The first of them."""
        return self._fields["first"]

    @property
    def last_entry(self) -> Numbers:
        """The last of them."""
        return self._fields["last"]

    @property
    def term(self) -> Numbers:
        """The term of whoever wrote it."""
        return self._fields["term"]

    @property
    def written_ms(self) -> Numbers:
        """When it was written."""
        return self._fields["written"]

    @property
    def are_possible(self) -> Flags:
        """Whether there can be such numbers."""
        first, last = self.first_entry, self.last_entry
        is_one = last == first
        if not is_one.all():
            is_one |= self._has(layout.SEVERAL) & (last > first)
        is_number = self.ledger | first | self.term | self.written_ms >= 0
        return is_one & is_number & (self.written_ms <= TIME_MS_MAX)

    @property
    def are_unlike(self) -> Flags:
        """Whether it is another kind of operation than the one before, or has texts of other lengths."""
        found = numpy.ones(len(self._words), bool)
        first, second = self._words[:, 0], self._words[:, 1]
        found[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        return found

    def some(self, rows: Numbers) -> Heads:
        """Those of some records."""
        return Heads(self._words[rows])

    # -- what stands before the numbers

    @property
    def text_bytes(self) -> tuple[Numbers, Numbers, Numbers]:
        """How long each text is: segment, subscription, broker."""
        segment, subscription, broker = (
            self._fields[name].astype(numpy.int64) for name in ("segment", "subscription", "broker")
        )
        return segment, subscription, broker

    def are_sound(self, value_bytes: Numbers) -> Flags:
        """Whether it is an operation's, and as long as it says; its numbers are another question."""
        segment, subscription, broker = self.text_bytes
        return (
            _IS_OPERATION[numpy.minimum(self._fields["about"], _ABOUT_MAX + 1)]
            & (self.is_ack | (subscription == 0))
            & (value_bytes == HEAD_BYTES + segment + subscription + broker)
            & (self._fields["batch"] == 0)
        )
