"""Messages for one segment of a topic. What has become of each is told to the crew."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from controller.client.caller import Caller
from controller.client.confirmations import fail
from controller.client.errors import SendUnconfirmed
from controller.client.segment.outbox import Outgoing, Packing, Parcel
from controller.client.segment.sending import Sending
from controller.client.topics.ids import TopicMessageId, TopicSent
from controller.pb import broker_pb2 as pb
from txn.model.errors import TxnError
from txn.model.position import Position
from txn.segment.errors import ProducerFenced, SegmentSealed


class Claimed(Protocol):
    """The right by which a producer sends."""

    number: int
    is_held: bool


class SenderCrew(Protocol):
    """Whom a sender tells."""

    def arrived(self, sender: Sender, messages: Sequence[Outgoing]) -> None:
        """These have their outcomes."""

    def came_back(self, sender: Sender, messages: Sequence[Outgoing]) -> None:
        """The segment is sealed, and does not have these."""

    def ended(self, sender: Sender, error: BaseException, unsent: Sequence[Outgoing]) -> None:
        """Nothing more is sent; these never were."""


class Sender(Sending):
    """Sends to one segment."""

    def __init__(
        self,
        caller: Caller,
        segment_id: int,
        segment: str,
        name: str,
        packing: Packing,
        linger_ms: int,
        crew: SenderCrew,
        claimed: Claimed | None,
    ) -> None:
        self.segment_id = segment_id
        self.opened: asyncio.Future[pb.ProducerOpened] = asyncio.get_running_loop().create_future()
        """What the segment had of this producer, when that was decided."""
        self.is_leaving = False
        """Whether nothing more goes to its segment."""
        self._crew = crew
        self._claimed = claimed
        self._claim_said = 0
        super().__init__(caller, segment, name, packing, linger_ms)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is on its way."""
        return not self._outbox.count

    @property
    def has_company(self) -> bool:
        """Whether another message would share an entry with what waits."""
        return self._outbox.has_company

    @property
    def messages(self) -> Iterable[Outgoing]:
        """What is on its way."""
        return self._outbox.messages()

    def push(self, messages: Iterable[Outgoing]) -> None:
        """The last ones to go."""
        for message in messages:
            self._outbox.add(message)
        self._news.set()

    def recall(self) -> None:
        """What was not sent yet comes back."""
        self._come_back(self._outbox.recall())

    def drop_given_up(self) -> None:
        """What nobody waits for any more leaves, as far as it was not sent."""
        self._outbox.drop_given_up()

    async def abort(self) -> None:
        """Ends at once."""
        await self._lane.stop(0.0)

    # -- what becomes of entries

    def _has_opened(self, opened: pb.ProducerOpened) -> None:
        if not self.opened.done():
            self.opened.set_result(opened)

    async def wait_opened_or_ended(self) -> pb.ProducerOpened | None:
        """What the segment had of this producer; None if the sender has ended without being told."""
        first: list[asyncio.Future[Any]] = [self.opened, self.running]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        return self.opened.result() if self.opened.done() and not self.opened.cancelled() else None

    def look_again(self) -> None:
        """Opens another stream, and forgets what the segment had when this one was opened."""
        self.opened = asyncio.get_running_loop().create_future()
        self._lane.restart()

    def _stored(self, parcel: Parcel, position: Position | None, is_duplicate: bool) -> None:
        for index, message in enumerate(parcel.messages):
            where = None if position is None else TopicMessageId(self.segment_id, position, index)
            if not message.outcome.done():
                message.outcome.set_result(TopicSent(message.sequence_id, where, is_duplicate))
        self._crew.arrived(self, parcel.messages)

    def _refused(self, parcel: Parcel, error: TxnError) -> None:
        if isinstance(error, SegmentSealed):
            self._come_back([*parcel.messages, *self._outbox.recall()])
            return
        for message in parcel.messages:
            fail(message.outcome, error)
        self._crew.arrived(self, parcel.messages)

    def _come_back(self, messages: Sequence[Outgoing]) -> None:
        wanted = [each for each in messages if not each.outcome.done()]
        given_up = [each for each in messages if each.outcome.done()]
        for message in wanted:
            message.was_sent = False  # no broker has it
        if given_up:
            self._crew.arrived(self, given_up)
        if wanted:
            self._crew.came_back(self, wanted)

    def _dropped(self, message: Outgoing) -> None:
        self._crew.arrived(self, [message])

    # -- the right to send

    def _claim(self) -> int:
        self._claim_said = 0 if self._claimed is None else self._claimed.number
        return self._claim_said

    def _outlives(self, error: TxnError) -> bool:
        """Whether the right has been renewed, or is being renewed, since it was said."""
        claimed = self._claimed
        if not isinstance(error, ProducerFenced) or claimed is None:
            return False
        return not claimed.is_held or claimed.number != self._claim_said

    def _end(self, error: BaseException) -> None:
        if not self.opened.done():
            self.opened.cancel()
        unsent = self._outbox.recall()
        lost = list(self._outbox.messages())
        self._outbox.clear()
        for message in lost:
            what = f"message {message.sequence_id} of {self._what} was sent, and not confirmed before that ended"
            fail(message.outcome, SendUnconfirmed(f"{what}: {error}"))
        if lost:
            self._crew.arrived(self, lost)
        self._crew.ended(self, error, unsent)
