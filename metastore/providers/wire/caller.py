"""Calls to the leader of a shard: found, connected to, and asked again where that does no harm."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import grpc
import grpc.aio

from metastore.clock import Clock
from metastore.interface.errors import Unavailable
from metastore.providers.wire.channels import Channels, ended_by_close
from metastore.providers.wire.failures import Failure, Fate, failure_of, no_answer
from metastore.providers.wire.patience import Backoff, Deadline
from metastore.providers.wire.topology import Topology

CONNECT_ATTEMPT_S = 2.0
"""How long to try one address before asking whether the shard has moved."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a call."""

    message: bytes
    asked_s: float
    """When the request that was answered was made, by the monotonic clock."""


class Caller:
    """What everything that talks to shards needs."""

    def __init__(
        self, topology: Topology, channels: Channels, clock: Clock, choice: random.Random, request_timeout_s: float
    ) -> None:
        self.topology = topology
        self.channels = channels
        self.clock = clock
        self.request_timeout_s = request_timeout_s
        self._random = choice

    def backoff(self) -> Backoff:
        """The pauses between the attempts at one thing."""
        return Backoff(self._random)

    def deadline(self, timeout_s: float | None = None) -> Deadline:
        """The end of a request that begins now."""
        return Deadline(self.clock, self.request_timeout_s if timeout_s is None else timeout_s)

    async def reach(self, shard_id: int, timeout_s: float) -> str:
        """The address of a shard's leader, when there is a connection to it; Unavailable if there is none in time."""
        leader = self.topology.leader(shard_id)
        if not leader:
            try:
                async with asyncio.timeout(timeout_s):
                    while not (leader := self.topology.leader(shard_id)):
                        await self.topology.wait_for_change()
            except TimeoutError:
                raise Unavailable(f"shard {shard_id} has no leader at present ({self.topology.trouble})") from None
        if not await self.channels.become_ready(leader, timeout_s):
            trouble = f"no connection to {leader}"
            self.topology.correct(shard_id, Failure(Fate.NOT_DONE, Unavailable, trouble, ""))
            raise Unavailable(f"{trouble}, the leader of shard {shard_id}")
        return leader

    async def unary(
        self, shard_id: int, path: str, request: bytes, what: str, *, repeatable: bool, timeout_s: float | None = None
    ) -> Reply:
        """One request, one answer. What is not `repeatable` is sent once and no more, unless nothing was done."""
        deadline, backoff = self.deadline(timeout_s), self.backoff()
        while True:
            try:
                leader = await self.reach(shard_id, min(CONNECT_ATTEMPT_S, deadline.remaining_s))
            except Unavailable as error:
                if deadline.has_passed:
                    raise Unavailable(f"{what}: nothing was done within {deadline.timeout_s:g} s: {error}") from None
                continue
            asked_s = self.clock.monotonic_s()
            try:
                with ended_by_close():
                    message = await self.channels.unary(leader, path, request, deadline.remaining_s)
                    return Reply(message, asked_s)
            except grpc.aio.AioRpcError as failed:
                failure = failure_of(failed)
                if failed.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                    failure = no_answer(leader, deadline.timeout_s)
            if failure.fate is Fate.UNKNOWN and not repeatable:
                raise failure.lost(f"{what} at {leader}")
            if not failure.is_passing:
                raise failure.refusal(f"{what} at {leader}")
            await self.pause(shard_id, failure, deadline, backoff, f"{what} at {leader}")

    async def pause(self, shard_id: int, failure: Failure, deadline: Deadline, backoff: Backoff, what: str) -> None:
        """Waits a little before the next attempt; raises what is wrong if there is no time for one."""
        self.topology.correct(shard_id, failure)
        pause_s = backoff.next_s()
        if pause_s >= deadline.remaining_s:
            raise failure.refusal(what)
        await asyncio.sleep(pause_s)
