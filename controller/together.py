"""Several works at once, of which none goes on without the others: what fails first is raised, as itself."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def together(*works: Coroutine[Any, Any, None]) -> None:
    """Returns when all are done. When one fails the others are cancelled, and its error is raised, in no group."""
    try:
        async with asyncio.TaskGroup() as tasks:
            for work in works:
                tasks.create_task(work)
    except BaseExceptionGroup as group:
        raise _first(group) from None


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
