"""An event loop that wakes when it should: an open model is as good as its timers.

epoll takes its timeout in milliseconds, rounded up, which alone would make every arrival up to a millisecond late;
select takes microseconds. It sees file descriptors up to 1023 only; who loads has a handful, opened at its start.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_precisely(work: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, on a loop with exact timers."""
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        return runner.run(work)
