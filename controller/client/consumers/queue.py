"""Queue consumers: every message to one of the consumers, acknowledged one by one, in no order.

What is not acknowledged comes again: given back, when its time has come; not settled in time, by itself; and too often,
not here any more, but in the topic for dead letters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controller.client.confirmations import Confirmation, all_of, failed
from controller.client.consumers.base import TopicConsumer
from controller.client.consumers.deadletters import DeadLetters, Undertaker
from controller.client.consumers.messages import QueueMessage
from controller.client.consumers.queues import QueuePlace, QueueSource, QueueTopic, WorkKey
from controller.client.consumers.redelivery import AT_ONCE, DELAY_MS_MAX, REFUSED, RedeliveryBackoff
from controller.client.consumers.seeking import seek
from controller.client.consumers.surroundings import Surroundings
from controller.client.consumers.works import IN_WORK_MAX, Due, Works
from controller.client.errors import InvalidRequest
from controller.client.segment.credits import Budget
from controller.client.transaction import Transaction
from controller.client.values import Edge, Message
from controller.layout import TopicName
from txn.coordinator.waiting import first_of
from txn.model.errors import TxnError
from txn.segment.bell import Bell


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """How a queue is worked off."""

    refusal: RedeliveryBackoff = REFUSED
    """When what is given back comes again."""
    processing_timeout_ms: int | None = None
    """How long a message may be in work before it comes again, here or elsewhere; None: for ever."""
    overdue: RedeliveryBackoff = AT_ONCE
    """How long it waits then."""
    dead_letters: DeadLetters | None = None
    """What comes again too often; None: everything comes again for ever."""
    in_work_max: int = IN_WORK_MAX
    """Messages that are received and not settled; then nothing more is received."""

    def __post_init__(self) -> None:
        if self.processing_timeout_ms is not None and not 1 <= self.processing_timeout_ms <= DELAY_MS_MAX:
            raise InvalidRequest(f"a processing timeout of {self.processing_timeout_ms} ms: 1 to {DELAY_MS_MAX}")
        if not 1 <= self.in_work_max <= IN_WORK_MAX:
            raise InvalidRequest(f"{self.in_work_max} messages in work at most: 1 to {IN_WORK_MAX} (IN_WORK_MAX)")


class _Part(NamedTuple):
    source: QueueSource
    messages: list[Message]


class QueueReceiving(TopicConsumer[QueueMessage]):
    """What queue consumers of one topic and of many share."""

    def __init__(
        self,
        around: Surroundings,
        subscription: str,
        name: str,
        budget: Budget,
        options: QueueOptions,
        what: str,
    ) -> None:
        super().__init__(what)
        self.subscription = subscription
        self.name = name
        """For statistics."""
        self._around = around
        self._bell = Bell()
        self._undertaker = None
        if options.dead_letters is not None:
            self._undertaker = Undertaker(options.dead_letters, around, subscription, self._changed)
        self._works: Works[WorkKey] = Works(
            options.refusal, options.processing_timeout_ms, options.overdue, options.in_work_max
        )
        self._place = QueuePlace(
            around, subscription, name, budget, self._intake, self._works, self._undertaker, self._changed
        )
        self._keeping_time = asyncio.create_task(self._keep_time(), name=f"{what}: time")

    def acknowledge(self, *messages: QueueMessage, txn: Transaction | None = None) -> Confirmation[None]:
        """Acknowledges these messages; the confirmation comes when that is durable, those of each segment together.

        In a transaction it takes effect if and when that commits; if it aborts, the messages come again. TxnConflict if
        one of them is acknowledged already, or another transaction holds it.
        """
        self._check_open()
        if txn is not None:
            txn.check_usable("acknowledge")
        confirmations = []
        for source, found in self._by_source(messages):
            try:
                confirmation = source.acknowledge(found, txn)
            except TxnError as error:
                confirmation = failed(error)
                if txn is not None:
                    confirmation.register(txn)
            confirmations.append(confirmation)
        return all_of(confirmations, txn)

    def negative_acknowledge(self, *messages: QueueMessage) -> None:
        """Gives these messages back: each comes again, here or elsewhere, when its time has come."""
        self._check_open()
        for source, found in self._by_source(messages):
            for each in found:
                source.give_back(each)

    def _by_source(self, messages: Sequence[QueueMessage]) -> list[_Part]:
        if not messages:
            raise InvalidRequest(f"{self._what}: settling nothing: give the messages that it is about")
        found: dict[QueueSource, _Part] = {}
        for each in messages:
            source = each.source
            if not isinstance(source, QueueSource) or not source.is_of(self._place):
                raise InvalidRequest(f"{self._what}: this message was received by another consumer")
            found.setdefault(source, _Part(source, [])).messages.append(each.in_segment)
        return list(found.values())

    def _changed(self) -> None:
        """Something has a time to be looked at, or there may be room for what waits."""
        self._bell.ring()
        blocked = list(self._place.blocked)
        self._place.blocked.clear()
        for source in blocked:
            source.announce()

    async def _keep_time(self) -> None:
        """Asks for what is due again."""
        pace = self._around.caller.pace
        while True:
            due: dict[QueueSource, list[Due[WorkKey]]] = {}
            for each in self._works.due(self._place.now_s):
                due.setdefault(each.key[0], []).append(each)
            for source, found in due.items():
                source.ask_again(found)
            if due:
                self._changed()
            next_s = self._works.next_s
            if next_s is None:
                await self._bell.wait()
            else:
                await first_of(self._bell.wait(), pace.sleep(max(0.0, next_s - self._place.now_s)))

    async def _stop(self) -> None:
        """Ends what goes on beside receiving."""
        self._keeping_time.cancel()
        await asyncio.wait([self._keeping_time])
        if self._undertaker is not None:
            await self._undertaker.close()


class QueueConsumer(QueueReceiving):
    """Receives from a topic in a subscription that all its consumers share, message by message."""

    def __init__(
        self,
        around: Surroundings,
        topic: TopicName,
        subscription: str,
        name: str,
        budget: Budget,
        options: QueueOptions,
        start: Edge | None,
        creates: bool,
    ) -> None:
        what = f"queue consumer {name!r} of {subscription!r} of {topic}"
        super().__init__(around, subscription, name, budget, options, what)
        self.topic = str(topic)
        self._queue = QueueTopic(self._place, topic, start, creates, self._fail)

    @property
    def segments(self) -> tuple[str, ...]:
        """The segments that messages can come from at the moment."""
        return self._queue.segments

    async def wait_opened(self) -> None:
        await self._queue.wait_opened()

    async def wait_attached(self) -> None:
        """Returns when messages can come from all segments."""
        await self._queue.wait_attached()

    async def seek(self, to: Edge | int) -> None:
        """Puts the subscription to an end of the topic, or to a time in ms since the epoch, for all its consumers."""
        self._check_open()
        self._intake.pause()
        try:
            await seek(self._around.topics, self.topic, self.subscription, to)
        finally:
            self._works.clear()
            self._queue.restart()
            self._intake.resume()

    async def unsubscribe(self) -> None:
        """Deletes the subscription, and closes the consumer."""
        await self.close()
        await self._around.topics.delete_subscription(self.topic, self.subscription)

    async def close(self) -> None:
        """Ends when acknowledgements under way are answered. What is not acknowledged comes to others, or again."""
        await self._close_once(self._close)

    async def _close(self) -> None:
        await self._stop()
        await self._queue.close()
