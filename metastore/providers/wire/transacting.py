"""The transactions of one shard: by themselves while few are under way, several in one call where many come at once.

A call costs as much as dozens of operations, on both sides. What came together is judged one by one, as if each had
come alone: a refused one is asked alone again, which does nothing but have the server say why.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from metastore.interface.errors import OutcomeUnknown, Overloaded, StoreClosed, StoreError, Unavailable
from metastore.pb import tidemark_pb2 as pb
from metastore.providers.wire.caller import Caller
from metastore.providers.wire.channels import CLOSED
from metastore.providers.wire.failures import MethodUnknown
from metastore.providers.wire.patience import Deadline
from metastore.providers.wire.protocol import TRANSACT, TRANSACT_MANY

CALLS_MAX = 2
"""Calls under way, beyond which those that come wait and go together: one is on the way while one is worked on."""
TOGETHER_BYTES_MAX = 4 << 20
TOGETHER_WITHIN_S = 1.0
"""Those that go together began within so long: all of them end when the oldest one's time is over."""
WAITING_MAX = 100_000
WHAT = "transact"

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A transaction that was not sent yet."""

    request: bytes
    answer: asyncio.Future[pb.TransactResponse]
    deadline: Deadline

    def end(self, response: pb.TransactResponse) -> None:
        """It was answered."""
        if not self.answer.done():
            self.answer.set_result(response)

    def fail(self, error: StoreError) -> None:
        """It has failed, unless it has an answer; or nobody waits any more."""
        if not self.answer.done():
            self.answer.set_exception(error)


class Transacting:
    """One shard's. `together_max` is how many the server takes in one call; 0 if it takes them one by one only."""

    def __init__(self, shard_id: int, caller: Caller, together_max: int) -> None:
        self._shard_id = shard_id
        self._caller = caller
        self._together_max = together_max
        self._waiting: deque[Waiting] = deque()
        self._calls = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def ask(self, request: bytes) -> pb.TransactResponse:
        """What the server answers to a TransactRequest."""
        if self._is_closed:
            raise StoreClosed(CLOSED)
        if not self._together_max or self._calls < CALLS_MAX:
            with self._counted():
                return await self._alone(request)
        if len(self._waiting) >= WAITING_MAX:
            raise Overloaded(f"{WHAT}: {WAITING_MAX} wait already (WAITING_MAX): do fewer things at a time")
        waiting = Waiting(request, asyncio.get_running_loop().create_future(), self._caller.deadline())
        self._waiting.append(waiting)
        return await waiting.answer

    async def close(self) -> None:
        """Ends what is under way."""
        self._is_closed = True
        while self._waiting:
            self._waiting.popleft().fail(StoreClosed(CLOSED))
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """A call, behind which the next one begins."""
        self._calls += 1
        try:
            yield
        finally:
            self._end_call()

    def _end_call(self) -> None:
        self._calls -= 1
        taken = self._take()
        if taken:
            self._calls += 1  # at once: nobody who comes meanwhile goes before them
            task = asyncio.get_running_loop().create_task(self._together(taken))
            self._tasks.add(task)
            task.add_done_callback(self._end_together)

    def _end_together(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._end_call()

    def _take(self) -> list[Waiting]:
        """Those that go together now; whoever has stopped waiting, or has waited for too long, is left out."""
        taken: list[Waiting] = []
        size = 0
        while self._waiting and len(taken) < max(1, self._together_max):
            waiting = self._waiting[0]
            if not waiting.answer.done() and waiting.deadline.has_passed:
                text = f"{WHAT}: nothing was done within {waiting.deadline.timeout_s:g} s: others were under way"
                waiting.fail(Unavailable(text))
            if not waiting.answer.done():
                size += len(waiting.request)
                if taken and not (size <= TOGETHER_BYTES_MAX and _began_together(taken[0], waiting)):
                    break
                taken.append(waiting)
            self._waiting.popleft()
        return taken

    async def _alone(self, request: bytes, timeout_s: float | None = None) -> pb.TransactResponse:
        reply = await self._caller.unary(self._shard_id, TRANSACT, request, WHAT, repeatable=False, timeout_s=timeout_s)
        return _read(pb.TransactResponse, reply.message)

    async def _together(self, taken: list[Waiting]) -> None:
        try:
            await self._ask_many(taken)
        except StoreError as error:
            for waiting in taken:
                waiting.fail(copy.copy(error))
        finally:
            for waiting in taken:
                waiting.fail(StoreClosed(f"{WHAT}: {CLOSED}: it may or may not have taken effect"))

    async def _ask_many(self, taken: list[Waiting]) -> None:
        if len(taken) == 1 or not self._together_max:
            for waiting in taken:
                await self._ask_alone(waiting)
            return
        request = pb.TransactManyRequest(shard=self._shard_id)
        for waiting in taken:
            request.transactions.add().MergeFromString(waiting.request)
        message = request.SerializeToString()
        remaining_s = taken[0].deadline.remaining_s
        try:
            reply = await self._caller.unary(
                self._shard_id, TRANSACT_MANY, message, WHAT, repeatable=False, timeout_s=remaining_s
            )
        except MethodUnknown:  # an older server has taken this one's place
            self._together_max = 0
            await self._ask_many(taken)
            return
        for waiting, answer in zip(taken, _answers(reply.message, len(taken)), strict=True):
            match answer.WhichOneof("answer"):
                case "response":
                    waiting.end(answer.response)
                case "refused":
                    pass
                case _:
                    text = f"{WHAT}: the server failed: it may or may not have taken effect: read what is there"
                    waiting.fail(OutcomeUnknown(text))
        for waiting in taken:
            await self._ask_alone(waiting)  # whoever was refused: hears why, or what is no longer wrong is done

    async def _ask_alone(self, waiting: Waiting) -> None:
        """As if it had never been with others; does nothing for whoever has an answer or does not wait any more."""
        if waiting.answer.done():
            return
        try:
            waiting.end(await self._alone(waiting.request, waiting.deadline.remaining_s))
        except StoreError as error:
            waiting.fail(error)


def _began_together(first: Waiting, other: Waiting) -> bool:
    return other.deadline.at_s - first.deadline.at_s <= TOGETHER_WITHIN_S


def _answers(message: bytes, count: int) -> Sequence[pb.TransactAnswer]:
    """As many as there were transactions."""
    answers = _read(pb.TransactManyResponse, message).answers
    if len(answers) != count:
        raise OutcomeUnknown(f"{WHAT}: {len(answers)} answers for {count} transactions: read what is there")
    return answers


def _read(kind: type[M], message: bytes) -> M:
    try:
        return kind.FromString(message)
    except DecodeError as error:
        raise OutcomeUnknown(f"{WHAT}: an answer that cannot be read ({error}): read what is there") from None
