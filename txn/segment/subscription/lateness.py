"""Which records of acknowledgements came too late to be a promise: told by the records themselves. Pure.

An owner judges an acknowledgement by all that was promised before it began. So if it has accepted one that meets what
an earlier owner's record is about, and that is not decided by then, it did not know that record: that came behind it,
and was promised to nobody. Where the owner that saw it come could not remove it any more, the next one tells by that.

One that names entries is accepted only as long as nobody has them, decided or not. One of everything up to somewhere is
about what is left: so by it only records of transactions that are still open are known to be late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.subscription.claims import NOTHING, Claims, reached, share_of


class RecordedAck(NamedTuple):
    """An acknowledgement as it was found."""

    key: str
    txn_id: TxnId
    term: int
    """Of the owner that has recorded it."""
    ack: Ack


class Lateness(IntEnum):
    """Whether a record came behind the takeover by an owner that has accepted others."""

    UNKNOWN = 0
    IF_OPEN = 1
    """If its transaction is not decided."""
    CERTAIN = 2


class _Accepted:
    """What one owner has accepted in one transaction."""

    def __init__(self, txn_id: TxnId, term: int) -> None:
        self.txn_id = txn_id
        self.term = term
        self._claims = Claims()
        self._first: Position | None = None
        """Of the entries that were named."""

    def add(self, ack: Ack) -> None:
        self._claims.add(ack)
        if not ack.is_cumulative:
            self._first = ack.position if self._first is None else min(self._first, ack.position)

    def lateness_of(self, ack: Ack) -> Lateness:
        """Of another transaction's, recorded by an earlier owner."""
        shares, reach = self._claims.shares, self._claims.reach
        wanted = share_of(ack).bits
        is_before = ack.is_cumulative and self._first is not None and self._first < ack.position
        if is_before or wanted & shares.get(ack.position, NOTHING).bits:
            return Lateness.CERTAIN
        is_reached = reach is not None and (ack.is_cumulative or wanted & reached(reach, ack.position).bits != 0)
        return Lateness.IF_OPEN if is_reached else Lateness.UNKNOWN


def late_among(found: Iterable[RecordedAck]) -> Iterator[tuple[RecordedAck, Lateness]]:
    """Those that are late, or are if they are open."""
    found = list(found)
    if len({each.term for each in found}) < 2:
        return
    accepted: dict[tuple[TxnId, int], _Accepted] = {}
    for each in found:
        key = each.txn_id, each.term
        accepted.setdefault(key, _Accepted(*key)).add(each.ack)
    for each in found:
        later = (one for one in accepted.values() if one.term > each.term and one.txn_id != each.txn_id)
        lateness = max((one.lateness_of(each.ack) for one in later), default=Lateness.UNKNOWN)
        if lateness:
            yield each, lateness
