"""Applications that receive from queues, of a topic or of a namespace, and give back some of what they get."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from controller.client import Client
from controller.client.consumers import (
    DeadLetters,
    QueueMessage,
    QueueOptions,
    RedeliveryBackoff,
)
from controller.client.consumers.queue import QueueReceiving
from metastore.clock import SystemClock
from topics_end_to_end.whole_members import Member
from topics_end_to_end.whole_notebook import Notebook
from txn.model.errors import TxnError
from txn.model.position import Position
from txn.segment.subscription import AckTooLate

BACKOFF = RedeliveryBackoff(50, 400)
WITH_DEAD_LETTERS = QueueOptions(BACKOFF, dead_letters=DeadLetters(redeliveries_max=3, subscription="undertaker"))
WITHOUT = QueueOptions(BACKOFF)


def is_dead(name: str) -> bool:
    """Whether a message is given back each time."""
    return int(name[1:]) % 23 == 0


def is_refused_once(name: str) -> bool:
    """Whether a message is given back the first time."""
    return int(name[1:]) % 7 == 0


class QueueMember(Member):
    """One of a queue: some messages it gives back, and if that leads anywhere some of them again and again."""

    def __init__(
        self, book: Notebook, client: Client, open: Callable[[], Awaitable[QueueReceiving]], *, has_dead_letters: bool
    ) -> None:
        super().__init__(book, client)
        self._open = open
        self._has_dead_letters = has_dead_letters
        self._clock = SystemClock()
        self._consumer: QueueReceiving | None = None

    async def _run(self) -> None:
        self._consumer = consumer = await self._open()
        while True:
            message = await consumer.receive()
            name, segment = message.payload.decode(), message.in_segment.segment
            at = self._book.show(
                (consumer, segment),
                segment,
                message.in_segment.id,
                name,
                topic=message.topic,
                subscription=consumer.subscription,
                is_shared=True,
                shown_ms=self._clock.wall_ms(),
            )
            if self._is_refused(name, message.redeliveries):
                self._book.give_back(segment, consumer.subscription, [at])
                self._book.counts["given back"] += 1
                consumer.negative_acknowledge(message)
            else:
                await self._acknowledge(consumer, message, at, name)

    def _is_refused(self, name: str, redeliveries: int) -> bool:
        return (self._has_dead_letters and is_dead(name)) or (is_refused_once(name) and not redeliveries)

    async def _acknowledge(self, consumer: QueueReceiving, message: QueueMessage, at: Position, name: str) -> None:
        segment = message.in_segment.segment
        call = self._book.acknowledge(message.topic, segment, consumer.subscription, {at: name})
        try:
            await consumer.acknowledge(message)
        except (TxnError, asyncio.CancelledError) as error:
            self._book.counts[f"acks: {type(error).__name__}"] += 1
            self._book.give_back(segment, consumer.subscription, [at])
            self._book.doubted([call])
            if isinstance(error, asyncio.CancelledError):
                raise
            if not isinstance(error, AckTooLate):  # then others have it
                consumer.negative_acknowledge(message)  # else it would wait for this application for ever
        else:
            self._book.acknowledged([call])

    async def _close(self, leave: bool) -> None:
        if self._consumer is not None:
            await self._consumer.close()
