"""An application that reads a topic, and writes to another what comes of it: both in one transaction, or neither."""

from __future__ import annotations

import asyncio

from controller.client import EARLIEST, Client, Producer, Transaction
from controller.client.consumers import StreamConsumer, StreamMessage
from topics_end_to_end.whole_members import Hand, Member
from topics_end_to_end.whole_notebook import AckCall, Attempt, Notebook
from topics_end_to_end.whole_transactions import Transactions
from txn.model.errors import TxnError
from txn.model.header import TxnState

TAKEN_MAX = 12


class Rework(Member):
    """One of those who do it. What a transaction had received that was aborted is received again."""

    def __init__(self, book: Notebook, client: Client, source: str, subscription: str, target: str, name: str) -> None:
        super().__init__(book, client)
        self._source = source
        self._subscription = subscription
        self._target = target
        self._name = name
        self._number = 0
        self.origins: dict[str, str] = {}
        """By what was written: what it came of."""
        self._transactions = Transactions(book, client)
        self._consumer: StreamConsumer | None = None
        self._producer: Producer | None = None

    async def _run(self) -> None:
        self._consumer = consumer = await self._client.stream_consumer(
            self._source, self._subscription, name=self._name, start=EARLIEST
        )
        self._producer = producer = await self._client.producer(self._target)
        hand = Hand(self._book, self._subscription)
        while True:
            try:
                messages = await consumer.receive_many(TAKEN_MAX, 500)
            except TimeoutError:
                continue
            for each in messages:
                hand.take(each)
            await self._work(consumer, producer, hand, messages)

    async def _work(
        self, consumer: StreamConsumer, producer: Producer, hand: Hand, messages: list[StreamMessage]
    ) -> None:
        """Until what was received is done with, or comes again."""
        txn = await self._transactions.begin()
        name, book = str(txn.id), self._book
        calls = hand.begin(messages[-1], name)
        attempts: list[Attempt] = []
        try:
            acknowledged = consumer.acknowledge_cumulative(messages[-1], txn=txn)
            confirmations = []
            for each in messages:
                attempts.append(self._attempt(each, name))
                await producer.wait_room()
                confirmations.append(producer.send(attempts[-1].written.message.encode(), key=each.key, txn=txn))
            await acknowledged
            hand.done(calls)
            for attempt, confirmation in zip(attempts, confirmations, strict=True):
                book.sent(attempt, await confirmation)
        except TxnError as error:
            self._transactions.failed(error)
            hand.drop(calls)
            await self._transactions.end(txn, TxnState.ABORTED)
        except asyncio.CancelledError:
            book.doubted(calls)  # it ends by its time
            raise
        else:
            await self._commit(txn, calls)

    async def _commit(self, txn: Transaction, calls: list[AckCall]) -> None:
        try:
            await self._transactions.end(txn, TxnState.COMMITTED)
        except asyncio.CancelledError:
            self._book.doubted(calls)
            raise

    def _attempt(self, message: StreamMessage, txn: str) -> Attempt:
        self._number += 1
        assert message.key is not None, "all that is worked on has a key"
        written = self._book.want_keyed(self._target, message.key, producer_of(self._name), self._number, txn)
        self.origins[written.message] = message.payload.decode()
        return self._book.attempt(written)

    async def _close(self, leave: bool) -> None:
        if self._consumer is not None:
            await self._consumer.close(leave=leave)
        if self._producer is not None:
            await self._producer.close()


def producer_of(name: str) -> str:
    """Who writes for it, in the notes."""
    return f"{name}'s producer"
