"""Acknowledgements as sets of messages: what is acknowledged, what is held, and what is a conflict."""

from __future__ import annotations

from collections.abc import Mapping

from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import Ack

Messages = frozenset[tuple[Position, int]]
NONE: Messages = frozenset()


class AcksModel:
    """Messages, and whose they are."""

    def __init__(self, sizes: Mapping[Position, int]) -> None:
        self.sizes = sizes
        """How many messages each entry has."""
        self.acknowledged = NONE
        self.held: dict[TxnId, Messages] = {}
        self.reach: dict[TxnId, Messages] = {}
        """What its cumulative acknowledgement is about, acknowledged or not."""

    @property
    def everything(self) -> Messages:
        return frozenset((position, index) for position, size in self.sizes.items() for index in range(size))

    def about(self, ack: Ack) -> Messages:
        """The messages that an acknowledgement is about."""
        indexes = ack.batch or tuple(range(self.sizes[ack.position]))
        if not ack.is_cumulative:
            return frozenset((ack.position, index) for index in indexes)
        return frozenset(message for message in self.everything if message <= (ack.position, max(indexes)))

    def others(self, txn_id: TxnId | None) -> Messages:
        """What is held by others than that."""
        return NONE.union(*(held for other, held in self.held.items() if other != txn_id))

    def may(self, txn_id: TxnId | None, ack: Ack) -> bool:
        wanted = self.about(ack)
        left = wanted - self.acknowledged
        if txn_id is None:
            return not left & self.others(None)
        if wanted <= self.reach.get(txn_id, NONE):
            return True
        if ack.is_cumulative:
            return bool(left) and not left & self.others(txn_id)
        own = self.held.get(txn_id, NONE) | self.reach.get(txn_id, NONE)
        return wanted <= own or not wanted & (self.acknowledged | self.others(txn_id))

    def acknowledge(self, txn_id: TxnId | None, ack: Ack) -> None:
        wanted = self.about(ack)
        if txn_id is None:
            self.acknowledged |= wanted
            return
        taken = wanted - (self.acknowledged if ack.is_cumulative else NONE)
        self.held[txn_id] = self.held.get(txn_id, NONE) | taken
        if ack.is_cumulative:
            self.reach[txn_id] = self.reach.get(txn_id, NONE) | wanted

    def end(self, txn_id: TxnId, *, is_committed: bool) -> None:
        held = self.held.pop(txn_id, NONE)
        self.reach.pop(txn_id, None)
        if is_committed:
            self.acknowledged |= held

    def to_deliver(self) -> list[Position]:
        """The entries that somebody who has nothing yet is to get."""
        left = self.everything - self.acknowledged - self.others(None)
        return sorted({position for position, _ in left})
