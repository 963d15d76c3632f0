"""Good histories, for the tests of the judges: small runs over the store in memory, the same for the same seed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache

from metastore.clock import ManualClock
from metastore.interface import Environment, MetadataStore
from metastore.providers.memory import MemoryData, MemoryStore
from watch_contract.coalesced_stage import CoalescedStage
from watch_contract.stage import Plan, Stage
from watch_contract.verdict import History

SEEDS = 4


@cache
def recorded(seed: int) -> History:
    """What was noted in a run. Nobody changes it."""
    return _record(Stage, seed, ())


@cache
def recorded_coalesced(seed: int) -> History:
    """The same on a store that may tell several changes as one."""
    return _record(CoalescedStage, seed, ("every_change",))


def _record(stage: type[Stage], seed: int, lacks: tuple[str, ...]) -> History:
    clock = ManualClock()
    data = MemoryData(shards=2, clock=clock)

    @asynccontextmanager
    async def open_one() -> AsyncIterator[MetadataStore]:
        async with MemoryStore(data, Environment(clock), lacks=lacks) as store:
            yield store

    plan = Plan(seed=2 * seed, shards=2, writers=2, rounds=40, watchers=6, clock=clock)
    return asyncio.run(stage(plan, open_one).record())
