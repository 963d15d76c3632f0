"""A member of a divided subscription: it is on the books of the topic's leader, who says which segments it reads.

The stream to the leader lasts like any other: it follows the topic to whoever leads it, and by its name the member
comes back to what it had. What it is told has a number, (term, generation); what has a smaller one than it has heard is
dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controller.client.caller import Caller
from controller.client.errors import BrokerFailed, BrokersUnavailable
from controller.client.protocol import SUBSCRIBE
from controller.client.segment.consuming import Assigned
from controller.client.segment.lane import Lane, as_error
from controller.client.values import EARLIEST, Edge
from controller.layout import HashRange, TopicName
from controller.pb import topics_pb2 as pb
from controller.subscriptions.errors import MemberReplaced
from controller.topics.errors import SubscriptionNotFound
from metastore.coordination import Backoff
from txn.model.errors import TxnError


class Share(NamedTuple):
    """What a member has of a segment."""

    segment_id: int
    segment: str
    """Its name; of one that stands for a topic of the old kind, that one's."""
    buckets: tuple[HashRange, ...] = ()
    """All buckets, if it is shared with others; nothing if it is the member's alone."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """All that a member reads from now on."""

    number: Assigned
    shares: Mapping[int, Share]
    """By segment."""


@dataclass(frozen=True, slots=True)
class Books:
    """Which subscription, and who in it."""

    topic: TopicName
    subscription: str
    consumer: str
    kind: pb.TopicSubscriptionKind.ValueType
    start: Edge | None
    """Where the subscription begins if there is none yet; None: it has to exist."""


class Membership:
    """On the books until it is closed. `assigned` is told what is new, and the first thing that each stream says."""

    def __init__(
        self,
        caller: Caller,
        books: Books,
        assigned: Callable[[Assignment], None],
        ended: Callable[[BaseException], None],
    ) -> None:
        self._caller = caller
        self._books = books
        self._assigned = assigned
        self._ended = ended
        self._newest: Assigned | None = None
        self._is_leaving = False
        self._has_left = False
        self._to_say = asyncio.Event()
        self._backoff = Backoff(caller.pace)
        self._asking: asyncio.Task[None] | None = None
        self._what = f"consumer {books.consumer!r} of {books.subscription!r} of {books.topic}"
        self._lane = Lane(caller, str(books.topic), SUBSCRIBE, self, self._what)
        self._lane.task.add_done_callback(self._end)

    @property
    def running(self) -> asyncio.Task[None]:
        """Ends with it."""
        return self._lane.task

    @property
    def trouble(self) -> TxnError:
        """Why it hears nothing."""
        return self._lane.trouble

    async def wait_opened(self) -> None:
        """Returns when it is on the books, and was told what it has."""
        await self._lane.wait_opened(self._caller.request_timeout_s)

    def ask_again(self) -> None:
        """What it was told does not hold any more: it asks anew, some time later."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask_again(), name=f"{self._what}: ask again")

    async def _ask_again(self) -> None:
        await self._backoff.pause()
        self._lane.restart()

    async def close(self, *, leave: bool) -> None:
        """Is on the books no longer: at once, or when its grace is over without it having come back."""
        if self._asking is not None:
            self._asking.cancel()
        self._is_leaving = leave
        self._to_say.set()
        await self._lane.stop(self._caller.request_timeout_s if leave else 0.0)

    # -- what goes over the lane

    def opening(self) -> pb.SubscribeRequest:
        books = self._books
        opened = pb.OpenMember(
            topic=str(books.topic), subscription=books.subscription, consumer=books.consumer, kind=books.kind
        )
        if books.start is not None:
            opened.start = start_message(books.start)
        return pb.SubscribeRequest(open=opened)

    def begin(self, answer: pb.SubscribeResponse) -> int:
        if answer.HasField("ended"):
            self._hear_end(answer.ended)
        if not answer.HasField("assignment"):
            raise BrokerFailed(f"{self._what}: the broker answers before it has opened the stream")
        self._hear_assignment(answer.assignment)
        return answer.assignment.term

    async def next_request(self) -> pb.SubscribeRequest | None:
        await self._to_say.wait()
        if not self._is_leaving or self._has_left:
            return None
        self._to_say.clear()
        return pb.SubscribeRequest(leave=pb.LeaveGroup())

    async def hear(self, answer: pb.SubscribeResponse) -> None:
        if answer.HasField("assignment"):
            self._hear_assignment(answer.assignment)
        elif answer.HasField("ended"):
            self._hear_end(answer.ended)

    def interrupt(self) -> None:
        """What it has it keeps, while it looks for the leader."""
        if self._is_leaving:
            self._to_say.set()

    def is_at_end(self) -> bool:
        return self._has_left

    def _hear_assignment(self, told: pb.Assignment) -> None:
        number = Assigned(told.term, told.generation)
        if self._newest is not None and number < self._newest:
            return
        self._newest = number
        if not self._is_leaving:
            self._assigned(Assignment(number, {each.segment_id: _share(each) for each in told.segments}))

    def _hear_end(self, told: pb.MemberEnded) -> None:
        if told.reason == pb.MemberEnded.LEFT:
            self._has_left = True
            self._to_say.set()
        elif told.reason == pb.MemberEnded.REPLACED:
            raise MemberReplaced(f"{self._what}: another one of that name has come")
        elif told.reason == pb.MemberEnded.DELETED:
            raise SubscriptionNotFound(f"{self._what}: the subscription was deleted")
        else:
            raise BrokersUnavailable(f"{self._what}: the topic is led by somebody else, or will be")

    def _end(self, task: asyncio.Task[None]) -> None:
        self._ended(as_error(task, self._what))


def start_message(start: Edge) -> pb.StartAt.ValueType:
    """Where to begin, as the leader is told."""
    return pb.EARLIEST if start is EARLIEST else pb.LATEST


def _share(told: pb.AssignedSegment) -> Share:
    buckets = tuple(HashRange(each.start, each.end) for each in told.buckets)
    return Share(told.segment_id, told.segment, buckets)
