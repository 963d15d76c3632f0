"""A store that lives: transactions under way, a broker killed among them, headers collected; nothing is found in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path

import pytest
from audit_stage import found, source_at
from pyspark.sql import SparkSession

from controller.client import EARLIEST, Client, connect
from metastore.clock import SystemClock
from metastore.coordination import Pace, View
from metastore.interface import MetadataStore, Range, open_store
from metastore.spark import pin
from support.broker_process import BrokerProcess
from support.server import ServerProcess
from txn.audit.dialect import TIDEMARK, DialectName
from txn.audit.ledger import Ledger
from txn.audit.planting import Expected
from txn.audit.rules.registry import rules_of
from txn.audit.tables import Tables
from txn.coordinator.collector import Collector
from txn.model import paths
from txn.model.errors import TxnError
from txn.model.operation import Operation

WORKERS = 4
MESSAGES = 10_000
COMMITS_BEFORE = 40
COMMITS_AFTER = 40
TIMEOUT_MS = 4_000
SESSION_TIMEOUT_MS = 2_000
HOUR_MS = 3_600_000
ABORT_EVERY = 5
LEAVE_EVERY = 17
WITHIN_S = 90


class Undo(Exception):
    """What makes an application abort."""


class Load:
    """Those who move orders to invoices, each step in a transaction; some abort, some never end theirs."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.commits = 0
        self._news = asyncio.Condition()

    async def run(self) -> None:
        """Until it is cancelled."""
        async with await self._client.producer("orders") as producer, asyncio.TaskGroup() as tasks:
            for number in range(WORKERS):
                tasks.create_task(self._work(number))
            for number in range(MESSAGES):
                await producer.send(b"%d" % number, key=str(number))

    async def _work(self, number: int) -> None:
        client = self._client
        async with (
            await client.queue_consumer("orders", "billing", start=EARLIEST) as orders,
            await client.producer("invoices") as invoices,
        ):
            step = 0
            while True:
                step += 1
                try:
                    async with client.transaction(TIMEOUT_MS) as txn:
                        order = await orders.receive()
                        await invoices.send(order.payload, txn=txn)
                        await orders.acknowledge(order, txn=txn)
                        if step % ABORT_EVERY == 0:
                            raise Undo
                    await self._count()
                    if step % LEAVE_EVERY == 0:  # it ends by its deadline
                        left = await client.begin(TIMEOUT_MS)
                        await invoices.send(b"never", txn=left)
                except (TxnError, Undo):
                    continue

    async def _count(self) -> None:
        async with self._news:
            self.commits += 1
            self._news.notify_all()

    async def more(self, commits: int) -> None:
        """Returns when so many more were made."""
        async with self._news:
            enough = self.commits + commits
            await self._news.wait_for(lambda: self.commits >= enough)


class NobodyIsGone:
    """No segment and no subscription is deleted here."""

    async def is_gone(self, operation: Operation) -> bool:
        return False


async def emptied(store: MetadataStore, below: Range, index: str | None = None) -> None:
    """Returns when there is nothing there."""
    async with View(store, below, index=index, pace=Pace()) as view:
        await view.news()  # of what is there
        while view.records:
            await view.news()


async def loaded(
    url: str, first: BrokerProcess, second: BrokerProcess, audit: Callable[[], Coroutine[None, None, None]]
) -> None:
    """The load, a kill -9 in the middle of it, and an audit while it goes on."""
    await first.ready()
    await second.ready()
    async with await connect(f"tidemark://{first.address},{second.address}") as client:
        await client.topics.create("orders", segments=2)
        load = Load(client)
        running = asyncio.create_task(load.run())
        await load.more(COMMITS_BEFORE)
        await asyncio.to_thread(first.kill)
        audited = asyncio.create_task(audit())
        await load.more(COMMITS_AFTER)
        await audited
        running.cancel()
        await asyncio.wait([running])
        async with await open_store(url) as store:
            await emptied(store, Range("", ""), paths.BY_DEADLINE)
            await emptied(store, paths.below(paths.OPERATIONS, store.key_sorting))


async def collected(url: str) -> None:
    """Collects everything that is decided, however young."""
    async with await open_store(url) as store:
        collector = asyncio.create_task(Collector(store, NobodyIsGone(), Pace(), retention_ms=0).run())
        await emptied(store, Range("", ""), paths.BY_FINAL_STATE)
        collector.cancel()
        await asyncio.wait([collector])


@pytest.mark.timeout(300)
def test_nothing_is_found_in_a_store_that_lived_through_load_kills_and_collection(
    spark: SparkSession, tmp_path: Path
) -> None:
    ledger = Ledger(spark, tmp_path / "ledger", TIDEMARK)
    clock = SystemClock()

    def audit(url: str, *, later_ms: int = 0, grace_ms: int = TIDEMARK.limits.grace_ms) -> set[Expected]:
        limits = replace(TIDEMARK.limits, grace_ms=grace_ms)
        with pin(url) as point:
            source = source_at(spark, url, point, clock.wall_ms() + later_ms)
            has_history = not ledger.is_empty
            rules = rules_of(DialectName.TIDEMARK, history=None if has_history else False)
            violations = found(Tables(source, TIDEMARK, limits, ledger if has_history else None), rules)
            ledger.append(source)
            return violations

    with ServerProcess(shards=2) as server:
        url = f"oxia://{server.address}"
        arguments = ("--log", "metastore", "--session-timeout-ms", str(SESSION_TIMEOUT_MS))
        amid: list[set[Expected]] = []

        async def audit_amid() -> None:
            amid.append(await asyncio.to_thread(audit, url))

        with BrokerProcess(url, *arguments) as first, BrokerProcess(url, *arguments) as second:
            asyncio.run(loaded(url, first, second, audit_amid))
            assert amid == [set()]
            # Everybody has finished: nothing may still be under way.
            assert audit(url, grace_ms=0) == set()
            asyncio.run(collected(url))
        # Nothing is excused for being young, and nothing that is left behind for waiting to be collected.
        assert audit(url, later_ms=HOUR_MS, grace_ms=0) == set()
        assert ledger.read("headers").where("state = 'ABORTED'").count() > 0
