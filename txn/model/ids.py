"""Transaction ids: unique for ever, and marked with the kind of transaction that they name.

A legacy transaction, whose outcome is written as markers into the data, has an id of two numbers (`1_17`). Ids of
metadata-driven ones bear a mark in front (`md_1_17`), and in the two 64-bit halves that clients exchange the mark is
the upper 16 bits. So neither kind is ever taken for the other.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from txn.model.errors import InvalidTxnId

MARK = "md"
COORDINATORS_MAX = 1 << 16
SEQUENCE_MAX = (1 << 63) - 1

_MARK_BITS = 0x6D64
_MARK_SHIFT = 48
_TEXT = re.compile(r"md_(0|[1-9][0-9]{0,4})_(0|[1-9][0-9]{0,18})")
_LEGACY_TEXT = re.compile(r"-?[0-9]{1,19}_-?[0-9]{1,19}")
_EXPECTED = "md_COORDINATOR_SEQUENCE is expected, as in md_0_17"


@dataclass(frozen=True, slots=True, order=True)
class TxnId:
    """Which transaction: the number of the id space it comes from, and its number there."""

    coordinator: int
    sequence: int

    def __post_init__(self) -> None:
        if not 0 <= self.coordinator < COORDINATORS_MAX or not 0 <= self.sequence <= SEQUENCE_MAX:
            raise InvalidTxnId(
                f"transaction id of coordinator {self.coordinator}, sequence {self.sequence}: coordinators are "
                f"0 to {COORDINATORS_MAX - 1}, sequences 0 to {SEQUENCE_MAX}"
            )

    def __str__(self) -> str:
        return f"{MARK}_{self.coordinator}_{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> TxnId:
        """Reads the form that `str` writes; refuses ids of legacy transactions by name."""
        match = _TEXT.fullmatch(text)
        if match is not None:
            return cls(int(match[1]), int(match[2]))
        if _LEGACY_TEXT.fullmatch(text):
            raise InvalidTxnId(
                f"{text!r} is the id of a legacy transaction, with markers in the data; it cannot be used here: "
                f"{_EXPECTED}"
            )
        raise InvalidTxnId(f"{text[:80]!r} is no transaction id: {_EXPECTED}")

    @property
    def halves(self) -> tuple[int, int]:
        """The two 64-bit numbers by which clients exchange an id: the most and the least significant half."""
        return _MARK_BITS << _MARK_SHIFT | self.coordinator, self.sequence

    @classmethod
    def of_halves(cls, most: int, least: int) -> TxnId:
        """The id that these halves are; refuses those of legacy transactions."""
        if most >> _MARK_SHIFT != _MARK_BITS:
            raise InvalidTxnId(
                f"{most}_{least} is the id of a legacy transaction, with markers in the data; it cannot be used here"
            )
        return cls(most & ((1 << _MARK_SHIFT) - 1), least)
