"""An event loop on which waiting takes no time: when nothing else is to be done, the clock jumps to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
TURNS_MAX = 50_000
"""Of one scenario; more means that it goes round in circles."""


class _Jumping(selectors.SelectSelector):
    """Never waits; what it was to wait is added to the time."""

    now_s = 0.0
    turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.turns += 1
        assert self.turns < TURNS_MAX, "it goes round in circles"
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "everything waits for something that will never come"
            self.now_s += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def run_virtually(scenario: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, in no time. For what talks to nobody outside this process."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(scenario)
