"""What will become of something that was sent off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from controller.client.transaction import Transaction

T = TypeVar("T")


class Confirmation(Generic[T]):
    """May be awaited, once or several times or never. Whoever stops waiting does not take back what was sent."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[T]) -> None:
        self._future = future

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.shield(self._future).__await__()

    def listen(self, tell: Callable[[BaseException | None], None]) -> None:
        """Tells what has failed, or None, once the outcome is known."""
        self._future.add_done_callback(
            lambda future: tell(asyncio.CancelledError() if future.cancelled() else future.exception())
        )

    def register(self, txn: Transaction) -> None:
        """A transaction cannot commit before this has succeeded."""
        txn.register(self._future)

    @property
    def is_done(self) -> bool:
        """Whether the outcome is known."""
        return self._future.done()


def all_of(confirmations: Iterable[Confirmation[None]], txn: Transaction | None = None) -> Confirmation[None]:
    """Of several: done when all of them are, with the first failure, if there is one.

    What was begun in a transaction is told by its commit: nobody has to ask here as well.
    """
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waited = list(confirmations)
    left = len(waited)
    first: BaseException | None = None

    def note(failure: BaseException | None) -> None:
        nonlocal left, first
        left -= 1
        first = first or failure
        if not left and not outcome.done():
            if first is None:
                outcome.set_result(None)
            else:
                outcome.set_exception(first)

    for each in waited:
        each.listen(note)
    if not waited:
        outcome.set_result(None)
    confirmation = Confirmation(outcome)
    if txn is not None:
        confirmation.register(txn)
    return confirmation


def failed(error: BaseException) -> Confirmation[None]:
    """Of something that could not even be begun."""
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    outcome.set_exception(error)
    outcome.exception()  # whoever asks is told; nobody has to
    return Confirmation(outcome)


def fail(future: asyncio.Future[Any], error: BaseException) -> None:
    """The outcome is an error, unless there is an outcome already."""
    if not future.done():
        future.set_exception(error)
