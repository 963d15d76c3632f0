"""What producers, consumers and readers of a segment share: the lane that they are a party of, and its end."""

from __future__ import annotations

import asyncio
from typing import Any

from controller.client.caller import Caller
from controller.client.member import Member
from controller.client.segment.lane import Lane, Party, as_error
from metastore.dialling import Method
from txn.model.errors import TxnError


class SegmentMember(Member):
    """A member of one segment, which makes its lane when all else of it is there."""

    _lane: Lane[Any, Any]

    def __init__(self, caller: Caller, segment: str, what: str) -> None:
        self.segment = segment
        self._caller = caller
        self._what = what
        self._ended: BaseException | None = None
        """Why nothing goes on."""

    def _start(self, method: Method[Any, Any], party: Party[Any, Any]) -> None:
        """Begins to talk."""
        self._lane = Lane(self._caller, self.segment, method, party, self._what, self._outlives)
        self._lane.task.add_done_callback(self._lane_ended)

    @property
    def running(self) -> asyncio.Task[None]:
        return self._lane.task

    async def wait_opened(self) -> None:
        await self._lane.wait_opened(self._caller.request_timeout_s)

    @property
    def trouble(self) -> TxnError:
        """What was in the way the last time."""
        return self._lane.trouble

    def _outlives(self, error: TxnError) -> bool:
        """Whether another stream is worth trying after an error that does not pass by itself."""
        return False

    def _lane_ended(self, task: asyncio.Task[None]) -> None:
        self._ended = as_error(task, self._what)
        self._end(self._ended)

    def _end(self, error: BaseException) -> None:
        """Nothing more is said or heard: who waits is told."""
        raise NotImplementedError
