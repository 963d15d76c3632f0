"""Calls of gRPC: what is asked and answered, and three things that gRPC's own calls leave to be wished."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio

Q = TypeVar("Q")
A = TypeVar("A")

UnaryCall = grpc.aio.UnaryUnaryCall[Q, A]
AnswerCall = grpc.aio.UnaryStreamCall[Q, A]
StreamCall = grpc.aio.StreamStreamCall[Q, A]


@dataclass(frozen=True, slots=True)
class Method(Generic[Q, A]):
    """A method with its messages. Where these are plain bytes, those who call know how to read and write them."""

    path: str
    """`/package.Service/Name`."""
    request: type[Q]
    answer: type[A]
    is_two_way: bool = False
    """Whether there are any number of requests."""

    @property
    def codecs(self) -> tuple[Any, Any]:
        """What gRPC is to write requests and read answers with."""
        return getattr(self.request, "SerializeToString", None), getattr(self.answer, "FromString", None)


@contextmanager
def ended_by_close(closed: Callable[[], Exception]) -> Iterator[None]:
    """Around a wait for gRPC: says that all was closed, where the call was ended by closing its channel.

    gRPC reports that as a cancellation, just as if somebody had cancelled the task that waits.
    """
    try:
        yield
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        raise closed() from None


def is_cancelled() -> bool:
    """Whether somebody wants the current task to end."""
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling() > 0


async def send(call: StreamCall[Q, A], message: Q) -> bool:
    """Sends a message; False if the stream has ended. Why it has, who reads from it is told.

    This does what `call.write` does, but for one thing: where a message cannot be sent, `write` puts "Internal error
    from Core" in the place of the status with which the server has ended the stream, and what that said is lost.
    """
    stream: Any = call
    encode = stream._request_serializer
    try:
        await call.wait_for_connection()
        await stream._cython_call.send_serialized_message(message if encode is None else encode(message))
    except (grpc.aio.AioRpcError, grpc.aio.InternalError):
        return False
    except asyncio.CancelledError:
        if is_cancelled():
            raise
        return False  # the call was cancelled, not who sends
    return True


def let_go(call: Any) -> None:
    """Wakes who waits for the connection of a call that has ended: where it was cancelled, gRPC itself forgets them."""
    call._metadata_sent.set()
