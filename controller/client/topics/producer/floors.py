"""What segments had of a producer with a name before it was started: it is not sent again.

Every segment that ever took a hash may have stored its messages, so sealed ancestors are asked as well, once. Messages
of a hash are stored in the order of their numbers: what is not above the greatest number there is stored, or was
refused for good. As far back as ancestors are kept, that is. Transactions that have written and are not decided yet are
waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.client.caller import Caller
from controller.client.errors import BrokerFailed
from controller.client.protocol import PRODUCE
from controller.client.segment.member import SegmentMember
from controller.client.topics.layouts import TopicState
from controller.layout import HashRange, Segment
from controller.layout.hashing import segment_hash
from controller.pb import broker_pb2 as pb
from metastore.coordination import Backoff
from txn.hosting.errors import NoSuchSegment

ASKING_MAX = 16
"""Ancestors that are asked at a time."""


class Floors:
    """The greatest numbers that segments had, by segment."""

    def __init__(self, caller: Caller, producer: str, claim: Callable[[], int]) -> None:
        self._caller = caller
        self._producer = producer
        self._claim = claim
        self._lasts: dict[int, tuple[HashRange, int | None]] = {}
        self._turns = asyncio.Semaphore(ASKING_MAX)

    @property
    def last(self) -> int | None:
        """The greatest of all; None if there is none."""
        return max((last for _, last in self._lasts.values() if last is not None), default=None)

    def covers(self, sequence_id: int, hash: int) -> bool:
        """Whether a message was stored before this producer was started."""
        place = segment_hash(hash)
        return any(last is not None and sequence_id <= last and place in range for range, last in self._lasts.values())

    def note(self, segment: Segment, opened: pb.ProducerOpened | None) -> None:
        """What a segment has said when it was opened first; None: it is not there any more."""
        last = opened.last_sequence_id if opened is not None and opened.HasField("last_sequence_id") else None
        self._lasts.setdefault(segment.segment_id, (segment.range, last))

    async def learn(self, state: TopicState, segment: Segment) -> None:
        """Returns when all ancestors of a segment have been asked."""
        ancestors = [
            each
            for each in state.layout.lineage(segment.segment_id)
            if each.segment_id < segment.segment_id and each.segment_id not in self._lasts
        ]
        await asyncio.gather(*(self._ask(each, state.name_of(each)) for each in ancestors))

    async def _ask(self, segment: Segment, name: str) -> None:
        async with self._turns:
            backoff = Backoff(self._caller.pace)
            while segment.segment_id not in self._lasts:
                question = _Question(self._caller, name, self._producer, self._claim)
                try:
                    await question.wait_opened()
                    if not question.opened.is_undecided:
                        self.note(segment, question.opened)
                except NoSuchSegment:
                    self.note(segment, None)  # it was pruned
                finally:
                    await question.close()
                if segment.segment_id not in self._lasts:
                    await backoff.pause()


class _Question(SegmentMember):
    """Opens a producer's stream, and says nothing."""

    def __init__(self, caller: Caller, segment: str, producer: str, claim: Callable[[], int]) -> None:
        super().__init__(caller, segment, f"look what {segment} has of producer {producer!r}")
        self.opened = pb.ProducerOpened()
        self._producer = producer
        self._claim = claim
        self._is_answered = False
        self._start(PRODUCE, self)

    def opening(self) -> pb.ProduceRequest:
        return pb.ProduceRequest(
            open=pb.OpenProducer(segment=self.segment, producer=self._producer, claim=self._claim())
        )

    def begin(self, answer: pb.ProduceResponse) -> int:
        if not answer.HasField("opened"):
            raise BrokerFailed(f"{self._what}: the broker answers before it has opened the stream")
        self.opened = answer.opened
        self._is_answered = True
        return answer.opened.term

    async def next_request(self) -> pb.ProduceRequest | None:
        return None

    async def hear(self, answer: pb.ProduceResponse) -> None:
        """Nothing was sent, so nothing is answered."""

    def interrupt(self) -> None:
        """There is nothing to be said again."""

    def is_at_end(self) -> bool:
        return self._is_answered

    async def close(self) -> None:
        await self._lane.stop(0.0)

    def _end(self, error: BaseException) -> None:
        """Who waits for the opening is told by the lane."""
