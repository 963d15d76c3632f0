"""Clients of a simulation that take: consumers, which acknowledge, and readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from txn.model.errors import TxnRetriable
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.log import START
from txn.segment.subscription import (
    Assigned,
    Consumer,
    Delivery,
    EndOfSegment,
    InitialPosition,
    Subscription,
    SubscriptionKind,
)
from txn_histories import calls
from txn_histories.clients import Client, Reached, Transaction
from txn_histories.notes import Fate
from txn_histories.stage import ConnectionLost, heard

RECEIVE_MAX = 8
READ_MAX = 5
PERMITS = 100
PATIENCE_S = 3.0
"""How long somebody waits for something to come."""

T = TypeVar("T")


class Waiting(Generic[T]):
    """A call that may take long: whoever gives up waiting finds it still under way the next time."""

    def __init__(self, client: Client, reached: Reached, call: Callable[[int], Coroutine[Any, Any, T]]) -> None:
        self._call = call
        self._client = client
        self._reached = reached
        self._task: asyncio.Task[T] | None = None
        self.since = 0
        """When the call began."""

    async def take(self, patience_s: float, count_max: int) -> T | None:
        """What comes of the call that is under way, or else of a new one; None if nothing comes in time."""
        if self._task is None:
            self.since = self._client.recorder.tick()
            self._task = asyncio.ensure_future(self._reached.broker.call(self._call, count_max))
            self._task.add_done_callback(heard)
        napping = asyncio.ensure_future(self._client.stage.pace.sleep(patience_s))
        try:
            await asyncio.wait({self._task, napping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            napping.cancel()
            await asyncio.gather(napping, return_exceptions=True)
        if not self._task.done():
            return None
        task, self._task = self._task, None
        return task.result()

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()


class Taking:
    """A consumer of a subscription, while it is attached to one owner of the segment."""

    def __init__(
        self, client: Client, reached: Reached, subscription: Subscription, consumer: Consumer, sighting: str
    ) -> None:
        self.client = client
        self.reached = reached
        self.subscription = subscription
        self.consumer = consumer
        self._sighting = sighting
        self._first: Position | None = None
        """The first that it was shown."""
        self._waiting: Waiting[list[Delivery]] = Waiting(client, reached, consumer.receive)
        consumer.permit(PERMITS)

    async def receive(self, patience_s: float = PATIENCE_S, messages_max: int = RECEIVE_MAX) -> list[Delivery]:
        """What has come; nothing if nothing comes for a while. Whatever it raises, this consumer is over."""
        deliveries = await self._waiting.take(patience_s, messages_max)
        if not deliveries:
            return []
        shown = [(each.position, each.entry.payload.decode(), skipped(each)) for each in deliveries]
        self.client.recorder.shown(self._sighting, self._waiting.since, shown)
        first = min(each.position for each in deliveries)
        self._first = first if self._first is None else min(self._first, first)
        self.consumer.permit(sum(each.entry.message_count for each in deliveries))
        return deliveries

    async def acknowledge(
        self, acks: Sequence[Ack], transaction: Transaction | None, era: int | None = None
    ) -> calls.Told:
        """Acknowledges; a transaction of which that is not certain has failed. Who says the era of what is
        acknowledged knows that of what it was not shown nothing is taken.
        """
        client = self.client
        since = START if era is None or self._first is None else self._first
        txn_id = None if transaction is None else transaction.txn_id
        segment = self.reached.segment.name
        try:
            told = await self.reached.broker.call(
                calls.acknowledge, client.recorder, self.subscription, segment, acks, txn_id, era, since
            )
        except ConnectionLost:
            told = calls.Told(Fate.UNKNOWN)
        if transaction is not None and not told.is_done:
            transaction.has_failed = True
        return told

    def give_back(self, positions: Sequence[Position]) -> None:
        texts = [str(position) for position in positions]
        segment = self.reached.segment.name
        self.client.recorder.note("nack", segment=segment, subscription=self.subscription.name, positions=texts)
        self.consumer.negative_acknowledge(positions)

    async def break_off(self) -> None:
        """The connection is gone, and the broker notices at once."""
        self._waiting.close()
        await self.consumer.close()

    async def aclose(self) -> None:
        self._waiting.close()
        with suppress(ConnectionLost):
            await self.reached.broker.call(self.consumer.close)


def skipped(delivery: Delivery) -> tuple[int, ...]:
    """The messages of a batch that are acknowledged, or held, already."""
    bits = delivery.acknowledged
    return () if bits is None else tuple(index for index in range(bits.size) if bits.bits >> index & 1)


async def attach(
    client: Client,
    segment: str,
    subscription: str,
    kind: SubscriptionKind = SubscriptionKind.EXCLUSIVE,
    *,
    is_final: bool = False,
    creates: bool = True,
    starts: Sequence[int] = (0,),
    assigned: Assigned | None = None,
    replaces: bool = False,
) -> Taking | None:
    """A consumer, attached to the owner there is now; None if that cannot be had at the moment.

    SubscriptionDeleted if there is no such subscription and none is to be created.
    """
    reached = await client.reach(segment)
    try:
        if creates:
            found = await reached.broker.call(reached.segment.subscribe, subscription, InitialPosition.EARLIEST)
        else:
            found = reached.segment.subscription(subscription)
        sighting = client.recorder.open(
            segment,
            subscription,
            term=reached.segment.term,
            is_shared=not kind.is_ordered,
            is_final=is_final,
            is_keyed=kind is SubscriptionKind.KEY_SHARED,
        )
        consumer = found.attach(client.name, kind, starts=starts, assigned=assigned, replaces=replaces)
    except TxnRetriable:
        client.forget(segment)
        return None
    return Taking(client, reached, found, consumer, sighting)


async def read(
    client: Client,
    segment: str,
    start: Position = START,
    *,
    is_final: bool = False,
    entries_max: int = READ_MAX,
    patience_s: float = PATIENCE_S,
) -> None:
    """A reader, from a bound on, until nothing comes for a while, or its owner is gone."""
    reached = await client.reach(segment)
    try:
        reader = reached.segment.reader(start)
        sighting = client.recorder.open(segment, start=start, term=reached.segment.term, is_final=is_final)
        waiting: Waiting[Any] = Waiting(client, reached, reader.read)
        try:
            while entries := await waiting.take(patience_s, entries_max):
                shown = [(each.position, each.entry.payload.decode(), ()) for each in entries]
                client.recorder.shown(sighting, waiting.since, shown)
        finally:
            waiting.close()
    except EndOfSegment:
        return
    except TxnRetriable:
        assert not is_final, "in the end nobody is disturbed"
        client.forget(segment)
