"""Orders become invoices: receive, transform, send, acknowledge, all or nothing; and kill -9 in the middle."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from controller.client import EARLIEST, Client, SegmentConsumer, SegmentProducer, connect
from controller.demo.stage import Stage
from metastore.stagecraft import begin_chapter, say
from txn.model.errors import TxnAbortable, TxnRetriable

ORDERS = 400
KILL_AFTER = 120
WORKERS = 4
"""Transactions at a time."""
FINISHED_WITHIN_S = 60.0


def show_orders_becoming_invoices(stage: Stage) -> int:
    """Returns the exit code: 1 if an order has not exactly one invoice."""
    begin_chapter(f"{ORDERS} orders, an invoice for each, and kill -9 of the broker in the middle")
    return asyncio.run(_run(stage))


async def _run(stage: Stage) -> int:
    async with await connect(stage.url) as client:
        async with await client.segment_producer("orders") as orders:
            await asyncio.gather(*(orders.send(b"order %d" % number) for number in range(ORDERS)))
        say(f"{ORDERS} orders are written")
        shop = _Shop(client)
        async with asyncio.timeout(FINISHED_WITHIN_S):
            async with asyncio.TaskGroup() as group:
                group.create_task(shop.serve())
                group.create_task(_kill_in_the_middle(stage, shop))
        say(f"{shop.committed} transactions committed, {shop.repeated} were aborted and begun again")
    async with await connect(stage.url) as client:
        return await _count(client)


class _Shop:
    """Turns orders into invoices."""

    def __init__(self, client: Client) -> None:
        self.committed = 0
        self.repeated = 0
        self.is_busy = asyncio.Event()
        self._client = client

    async def serve(self) -> None:
        """Returns when every order is done."""
        async with (
            await self._client.segment_consumer("orders", "billing", start=EARLIEST) as orders,
            await self._client.segment_producer("invoices") as invoices,
            asyncio.TaskGroup() as workers,
        ):
            for _ in range(WORKERS):
                workers.create_task(self._work(orders, invoices))

    async def _work(self, orders: SegmentConsumer, invoices: SegmentProducer) -> None:
        while self.committed < ORDERS:
            try:
                async with self._client.transaction(timeout_ms=20_000) as txn:
                    order = await orders.receive(timeout_ms=500)
                    await invoices.send(b"invoice for " + order.payload, txn=txn)
                    await orders.acknowledge(order, txn=txn)
            except TimeoutError:
                continue  # nothing is left, or the rest is with the other workers
            except (TxnAbortable, TxnRetriable):
                self.repeated += 1  # the order comes again
                continue
            self.committed += 1
            if self.committed >= KILL_AFTER:
                self.is_busy.set()


async def _kill_in_the_middle(stage: Stage, shop: _Shop) -> None:
    await shop.is_busy.wait()
    say(f"after {shop.committed} invoices: kill -9")
    await asyncio.to_thread(stage.broker.kill)
    began_s = time.monotonic()
    await asyncio.to_thread(stage.broker.start)
    before = shop.committed
    while shop.committed == before:
        await asyncio.sleep(0.01)
    say(f"the next invoice is committed {time.monotonic() - began_s:.1f} s later; nobody told the worker anything")


async def _count(client: Client) -> int:
    async with await client.segment_reader("invoices", follow=False) as invoices:
        found = Counter([invoice.payload async for invoice in invoices])
    wanted = {b"invoice for order %d" % number for number in range(ORDERS)}
    missing, doubled = wanted - found.keys(), [each for each, count in found.items() if count > 1]
    backlog = (await client.segments.stats("orders")).subscriptions["billing"].backlog_entries
    say(f"orders without an invoice: {len(missing)}; with more than one: {len(doubled)}; not acknowledged: {backlog}")
    is_right = not missing and not doubled and not backlog and found.keys() == wanted
    print("\nEvery order has one invoice." if is_right else f"\nWRONG: {missing} {doubled}", flush=True)
    return 0 if is_right else 1
