"""A store of the contract, used from code that knows no event loop; its errors as those of the data source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from metastore.clock import Clock, SystemClock
from metastore.interface import (
    InvalidRequest,
    MetadataStore,
    NamespaceNotFound,
    Retriable,
    StoreError,
    TokenExpired,
    open_promptly,
)
from metastore.spark.errors import PointGone, ReadError, StoreUnreachable, WrongOption

T = TypeVar("T")

_KINDS: tuple[tuple[type[StoreError], type[ReadError]], ...] = (
    (TokenExpired, PointGone),
    (InvalidRequest, WrongOption),
    (NamespaceNotFound, WrongOption),
    (Retriable, StoreUnreachable),
)


@contextmanager
def told() -> Iterator[None]:
    """Around what asks a store."""
    try:
        yield
    except StoreError as error:
        kind = next((of_source for of_store, of_source in _KINDS if isinstance(error, of_store)), StoreUnreachable)
        raise kind(str(error)) from None


class PatientLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while somebody runs it.

    In between, whoever reads does something else, for as long as he likes. What comes meanwhile waits for him, and is
    not late: no timer may say so before the loop has had a look.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._now_s = clock.monotonic_s
        self._left_s = self._now_s()
        """When it was run last."""
        self._stood_s = 0.0
        """For how long it stood still until it was."""
        self._is_run = False

    def time(self) -> float:
        return (self._now_s() if self._is_run else self._left_s) - self._stood_s

    def run_forever(self) -> None:
        self._stood_s += self._now_s() - self._left_s
        self._is_run = True
        try:
            super().run_forever()
        finally:
            self._left_s = self._now_s()
            self._is_run = False


class Loop:
    """An event loop of our own, with a store on it."""

    def __init__(self, url: str, clock: Clock | None = None) -> None:
        self._runner = asyncio.Runner(loop_factory=lambda: PatientLoop(clock or SystemClock()))
        try:
            self.store: MetadataStore = self.run(lambda: open_promptly(url))
        except BaseException:
            self._runner.close()
            raise

    def run(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks, and waits for the answer."""

        async def asked() -> T:
            return await ask()

        with told():
            return self._runner.run(asked())

    def each(self, portions: AsyncGenerator[T, None]) -> Iterator[T]:
        """What a generator yields."""
        nothing: Any = object()
        try:
            while (portion := self.run(lambda: anext(portions, nothing))) is not nothing:
                yield portion
        finally:
            self.run(portions.aclose)

    def close(self) -> None:
        """Ends the store and the loop."""
        try:
            self.run(self.store.close)
        finally:
            self._runner.close()
