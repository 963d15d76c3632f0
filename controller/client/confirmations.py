"""What will become of something that was sent off."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Confirmation(Generic[T]):
    """May be awaited, once or several times or never. Whoever stops waiting does not take back what was sent."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[T]) -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.shield(self._future).__await__()

    @property
    def is_done(self) -> bool:
        """Whether the outcome is known."""
        return self._future.done()


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """The outcome is an error, unless there is an outcome already."""
    if not future.done():
        future.set_exception(error)
