"""A store of the contract, used from code that knows no event loop; its errors as those of the data source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

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


class Loop:
    """An event loop of our own, with a store on it."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
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
