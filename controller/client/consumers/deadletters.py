"""Dead letters: what came again too often goes to a topic of its own, so that it stops nobody.

A message is sent there and acknowledged here in one transaction: it is in one place or in the other, whatever breaks.
That happens while the application receives: who takes nothing out of a queue moves nothing either.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from controller.client.confirmations import Confirmation
from controller.client.consumers.messages import TopicMessage
from controller.client.consumers.surroundings import Surroundings
from controller.client.errors import InvalidRequest
from controller.client.topics.descriptions import TopicSubscriptionKind
from controller.client.topics.names import topic_of
from controller.client.topics.producer import Producer
from controller.client.transaction import Transaction, TransactionState
from controller.client.values import EARLIEST
from controller.layout import TopicName
from txn.model.errors import TxnConflict, TxnError

logger = logging.getLogger("tidemark.client")

SUFFIX = "-DLQ"
REDELIVERIES_MAX = 1_000_000
UNDER_WAY_MAX = 8
"""Dead letters of one consumer that are being moved; then nothing more is handed out."""
PRODUCERS_MAX = 100
"""Of dead letter topics, for one consumer; those that were used least recently are closed."""

REAL_TOPIC = "REAL_TOPIC"
REAL_SUBSCRIPTION = "REAL_SUBSCRIPTION"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """What is a dead letter, and where it goes."""

    redeliveries_max: int
    """A message that was delivered more often than this again is one."""
    topic: str | None = None
    """Where to; None: the topic of the same name with `-DLQ` behind it."""
    subscription: str | None = None
    """A queue subscription that the topic is to have, so that nothing of it goes before somebody has read it."""

    def __post_init__(self) -> None:
        if not 0 <= self.redeliveries_max <= REDELIVERIES_MAX:
            raise InvalidRequest(f"{self.redeliveries_max} redeliveries: 0 to {REDELIVERIES_MAX} are allowed")
        if self.topic is not None:
            topic_of(self.topic)  # refused here rather than with the first letter

    def takes(self, redeliveries: int) -> bool:
        """Whether a message that was delivered so often before is a dead letter."""
        return redeliveries > self.redeliveries_max

    def topic_of(self, topic: str) -> str:
        """Where the dead letters of a topic go."""
        if self.topic is not None:
            return str(topic_of(self.topic))
        name = topic_of(topic)
        return str(TopicName(name.domain, name.parent, name.local + SUFFIX))


def is_dead_letter_topic(topic: str) -> bool:
    """Whether a topic has the name of one that dead letters go to."""
    return topic.endswith(SUFFIX)


def addressed(message: TopicMessage, subscription: str) -> Mapping[str, str]:
    """A dead letter's properties: its own, and where it comes from."""
    return {
        **message.properties,
        REAL_TOPIC: message.topic,
        REAL_SUBSCRIPTION: subscription,
        ORIGIN_MESSAGE_ID: str(message.id),
    }


class Undertaker:
    """Moves the dead letters of one consumer. `moved` is called when there is room for another one."""

    def __init__(self, policy: DeadLetters, around: Surroundings, subscription: str, moved: Callable[[], None]) -> None:
        self.policy = policy
        self._around = around
        self._subscription = subscription
        self._moved = moved
        self._tasks: set[asyncio.Task[None]] = set()
        self._producers: OrderedDict[str, Producer] = OrderedDict()
        self._opening = asyncio.Lock()

    @property
    def room(self) -> int:
        """How many more can be moved."""
        return UNDER_WAY_MAX - len(self._tasks)

    def take(
        self,
        message: TopicMessage,
        acknowledge: Callable[[Transaction], Confirmation[None]],
        give_back: Callable[[], None],
    ) -> None:
        """Moves it. If that cannot be done it is given back, and comes again."""
        task = asyncio.create_task(self._move(message, acknowledge, give_back), name=f"dead letter {message.id}")
        self._tasks.add(task)
        task.add_done_callback(self._end)

    async def close(self) -> None:
        """Gives up what is under way: it comes again."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        producers = list(self._producers.values())
        self._producers.clear()
        await asyncio.gather(*(each.close() for each in producers))

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._moved()

    async def _move(
        self,
        message: TopicMessage,
        acknowledge: Callable[[Transaction], Confirmation[None]],
        give_back: Callable[[], None],
    ) -> None:
        try:
            producer = await self._producer(self.policy.topic_of(message.topic))
            await self._move_in(await self._around.begin(), producer, message, acknowledge)
        except TxnConflict:
            give_back()  # somebody else has settled it; or is about to, and if nothing comes of that it comes again
        except TxnError as error:
            logger.warning("dead letter %s of %s comes again: %s", message.id, message.topic, error)
            give_back()

    async def _move_in(
        self,
        txn: Transaction,
        producer: Producer,
        message: TopicMessage,
        acknowledge: Callable[[Transaction], Confirmation[None]],
    ) -> None:
        try:
            await producer.wait_room()
            sent = producer.send(
                message.payload,
                key=message.key,
                properties=addressed(message, self._subscription),
                event_ms=message.event_ms,
                txn=txn,
            )
            await acknowledge(txn)
            await sent
            await txn.commit()
        finally:
            if txn.state is TransactionState.OPEN:
                await _aborted(txn)

    async def _producer(self, topic: str) -> Producer:
        async with self._opening:
            producer = self._producers.get(topic)
            if producer is None or producer.running.done():
                producer = await self._around.producer(topic)
                try:
                    await self._subscribe(topic)
                except BaseException:
                    await producer.close()
                    raise
                self._producers[topic] = producer
            self._producers.move_to_end(topic)
            if len(self._producers) > PRODUCERS_MAX:
                _, oldest = self._producers.popitem(last=False)
                await oldest.close()
            return producer

    async def _subscribe(self, topic: str) -> None:
        """Before anything is sent there: nothing of it is to go before somebody has read it."""
        if self.policy.subscription is not None:
            await self._around.topics.create_subscription(
                topic, self.policy.subscription, TopicSubscriptionKind.QUEUE, EARLIEST
            )


async def _aborted(txn: Transaction) -> None:
    """Lets its messages go at once; if that cannot be said, they go at its deadline."""
    try:
        await txn.abort()
    except TxnError as error:
        logger.info("transaction %s ends by itself: %s", txn.id, error)
