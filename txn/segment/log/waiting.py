"""Appends that wait to be written, in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from txn.model.position import Position

WAITING_BYTES_MAX = 64 << 20
"""Of the appends of one log that wait or are under way. Beyond that they are refused."""
ENTRY_OVERHEAD_BYTES = 64
"""What an entry counts for besides its bytes, so that empty ones are bounded as well."""


def weight(entries: Sequence[bytes]) -> int:
    """What entries count for."""
    return sum(map(len, entries)) + ENTRY_OVERHEAD_BYTES * len(entries)


class Group:
    """The entries of one append, and who waits for their confirmation."""

    def __init__(self, first: Position, entries: Sequence[bytes]) -> None:
        self.first = first
        self.entries = entries
        self.weight = weight(entries)
        self.confirmation: asyncio.Future[Position] = asyncio.get_running_loop().create_future()

    def confirm(self) -> None:
        """The entries are durable, and so is all before them."""
        if not self.confirmation.done():
            self.confirmation.set_result(self.first)

    def fail(self, error: Exception) -> None:
        """They were not confirmed."""
        if not self.confirmation.done():
            self.confirmation.set_exception(error)


class WaitingGroups:
    """A queue of groups."""

    def __init__(self) -> None:
        self._groups: deque[Group] = deque()

    def __len__(self) -> int:
        return len(self._groups)

    def add(self, group: Group) -> None:
        self._groups.append(group)

    def take(self, weight_max: int) -> list[Group]:
        """The first groups, as many as may be written together, at least one."""
        taken = [self._groups.popleft()]
        left = weight_max - taken[0].weight
        while self._groups and self._groups[0].weight <= left:
            taken.append(self._groups.popleft())
            left -= taken[-1].weight
        return taken

    def take_all(self) -> list[Group]:
        taken, self._groups = list(self._groups), deque()
        return taken
