"""A subscription goes for good, also if whoever asked for that first was cut off in the middle."""

from __future__ import annotations

import asyncio

import pytest
from hosting_hosts import Client, hosts

from support.world import World, run, settle
from txn.model import paths
from txn.segment.subscription.cursor_record import has_cursor

S = "segment://t/1"


@pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", [0, 1], ids=["marking", "removing"])
def test_who_asks_again_after_being_cut_off_is_done(write: int, after: bool, lacks: tuple[str, ...]) -> None:
    """Else the topic's operation that asks would ask for ever, and nothing else could be done to the topic."""

    async def scenario(world: World) -> None:
        (broker,) = await hosts(world, 1)
        await broker.host.create(S)
        segment = await Client(world, [broker]).find(S)
        await segment.subscribe("s")
        key = paths.cursor_key(S, "s")
        gate = broker.process.script.hold("put" if lacks else "transact", prefix=key, after=after)
        first = asyncio.ensure_future(segment.unsubscribe("s"))
        for _ in range(write):
            await settle()
            gate.release(1)
        await settle()
        assert gate.held
        first.cancel()
        gate.release()
        await settle()
        assert first.cancelled()
        await segment.unsubscribe("s")
        segment.check()
        assert segment.subscriptions == {}
        assert not await has_cursor(broker.process.store, S, "s")

    run(scenario, lacks)
