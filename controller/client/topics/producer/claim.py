"""The exclusive right to produce: claimed from the topic's leader, kept by a stream, said to every segment.

When the stream breaks the right stays the producer's for a grace, in which it comes back by the number that it has.
"""

from __future__ import annotations

import asyncio

from controller.client.caller import Caller
from controller.client.protocol import CLAIM_TOPIC, RELEASE_CLAIM
from controller.client.topics.following import Following
from controller.client.topics.producer.options import Access
from controller.leading.errors import ProducerBusy
from controller.pb import topics_pb2 as pb
from txn.model.errors import TxnError

RELEASE_TIMEOUT_S = 5.0
"""How long giving the right back is tried; then the grace does it."""

_MODES = {
    Access.EXCLUSIVE: pb.ClaimTopicRequest.EXCLUSIVE,
    Access.FENCING: pb.ClaimTopicRequest.FENCING,
    Access.WAIT: pb.ClaimTopicRequest.WAIT,
}


class Claim:
    """One producer's right to one topic."""

    def __init__(self, caller: Caller, topic: str, producer: str, access: Access) -> None:
        self.number = 0
        """0: it was never granted."""
        self.is_held = False
        """Whether the leader is connected."""
        self.granted = asyncio.Event()
        self._caller = caller
        self._topic = topic
        self._producer = producer
        self._mode = _MODES[access]
        self._following = Following(caller, f"claim {topic} for {producer!r}", topic, (ProducerBusy,))

    @property
    def trouble(self) -> TxnError:
        """What was in the way the last time."""
        return self._following.trouble

    async def run(self) -> None:
        """Keeps the right until cancelled. ProducerBusy if it cannot be had, ProducerFenced when it is lost."""
        await self._following.run(CLAIM_TOPIC, self._opening, self._hear)

    def _opening(self) -> pb.ClaimTopicRequest:
        self.is_held = False
        return pb.ClaimTopicRequest(topic=self._topic, producer=self._producer, mode=self._mode, claim=self.number)

    async def _hear(self, answer: pb.ClaimTopicResponse) -> None:
        self.number, self.is_held = answer.claim, True
        self.granted.set()

    async def release(self) -> None:
        """Gives it back, so that others need not wait for the grace."""
        if self.number:
            request = pb.ReleaseClaimRequest(topic=self._topic, producer=self._producer, claim=self.number)
            what = f"give back {self._topic}"
            await self._caller.call(RELEASE_CLAIM, request, what, segment=self._topic, timeout_s=RELEASE_TIMEOUT_S)
