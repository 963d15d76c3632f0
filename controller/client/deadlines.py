"""The time that things under way have to be answered: one timer for all of a kind, for most never need one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar


class UnderWay(Protocol):
    """What waits for an answer."""

    @property
    def due_s(self) -> float:
        """When it is given up, by the clock of the event loop."""

    @property
    def outcome(self) -> asyncio.Future[Any]:
        """Done when there is nothing more to wait for."""


U = TypeVar("U", bound=UnderWay)


class Deadlines(Generic[U]):
    """Gives up what is overdue. What is under way is looked up only when the oldest may be."""

    def __init__(self, under_way: Callable[[], Iterable[U]], give_up: Callable[[U], None]) -> None:
        self._under_way = under_way
        self._give_up = give_up
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, due_s: float) -> None:
        """Something new is under way; none that came before it is due later."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(due_s, self._ring, due_s)

    def _ring(self, now_s: float) -> None:
        self._timer = None
        waiting = [each for each in self._under_way() if not each.outcome.done()]
        for each in waiting:
            if each.due_s <= now_s:
                self._give_up(each)
        later = [each.due_s for each in waiting if each.due_s > now_s]
        if later:
            self.watch(min(later))

    def stop(self) -> None:
        """Nothing is given up any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
