"""What a broker tells without being asked again: one stream after the other, for as long as somebody wants to know."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message

from controller.client.caller import Caller, Way, failures_told
from controller.client.errors import BrokersUnavailable
from metastore.dialling import Method, is_cancelled
from txn.model.errors import TxnError, TxnRetriable

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


class Following:
    """Listens to a method with one request and many answers, until it is refused for good."""

    def __init__(
        self,
        caller: Caller,
        what: str,
        leader_of: str | None = None,
        final: tuple[type[TxnError], ...] = (),
    ) -> None:
        self._caller = caller
        self._what = what
        self._leader_of = leader_of
        """The topic whose leader is to be asked; None: any broker."""
        self._final = final
        """What does not pass here, although it is retriable."""
        self._way: Way = caller.way(leader_of)

    @property
    def trouble(self) -> TxnError:
        """What was in the way the last time."""
        return self._way.trouble

    async def run(self, method: Method[Q, A], opening: Callable[[], Q], hear: Callable[[A], Awaitable[None]]) -> None:
        """Runs until cancelled, or until a broker says something that will not pass, which is raised."""
        while True:
            address = self._way.address
            try:
                await self._listen(address, method, opening(), hear)
            except TxnRetriable as error:
                if isinstance(error, self._final):
                    raise
                await self._way.turn(address, error)

    async def _listen(
        self, address: str, method: Method[Q, A], request: Q, hear: Callable[[A], Awaitable[None]]
    ) -> None:
        """One stream, to its end, which is an error."""
        await self._caller.reach(address)
        call = self._caller.connections.answers(address, method, request)
        has_heard = False
        try:
            with failures_told(f"{self._what} at {address}"):
                while isinstance(answer := await call.read(), method.answer):
                    if not has_heard:
                        has_heard = True
                        self._way = self._caller.way(self._leader_of)
                    await hear(answer)
        except asyncio.CancelledError:
            if is_cancelled():
                raise
        finally:
            call.cancel()
        raise BrokersUnavailable(f"{self._what}: {address} ended the stream")
