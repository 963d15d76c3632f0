"""One watch of the open transactions for all in a process: shared, begun anew, and ended with the last who follows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from metastore.coordination import View
from metastore.interface import AccessDenied, MetadataStore, Watch
from support.world import World, run, settle
from txn.coordinator.registry import OpenTransactions
from txn.model import paths
from txn.model.header import Cause, Header, TxnState
from txn.model.ids import TxnId
from txn.outcomes import OpenHeaders, Outcomes

ONE, TWO = TxnId(0, 1), TxnId(0, 11)
OPEN = Header(TxnState.OPEN, 1_000, 9_000)


async def put_header(world: World, txn_id: TxnId, header: Header) -> None:
    store = world.process().store
    key, partition = paths.header_key(txn_id), paths.partition(txn_id)
    await store.put(key, header.encode(), partition_key=partition, indexes=header.indexes())


def counted(monkeypatch: pytest.MonkeyPatch, store: MetadataStore) -> list[None]:
    """Something for each watch that is opened from now on."""
    opened: list[None] = []
    watch = store.watch

    def open_watch(*arguments: Any, **options: Any) -> Watch:
        opened.append(None)
        return watch(*arguments, **options)

    monkeypatch.setattr(store, "watch", open_watch)
    return opened


def test_outcomes_and_the_registry_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        watches = counted(monkeypatch, process.store)
        headers = OpenHeaders(process.store, process.pace)
        registry = OpenTransactions(process.store, process.pace, headers)
        await put_header(world, ONE, OPEN)
        following = process.start(registry.follow())
        async with Outcomes(process.store, process.pace, headers=headers) as outcomes:
            await registry.ready()
            followed = outcomes.follow(ONE)
            assert (await followed.known()).is_open
            await put_header(world, TWO, OPEN)
            await settle()
            assert set(registry.headers()) == {ONE, TWO}
            following.cancel()
            await settle()
            await put_header(world, ONE, OPEN.decided(TxnState.COMMITTED, Cause.CLIENT, 2_000))
            assert await followed.decided() is TxnState.COMMITTED, "it goes on for those who are left"
            assert len(watches) == 1
            assert process.script.arrivals["memory.get.before"] == 0

    run(scenario)


def test_who_comes_when_all_have_left_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        watches = counted(monkeypatch, process.store)
        headers = OpenHeaders(process.store, process.pace)
        for number, txn_id in enumerate((ONE, TWO), 1):
            await put_header(world, txn_id, OPEN)
            async with Outcomes(process.store, process.pace, headers=headers) as outcomes:
                assert (await outcomes.follow(txn_id).known()).is_open
            assert len(watches) == number

    run(scenario)


def test_a_follower_that_fails_fails_alone_and_all_hear_of_a_watch_that_cannot_be() -> None:
    async def scenario(world: World) -> None:
        process = world.process()
        headers = OpenHeaders(process.store, process.pace)
        told: list[frozenset[str]] = []

        def hear(view: View, news: frozenset[str]) -> None:
            told.append(news)

        def fail(view: View, news: frozenset[str]) -> None:
            raise ArithmeticError

        hearing, failing = process.start(headers.follow(hear)), process.start(headers.follow(fail))
        with pytest.raises(ArithmeticError):
            await failing
        with pytest.raises(ArithmeticError):
            await headers.follow(fail)
        await put_header(world, ONE, OPEN)
        await settle()
        assert told == [frozenset(), frozenset({paths.header_key(ONE)})]
        hearing.cancel()
        await asyncio.wait([hearing])

        process.script.fail("watch", AccessDenied("no"))
        for refused in [process.start(headers.follow(hear)) for _ in range(2)]:
            with pytest.raises(AccessDenied):
                await refused

    run(scenario)
