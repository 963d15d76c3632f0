"""Whose transactions a stream may use: those that its principal has begun."""

from __future__ import annotations

from collections import OrderedDict

from txn.coordinator import judgement
from txn.coordinator.coordinator import Coordinator
from txn.model.ids import TxnId

REMEMBERED_MAX = 1_000
"""Transactions of one stream of which it is remembered that it may use them: the owner never changes."""


class Usage:
    """Asks once for each transaction. Where there are no principals nobody is asked anything."""

    def __init__(self, coordinator: Coordinator, principal: str | None) -> None:
        self.is_checked = principal is not None
        self._coordinator = coordinator
        self._principal = principal
        self._allowed: OrderedDict[str, None] = OrderedDict()

    async def check(self, text: str) -> None:
        """NotTheOwner if the transaction belongs to somebody else; TxnNotFound if there is none."""
        if not self.is_checked or not text:
            return
        if text in self._allowed:
            self._allowed.move_to_end(text)
            return
        txn_id = TxnId.parse(text)
        judgement.check_owner(txn_id, await self._coordinator.describe(txn_id), self._principal)
        self._allowed[text] = None
        if len(self._allowed) > REMEMBERED_MAX:
            self._allowed.popitem(last=False)
