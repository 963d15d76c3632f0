"""Members of a checkpoint's group: they commit where they are, alone, in a transaction, or in one that is aborted."""

from __future__ import annotations

import asyncio
import itertools

from controller.client import EARLIEST, CheckpointGroupConsumer, Client
from controller.client.consumers import StreamMessage
from topics_end_to_end.whole_members import TAKEN_MAX, Hand, Member
from topics_end_to_end.whole_notebook import Notebook
from topics_end_to_end.whole_transactions import Transactions
from txn.model.errors import TxnError
from txn.model.header import TxnState

TURNS = 4
"""Every so many commits one is in a transaction, and the one behind it in a transaction that is aborted."""


class GroupMember(Member):
    """One of a group. What it had received in a transaction that is aborted comes again."""

    def __init__(self, book: Notebook, client: Client, topic: str, group: str, name: str) -> None:
        super().__init__(book, client)
        self._topic = topic
        self._group = group
        self._name = name
        self._transactions = Transactions(book, client)
        self._consumer: CheckpointGroupConsumer | None = None

    async def _run(self) -> None:
        self._consumer = consumer = await self._client.checkpoint_group_consumer(
            self._topic, self._group, name=self._name, start=EARLIEST
        )
        hand = Hand(self._book, self._group)
        for turn in itertools.count():
            messages = await consumer.receive_many(TAKEN_MAX)
            for each in messages:
                hand.take(each)
            if turn % TURNS > 1:
                wanted = TxnState.COMMITTED if turn % TURNS == 2 else TxnState.ABORTED
                await self._commit_in_transaction(consumer, hand, messages[-1], wanted)
            else:
                await hand.acknowledge(messages[-1], consumer.commit)

    async def _commit_in_transaction(
        self, consumer: CheckpointGroupConsumer, hand: Hand, last: StreamMessage, wanted: TxnState
    ) -> None:
        txn = await self._transactions.begin()
        calls = hand.begin(last, str(txn.id))
        try:
            await consumer.commit(txn=txn)
            hand.done(calls)
        except TxnError as error:
            self._transactions.failed(error)
            wanted = TxnState.ABORTED
        except asyncio.CancelledError:
            self._book.doubted(calls)  # it ends by its time
            raise
        if wanted is TxnState.ABORTED:
            hand.drop(calls)
        try:
            await self._transactions.end(txn, wanted)
        except asyncio.CancelledError:
            self._book.doubted(calls)
            raise

    async def _close(self, leave: bool) -> None:
        if self._consumer is not None:
            await self._consumer.close(leave=leave)
