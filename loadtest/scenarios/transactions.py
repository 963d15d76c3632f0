"""Transactions: begun, filled over several segments, and committed, aborted, contended for or left to time out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from controller.client import (
    EARLIEST,
    Client,
    ClientClosed,
    Message,
    SegmentConsumer,
    SegmentProducer,
    SubscriptionKind,
    Transaction,
)
from loadtest.arrivals.pump import Arrival
from loadtest.scenarios.scenario import Scenario, Stage, all_of
from txn.model.errors import TxnAbortable, TxnError
from txn.model.header import TxnState

SEGMENTS = 4
WRITES = 4
"""Messages of one transaction, over the segments."""
TIMED_OUT = 0.02
"""The share of transactions that nobody ends."""
TIMEOUT_MS = 2_000
"""Of those."""
OVERDUE_S = 10.0
"""How long after its deadline a transaction may be open still."""
LOOK_AGAIN_S = 0.25
BACKLOG_MAX = 1_000
"""Messages that were received and not acknowledged."""
KNOWN_COMMITS_MAX = 10_000
"""Commits whose messages were not seen yet."""
CONTENDERS = 3
"""Transactions that want the same message."""


class _WithSegments(Scenario):
    """What both have: segments to write to, and one whose messages are acknowledged."""

    uses = "brokers"
    topic: ClassVar[str]

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._client: Client
        self._producers: Sequence[SegmentProducer]
        self._consumer: SegmentConsumer
        self._backlog: asyncio.Queue[Message] = asyncio.Queue(BACKLOG_MAX)

    async def prepare(self) -> None:
        self._client = await self.stage.client()
        self._producers = [await self._client.segment_producer(self._segment(each)) for each in range(SEGMENTS)]
        self._consumer = await self._client.segment_consumer(
            self._segment(0), "load", start=EARLIEST, kind=SubscriptionKind.SHARED
        )
        self.begin_beside(self._receive())

    async def clear(self) -> None:
        await self._consumer.close()
        await all_of(producer.close() for producer in self._producers)
        await all_of(self._client.segments.delete(self._segment(each)) for each in range(SEGMENTS))

    async def _receive(self) -> None:
        while True:
            message = await self._consumer.receive()
            self._received(message)
            await self._backlog.put(message)

    def _received(self, message: Message) -> None:
        """Told of every message that has come."""

    def _segment(self, number: int) -> str:
        return f"{self.topic}-{self.settings.mark}-{number}"


class Transactions(_WithSegments):
    """Writes to several segments and an acknowledgement, all or nothing."""

    name = "transactions"
    said = (
        f"transactions of {WRITES} messages over {SEGMENTS} segments and an acknowledgement, committed, aborted "
        "or left to time out; how long until what was committed is delivered"
    )
    rate = 20.0
    topic = "load-transactions"

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self._committed: dict[str, float] = {}
        """By transaction: when its commit began."""

    async def serve(self, arrival: Arrival) -> None:
        if arrival.draw.random() < TIMED_OUT:
            await self._abandon(arrival)
            return
        commits = arrival.draw.random() < self.settings.commits
        arrival.operation = "commit" if commits else "abort"
        async with self.step(arrival, "begin"):
            txn = await self._client.begin()
        await self._fill(arrival, txn)
        if not commits:
            await txn.abort()
            return
        if len(self._committed) < KNOWN_COMMITS_MAX:
            self._committed[str(txn.id)] = asyncio.get_running_loop().time()
        async with self.step(arrival, "decide"):
            await txn.commit()

    async def _fill(self, arrival: Arrival, txn: Transaction) -> None:
        async with self.step(arrival, "send and acknowledge"):
            value = self.stamped(arrival)
            chosen = [self._producers[number % SEGMENTS] for number in range(WRITES)]
            works = [producer.send(value, txn=txn) for producer in chosen]
            acknowledged = None if self._backlog.empty() else self._backlog.get_nowait()
            if acknowledged is not None:
                await self._consumer.acknowledge(acknowledged, txn=txn)
            for work in works:
                await work

    async def _abandon(self, arrival: Arrival) -> None:
        """Leaves a transaction to its timeout, and sees to it that it is aborted then."""
        arrival.operation = "leave to time out"
        txn = await self._client.begin(TIMEOUT_MS)
        deadline_s = asyncio.get_running_loop().time() + TIMEOUT_MS / 1000
        await arrival.draw.choice(self._producers).send(self.stamped(arrival), txn=txn)
        self.begin_beside(self._see_aborted(txn, deadline_s))

    async def _see_aborted(self, txn: Transaction, deadline_s: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, deadline_s - loop.time()))
        while loop.time() < deadline_s + OVERDUE_S:
            try:
                if await self._client.outcome(txn.id) is TxnState.ABORTED:
                    self.event("aborted after its deadline", deadline_s)
                    return
            except ClientClosed:
                return
            except TxnError as error:
                self.event("aborted after its deadline", deadline_s, error=type(error).__name__)
                return
            await asyncio.sleep(LOOK_AGAIN_S)
        self.event("aborted after its deadline", deadline_s, error="StillOpen")

    def _received(self, message: Message) -> None:
        began_s = self._committed.pop(str(message.txn_id), None)
        if began_s is not None:
            self.event("committed message delivered", began_s, len(message.payload))


class TransactionsContended(_WithSegments):
    """Several transactions want one message, and one gets it."""

    name = "transactions-contended"
    said = f"{CONTENDERS} transactions at once that acknowledge the same message: one must win, the others must not"
    rate = 10.0
    topic = "load-contended"

    async def serve(self, arrival: Arrival) -> None:
        arrival.operation = "contest"
        await self._producers[0].send(self.stamped(arrival))
        message = await self._backlog.get()
        async with asyncio.TaskGroup() as contest:
            contenders = [contest.create_task(self._contend(arrival, message)) for _ in range(CONTENDERS)]
        winners = sum(contender.result() for contender in contenders)
        if winners != 1:
            raise NotOneWinner(f"{winners} of {CONTENDERS} transactions acknowledged {message.id}")

    async def _contend(self, arrival: Arrival, message: Message) -> bool:
        txn = await self._client.begin()
        began_s = asyncio.get_running_loop().time()
        try:
            await self._consumer.acknowledge(message, txn=txn)
            await txn.commit()
        except TxnAbortable:
            await txn.abort()
            arrival.step("lose", began_s)
            return False
        arrival.step("win", began_s)
        return True


class NotOneWinner(Exception):
    """Of transactions that acknowledge the same message, not exactly one was committed."""
