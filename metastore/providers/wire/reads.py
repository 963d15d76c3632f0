"""The gets of one shard: gathered into Read requests, several of which may be under way."""

from __future__ import annotations

import asyncio
from collections import deque

import grpc.aio
from google.protobuf.message import DecodeError

from metastore.interface.errors import StoreClosed, StoreError, StoreFailed, Unavailable
from metastore.pb import oxia_pb2 as pb
from metastore.providers.wire.backlog import Batch, Operation
from metastore.providers.wire.caller import CONNECT_ATTEMPT_S, Caller
from metastore.providers.wire.channels import CLOSED
from metastore.providers.wire.failures import Failure, Fate, broken_protocol, failure_of
from metastore.providers.wire.lane import Lane
from metastore.providers.wire.protocol import READ
from metastore.providers.wire.settings import Settings

REQUESTS_UNDER_WAY_MAX = 8


class ReadLane(Lane):
    """One shard's gets. They do no harm, so they are asked again until their time is over."""

    def __init__(self, shard_id: int, caller: Caller, settings: Settings) -> None:
        super().__init__(shard_id, caller, settings)
        self._head = pb.ReadRequest(shard=shard_id).SerializeToString()
        self._asking: set[asyncio.Task[None]] = set()
        self._is_woken = False

    def wake(self) -> None:
        """Sends in the next turn of the loop, so that everybody who is about to get something can come along."""
        if not self._is_woken:
            self._is_woken = True
            asyncio.get_running_loop().call_soon(self._flush)

    async def stop(self) -> None:
        asking = set(self._asking)
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)

    def oldest_sent_s(self) -> float | None:
        return None  # every request has a deadline of its own

    def give_up_sent(self) -> None:
        raise AssertionError("gRPC watches the deadlines of reads")

    def _flush(self) -> None:
        self._is_woken = False
        while self.backlog and not self.may_gather and len(self._asking) < REQUESTS_UNDER_WAY_MAX:
            if self._asking and not self.backlog.fills_a_batch:
                return
            batch = self.backlog.take()
            if batch is None:
                return
            task = asyncio.create_task(self._ask(batch), name=f"reads of shard {self.shard_id}")
            self._asking.add(task)
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._asking.discard(task)
        if not task.cancelled():
            task.result()
            self._flush()

    async def _ask(self, batch: Batch) -> None:
        unanswered = deque(batch.operations)
        try:
            leader = await self.caller.reach(self.shard_id, min(CONNECT_ATTEMPT_S, self._remaining_s(batch)))
            failure = await self._read(leader, batch, unanswered)
        except Unavailable as error:
            leader, failure = "", Failure(Fate.NOT_DONE, Unavailable, str(error), "")
        except StoreError as error:
            for operation in unanswered:
                self.fail(operation, error)
            return
        except asyncio.CancelledError:
            for operation in unanswered:
                self.fail(operation, StoreClosed(CLOSED))
            raise
        if failure is None:
            self.backoff.reset()
        elif failure.is_passing:
            self.in_trouble(failure.text)
            self.put_back(list(unanswered))
            self.caller.topology.correct(self.shard_id, failure)
            await asyncio.sleep(self.backoff.next_s())
        else:
            self.refuse(Batch(list(unanswered)), failure, leader)

    async def _read(self, leader: str, batch: Batch, unanswered: deque[Operation]) -> Failure | None:
        """One request; takes off `unanswered` what it has answered, and returns why it has not answered all."""
        call = self.caller.channels.answers(leader, READ, batch.encode(self._head), self._remaining_s(batch))
        try:
            while (message := await call.read()) is not grpc.aio.EOF:
                assert isinstance(message, bytes)
                for answer in pb.ReadResponse.FromString(message).gets:
                    if not unanswered:
                        return None
                    self.settle(unanswered.popleft(), answer)
        except grpc.aio.AioRpcError as failed:
            return failure_of(failed)
        except DecodeError:
            return broken_protocol(leader, "answered a read with something that cannot be read")
        for operation in unanswered:
            self.fail(operation, StoreFailed(f"{operation.what} at {leader}: the server left out its answer"))
        return None

    def _remaining_s(self, batch: Batch) -> float:
        return max(0.0, batch.operations[0].deadline_s - self.caller.clock.monotonic_s())
