"""Stream consumers: all messages of a key in order, segments divided among the consumers of the subscription.

Where the application is is one value: how far each segment had been handed out when a message was received. So one
acknowledgement covers everything that was received up to that message, from whatever segment and topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import cast

from controller.client.confirmations import Confirmation, all_of, failed
from controller.client.consumers.assignments import Books
from controller.client.consumers.attachments import RELEASE_S, TAKEOVER_S, Attachment, Place
from controller.client.consumers.base import TopicConsumer
from controller.client.consumers.messages import Origin, StreamMessage
from controller.client.consumers.progress import HandedOut, Reached, reached_with
from controller.client.consumers.seeking import seek
from controller.client.consumers.streams import StreamTopic
from controller.client.consumers.surroundings import Surroundings
from controller.client.errors import InvalidRequest
from controller.client.segment.credits import Budget
from controller.client.transaction import Transaction
from controller.client.values import Edge
from txn.model.errors import TxnError


class StreamReceiving(TopicConsumer[StreamMessage]):
    """What all have in common that receive from segments which were assigned to them."""

    def __init__(
        self,
        around: Surroundings,
        subscription: str,
        name: str,
        budget: Budget,
        what: str,
        *,
        takeover_s: float = TAKEOVER_S,
        release_s: float = RELEASE_S,
        start: Edge | None = None,
    ) -> None:
        super().__init__(what)
        self.subscription = subscription
        self.name = name
        """By which it comes back to what it had, within its grace."""
        self._around = around
        self._reached: Mapping[Attachment, Reached] = {}
        self._in_transactions: set[Attachment] = set()
        """Of which everything that was handed out was acknowledged in transactions, whatever became of these."""
        self._place = Place(
            around, subscription, name, budget, self._intake, self._received, takeover_s, release_s, start
        )

    def _acknowledge(self, positions: Mapping[Attachment, Reached], txn: Transaction | None) -> Confirmation[None]:
        self._check_open()
        if txn is not None:
            txn.check_usable("acknowledge")
        confirmations = []
        for attachment, reached in positions.items():
            try:
                confirmation = attachment.acknowledge(reached, txn)
            except TxnError as error:
                confirmation = failed(error)
                if txn is not None:
                    confirmation.register(txn)
                self._drop_void(attachment, reached)
            if confirmation is not None:
                confirmations.append(confirmation)
            if txn is not None and self._reached.get(attachment) == reached:
                self._in_transactions.add(attachment)
        self._leave_out({each for each in self._reached if each.is_forgotten})
        return all_of(confirmations, txn)

    def _drop_void(self, attachment: Attachment, reached: Reached) -> None:
        """What is received from now on stands on nothing that cannot be acknowledged: else that would be told again."""
        known = self._reached.get(attachment)
        if known is not None and known.turn == reached.turn:
            self._leave_out({attachment})

    def _drop_aborted(self) -> None:
        """The same of what a transaction had that is aborted: who saw that knows that it comes again.

        Were it told once more, the next transaction would fail for it, and what that had of other segments would come
        again; for that the next but one would fail, and so on, without an end.
        """
        self._leave_out({each for each in self._in_transactions if each.is_void(self._reached[each])})

    def _leave_out(self, attachments: Set[Attachment]) -> None:
        """Nothing that is received from now on stands on what was received of these."""
        if attachments:
            self._reached = {each: found for each, found in self._reached.items() if each not in attachments}
            self._in_transactions -= attachments

    def _forget_reached(self) -> None:
        """Nothing that is received from now on stands on anything."""
        self._reached = {}
        self._in_transactions.clear()

    def _received(self, attachment: Attachment, handed_out: HandedOut) -> list[StreamMessage]:
        self._in_transactions.discard(attachment)
        self._drop_aborted()
        before = cast("Mapping[Origin, Reached]", self._reached)  # nobody changes it
        messages, turns = handed_out
        self._reached = {**self._reached, attachment: reached_with(messages[-1], turns[-1])}
        topic, segment_id = attachment.topic, attachment.share.segment_id
        return [
            StreamMessage(topic, segment_id, message, attachment, turn, before)
            for message, turn in zip(messages, turns, strict=True)
        ]


class CumulativeStream(StreamReceiving):
    """Acknowledges up to a message, and not one by one: what was received before has to be done with."""

    def acknowledge_cumulative(self, message: StreamMessage, *, txn: Transaction | None = None) -> Confirmation[None]:
        """Acknowledges this message and every one that was received before it, of whatever segment.

        AckTooLate, once, if something of that was given up before it was acknowledged, or comes again: whoever has it
        next processes it anew. The rest is acknowledged all the same; a transaction cannot commit any more.
        """
        positions = {
            each: reached
            for each, reached in message.reached.items()
            if isinstance(each, Attachment) and each.is_of(self._place)
        }
        if len(positions) < len(message.reached):
            raise InvalidRequest(f"{self._what}: this message was received by another consumer")
        return self._acknowledge(positions, txn)


class StreamConsumer(CumulativeStream):
    """Receives from a topic in a subscription that its consumers divide among themselves."""

    def __init__(
        self,
        around: Surroundings,
        books: Books,
        budget: Budget,
        *,
        takeover_s: float = TAKEOVER_S,
        release_s: float = RELEASE_S,
    ) -> None:
        what = f"stream consumer {books.consumer!r} of {books.subscription!r} of {books.topic}"
        super().__init__(
            around,
            books.subscription,
            books.consumer,
            budget,
            what,
            takeover_s=takeover_s,
            release_s=release_s,
        )
        self.topic = str(books.topic)
        self._stream = StreamTopic(self._place, books, self._fail)

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments that it has at the moment, alone or with others."""
        return self._stream.segments

    async def wait_opened(self) -> None:
        await self._stream.membership.wait_opened()

    async def wait_attached(self) -> None:
        """Returns when it has all segments that were assigned to it."""
        await self._stream.wait_attached()

    async def seek(self, to: Edge | int) -> None:
        """Puts the subscription to an end of the topic, or to a time in ms since the epoch, for all its consumers."""
        self._check_open()
        self._intake.pause()
        try:
            await seek(self._around.topics, self.topic, self.subscription, to)
        finally:
            self._forget_reached()
            self._stream.restart()
            self._intake.resume()

    async def unsubscribe(self) -> None:
        """Deletes the subscription, and closes the consumer."""
        await self.close()
        await self._around.topics.delete_subscription(self.topic, self.subscription)

    async def close(self, *, leave: bool = True) -> None:
        """Ends when acknowledgements under way are answered. What is not acknowledged comes to others, or again.

        It leaves the subscription, and others get its segments at once; without that they wait for it to come back by
        its name, until its grace is over.
        """
        await self._close_once(lambda: self._stream.close(leave=leave))
