"""Waiting for something to be true that other tasks, or other threads, make true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Bells:
    """Who waits for one kind of news. Several loops may share it, as several stores may share their data."""

    def __init__(self) -> None:
        self._waiting: dict[_Bell, None] = {}  # a dictionary and not a set: they wake in the order in which they came

    def ring(self) -> None:
        """There is news. From any thread."""
        for bell in list(self._waiting):
            bell.ring()

    def add(self, bell: _Bell) -> None:
        self._waiting[bell] = None

    def remove(self, bell: _Bell) -> None:
        del self._waiting[bell]


async def wait_until(is_true: Callable[[], bool], *groups: Bells) -> None:
    """Returns when it is true; it is asked at first, and then whenever one of the groups is rung."""
    with _Bell(groups) as bell:
        while not is_true():
            await bell.rung()


class _Bell:
    """One waiting task's."""

    def __init__(self, groups: tuple[Bells, ...]) -> None:
        self._groups = groups
        self._loop = asyncio.get_running_loop()
        self._is_rung = asyncio.Event()

    def __enter__(self) -> Self:
        for group in self._groups:
            group.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for group in self._groups:
            group.remove(self)

    def ring(self) -> None:
        if not self._loop.is_closed():  # a loop that ended without closing its store
            self._loop.call_soon_threadsafe(self._is_rung.set)

    async def rung(self) -> None:
        await self._is_rung.wait()
        self._is_rung.clear()
