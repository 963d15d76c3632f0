"""What the clients of a simulation do all the time: write, transform, consume, read, in transactions and without."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing

from txn.hosting.errors import NoSuchSegment
from txn.model.errors import TxnFatal, TxnRetriable
from txn.model.header import TxnState
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.errors import SegmentSealed
from txn.segment.log import START
from txn.segment.subscription import Delivery, SubscriptionKind
from txn_histories.clients import Client, Publisher, Transaction
from txn_histories.consumers import Taking, attach, read
from txn_histories.outcomes import DECIDED

COMMITS, ABORTS, ABANDONS = 0.6, 0.85, 0.95
"""Up to which chance a transaction is committed, is aborted, is left to its deadline; the rest is raced for."""
PLAIN = 0.3
"""How often an only consumer acknowledges without a transaction."""
LEFT_OPEN = 0.3
"""How often it leaves a transaction open for a while, in which it has acknowledged something."""
BURST_MAX = 4
BATCH_MAX = 3
ROUNDS_MAX = 6
"""Of one consumer, before it goes and another comes."""


class Actors:
    """All of them; they end when `is_over` is set, each when it is through with what it is doing."""

    def __init__(self, segments: list[str], make_client: Callable[[str], Client]) -> None:
        self.segments = segments
        """Those that take entries; whoever finds that one does not takes it out."""
        self.is_over = False
        self._make_client = make_client

    def all(self) -> list[Awaitable[None]]:
        """Everybody."""
        return [
            *(self._write(f"writer-{number}") for number in range(2)),
            *(self._transform(f"transformer-{number}", f"sub-{number}") for number in range(2)),
            *(self._share(f"sharer-{number}") for number in range(2)),
            *(self._read(f"reader-{number}") for number in range(2)),
        ]

    # -- transactions

    async def _finish(self, client: Client, transaction: Transaction) -> None:
        """Ends a transaction in one of the ways in which clients do it, or do not."""
        chance = client.random.random()
        wanted = TxnState.COMMITTED if chance < COMMITS and not transaction.has_failed else TxnState.ABORTED
        if chance < ABORTS:
            await client.end(transaction, wanted)
        elif chance >= ABANDONS and not transaction.has_failed:
            rival = Transaction(transaction.txn_id)
            await asyncio.gather(
                client.end(transaction, TxnState.COMMITTED), client.end(rival, TxnState.ABORTED, attempts_max=2)
            )

    # -- who writes

    async def _write(self, name: str) -> None:
        client = self._make_client(name)
        publisher = Publisher(client, client.name)
        while not self.is_over:
            transaction = None
            if client.random.random() < 0.7:
                transaction = await client.begin()
            for _ in range(client.random.randint(1, BURST_MAX)):
                await self._publish(publisher, transaction)
                if transaction is not None and client.random.random() < 0.2:
                    await client.look(transaction)
            if transaction is not None:
                await self._finish(client, transaction)
            await client.pause()

    async def _publish(self, publisher: Publisher, transaction: Transaction | None) -> None:
        """Some messages to one segment; into another if it is found to take no more."""
        choice = publisher.client.random
        segment = choice.choice(self.segments)
        size = choice.choice([1, 1, BATCH_MAX])
        try:
            await publisher.publish(segment, transaction, choice.randint(1, BURST_MAX), size)
        except (SegmentSealed, NoSuchSegment):
            if segment in self.segments:
                self.segments.remove(segment)
            publisher.client.forget(segment)

    # -- who takes

    async def _consume(
        self,
        client: Client,
        subscription: str,
        kind: SubscriptionKind,
        handle: Callable[[Taking, list[Delivery]], Awaitable[None]],
        favourites: Collection[str] = (),
    ) -> None:
        """Attaches to one segment after the other, oftener to its favourites, and handles what comes."""
        while not self.is_over:
            segment = client.random.choice([*self.segments, *filter(self.segments.__contains__, favourites)])
            try:
                taking = await attach(client, segment, subscription, kind)
                if taking is not None:
                    async with aclosing(taking):
                        for _ in range(client.random.randint(1, ROUNDS_MAX)):
                            deliveries = await taking.receive()
                            if deliveries:
                                await handle(taking, deliveries)
            except (TxnRetriable, TxnFatal):
                client.forget(segment)  # its owner has gone, or nothing is left in it
            await client.pause()

    async def _transform(self, name: str, subscription: str) -> None:
        """Receives, sends on, and acknowledges in one transaction; or without one. Sometimes it goes, and leaves the
        transaction open until somebody else has received what is left.
        """
        client = self._make_client(name)
        publisher = Publisher(client, client.name)
        left_open: dict[str, Transaction] = {}

        async def handle(taking: Taking, deliveries: list[Delivery]) -> None:
            era, segment = deliveries[0].era, taking.reached.segment.name
            before = left_open.pop(segment, None) if client.random.random() < 0.5 else None
            if before is not None:
                await client.end(before, TxnState.ABORTED if before.has_failed else client.random.choice(DECIDED))
                await client.pause()  # what it held may be free by then
                await taking.acknowledge([Ack(deliveries[-1].position, True)], None, era)
                return
            if client.random.random() < PLAIN:
                await taking.acknowledge(_acks(client, deliveries), None, era)
                return
            transaction = await client.begin()
            is_left_open = segment not in left_open and client.random.random() < LEFT_OPEN
            if not is_left_open and client.random.random() < 0.5:
                await self._publish(publisher, transaction)
            await taking.acknowledge(_acks(client, deliveries), transaction, era)
            if client.random.random() < 0.3:
                await taking.acknowledge(_acks(client, deliveries[-1:]), transaction, era)
            if is_left_open:
                left_open[segment] = transaction
                await taking.break_off()
            else:
                await self._finish(client, transaction)

        await self._consume(client, subscription, SubscriptionKind.EXCLUSIVE, handle, left_open)

    async def _share(self, name: str) -> None:
        """Takes its part, gives some of it back, acknowledges the rest, sometimes in a transaction."""
        client = self._make_client(name)

        async def handle(taking: Taking, deliveries: list[Delivery]) -> None:
            mine = [each for each in deliveries if client.random.random() < 0.8]
            given_back = [each.position for each in deliveries if each not in mine]
            if given_back:
                taking.give_back(given_back)
            acks = [ack for each in mine for ack in _single(client, each)]
            if not acks:
                return
            transaction = await client.begin() if client.random.random() < 0.4 else None
            await taking.acknowledge(acks, transaction)
            if transaction is not None:
                await self._finish(client, transaction)

        await self._consume(client, "shared", SubscriptionKind.SHARED, handle)

    async def _read(self, name: str) -> None:
        client = self._make_client(name)
        while not self.is_over:
            segment = client.random.choice(self.segments)
            start = START if client.random.random() < 0.7 else Position(client.random.randint(1, 60), 0)
            try:
                await read(client, segment, start)
            except NoSuchSegment:
                client.forget(segment)
            await client.pause()


def _acks(client: Client, deliveries: list[Delivery]) -> list[Ack]:
    """Of what an only consumer has: everything up to one of them, or some of them."""
    if client.random.random() < 0.4:
        upto = client.random.choice(deliveries)
        size = upto.entry.message_count
        if size > 1 and client.random.random() < 0.5:
            return [Ack(upto.position, True, (client.random.randrange(size),), size)]
        return [Ack(upto.position, True)]
    chosen = [each for each in deliveries if client.random.random() < 0.8] or deliveries[:1]
    return [ack for each in chosen for ack in _single(client, each)]


def _single(client: Client, delivery: Delivery) -> list[Ack]:
    """Of one entry: all of it, or some messages of the batch."""
    size = delivery.entry.message_count
    if size == 1 or client.random.random() < 0.5:
        return [Ack(delivery.position)]
    batch = tuple(index for index in range(size) if client.random.random() < 0.6) or (0,)
    return [Ack(delivery.position, False, batch, size)]
