"""How far a segment may be read: to before the first entry of its oldest open transaction.

Pure, and no matter how many are open, each step takes the same time.

A transaction is *pinned* at the first position that it takes, before anything is written there. Positions only grow, so
the pins come in their order, and the oldest is always the first of them. Where entries turn out not to be written after
all, the newest pins are taken back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from txn.model.ids import TxnId
from txn.model.position import Position


class Horizon:
    """The pins of the open transactions of a segment."""

    def __init__(self) -> None:
        # Linked, so that the first is found at once however many before it have gone.
        self._pins: OrderedDict[TxnId, Position] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pins)

    @property
    def first(self) -> Position | None:
        """The first entry of the oldest open transaction."""
        return self._pins[next(iter(self._pins))] if self._pins else None

    @property
    def oldest(self) -> TxnId | None:
        """The transaction that holds the horizon."""
        return next(iter(self._pins), None)

    def pin(self, txn_id: TxnId, position: Position) -> None:
        """The transaction takes that position; nothing happens if it has taken one before."""
        if txn_id not in self._pins:
            newest = self._pins[next(reversed(self._pins))] if self._pins else position
            assert newest <= position, f"{txn_id} takes {position}, which lies before {newest}: positions only grow"
            self._pins[txn_id] = position

    def release(self, txn_id: TxnId) -> None:
        """The transaction holds nothing any more."""
        self._pins.pop(txn_id, None)

    def repin(self, bound: Position, pins: Mapping[TxnId, Position]) -> None:
        """What was pinned at or behind a bound is as said here, and not pinned if nothing is said of it."""
        while self._pins and self._pins[next(reversed(self._pins))] >= bound:
            self._pins.popitem()
        for txn_id, position in _in_order(pins.items()):
            self.pin(txn_id, position)

    def restore(self, pins: Mapping[TxnId, Position]) -> None:
        """The pins that an owner finds when it takes over."""
        assert not self._pins, "an owner restores once, before it pins anything"
        for txn_id, position in _in_order(pins.items()):
            self.pin(txn_id, position)


def _in_order(pins: Iterable[tuple[TxnId, Position]]) -> list[tuple[TxnId, Position]]:
    return sorted(pins, key=lambda each: (each[1], each[0]))
