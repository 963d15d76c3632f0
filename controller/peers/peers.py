"""The connections of a broker to the others: one for each address, made on first use."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from controller.errors import BrokerStopping
from controller.peers.work import RemoteWork
from controller.told import is_passing, text_of, told_error
from metastore.clock import Clock
from metastore.dialling import Dialler, Errors, Method, Security, ended_by_close
from metastore.tokens import SecurityError
from txn.model.errors import SegmentUnavailable, TxnError, TxnFatal

CALLS_AT_ONCE_MAX = 256
"""To all brokers together; others wait for their turn."""
CALL_WITHIN_S = 30.0
"""How long a call may take. A segment that has to be taken over first needs some of it."""

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


class Peers:
    """The other brokers, for as long as this one lives."""

    def __init__(self, security: Security, clock: Clock) -> None:
        self._dialler = Dialler(security, clock, Errors(_closed, SecurityError))
        self._turns = asyncio.Semaphore(CALLS_AT_ONCE_MAX)

    def work(self, address: str) -> RemoteWork:
        """The segments of the broker at an address."""
        return RemoteWork(self, address)

    async def call(self, address: str, method: Method[Q, A], request: Q) -> A:
        """Asks a broker once."""
        async with self._turns:
            try:
                with ended_by_close(_closed):
                    return await self._dialler.unary(address, method, request, CALL_WITHIN_S)
            except grpc.aio.AioRpcError as failed:
                raise _judged(failed, f"{method.path} at {address}") from None

    async def close(self) -> None:
        """Ends what is under way; there can be no further calls."""
        await self._dialler.close()


def _judged(failed: grpc.aio.AioRpcError, what: str) -> TxnError:
    told = told_error(failed)
    if told is not None:
        return told
    text = f"{what}: {failed.code().name}: {text_of(failed)}"
    if is_passing(failed):
        return SegmentUnavailable(text)
    return TxnFatal(f"{text}: check that this is a broker's address, its log, and how brokers prove who they are")


def _closed() -> Exception:
    return BrokerStopping("this broker is stopping, and asks the others for nothing more")
