"""A whole simulation: clients and chaos for a while, then peace, then everything is read once more, and judged."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from metastore.interface import ALL, Environment, Record
from metastore.providers.memory import MemoryStore
from support.world import World, running
from txn.hosting.host import HostOptions
from txn.model import paths
from txn.model.operation import Operation
from txn.segment.subscription import EndOfSegment, SubscriptionKind
from txn_histories.actors import Actors
from txn_histories.chaos import Chaos
from txn_histories.checker import check
from txn_histories.clients import Client
from txn_histories.consumers import attach, read
from txn_histories.notes import Rest
from txn_histories.recorder import Recorder, history_of
from txn_histories.stage import TIMEOUT_MS_MAX, Stage
from txn_histories.violations import Findings

SUBSCRIPTIONS = {
    "sub-0": SubscriptionKind.EXCLUSIVE,
    "sub-1": SubscriptionKind.EXCLUSIVE,
    "shared": SubscriptionKind.SHARED,
    "fresh": SubscriptionKind.EXCLUSIVE,
}
"""Those that are read to their ends; the last one is new then."""
OPTIONS = HostOptions(session_timeout_ms=10_000, retention_ms=5_000)
TRANSIENT = (f"{paths.HEADERS}/", f"{paths.OPERATIONS}/", f"{paths.APPLIED}/")
"""Below these paths nothing is left when nothing goes on any more."""
QUIET_STEPS = 600
"""More than sessions, deadlines, takeovers and collections take, with the pauses of all who try again."""
PATIENCE_S = 20.0
"""In the end: nothing more will come."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What kind of simulation; the same plan takes the same course each time."""

    seed: int
    shards: int = 1
    lacks: tuple[str, ...] = ()
    steps: int = 200

    def __str__(self) -> str:
        return f"seed {self.seed}, {self.shards} shards, lacks {', '.join(self.lacks) or 'nothing'}"


class Simulation:
    """One run."""

    def __init__(self, plan: Plan, world: World) -> None:
        self._plan = plan
        self._world = world
        self._recorder = Recorder()
        self._stage = Stage(world, plan.seed, OPTIONS)
        self._segments: list[str] = []
        self._chaos = Chaos(self._stage, self._client("chaos"), self._segments)
        self._actors = Actors(self._segments, self._client)
        self._tasks: list[asyncio.Future[None]] = []

    def _client(self, name: str) -> Client:
        return Client(self._stage, self._recorder, name)

    async def run(self) -> Findings:
        """What is wrong, with the plan as a note on whatever is raised."""
        try:
            await self._begin()
            for _ in range(self._plan.steps):
                await self._chaos.step()
                await self._step()
            await self._come_to_rest()
            rest = await self._read_everything()
        except BaseException as error:
            error.add_note(f"{self._plan}; {self._chaos.events[-20:]}")
            raise
        finally:
            for task in [*self._tasks, *self._chaos.tasks]:
                task.cancel()
            await self._stage.close()
        history = history_of(self._recorder.lines)
        history.rest = rest
        findings = check(history)
        findings.counts["events"] += len(self._chaos.events)
        return findings

    async def _step(self) -> None:
        await self._stage.step()
        for task in [*self._tasks, *self._chaos.tasks]:
            if task.done():
                task.result()

    async def _begin(self) -> None:
        for _ in range(3):
            self._stage.start_broker()
        await self._stage.until(lambda: len(self._stage.serving) == 3)
        for _ in range(3):
            self._chaos.create()
        await self._stage.until(lambda: len(self._segments) == 3)
        self._tasks = [asyncio.ensure_future(each) for each in self._actors.all()]

    async def _come_to_rest(self) -> None:
        self._actors.is_over = True
        self._chaos.heal()
        await self._stage.until(lambda: all(task.done() for task in [*self._tasks, *self._chaos.tasks]))
        self._chaos.heal()
        await self._step()
        passed_ms = 0
        while passed_ms < 2 * TIMEOUT_MS_MAX or not await self._is_clean():
            passed_ms += 500
            if passed_ms > 500 * QUIET_STEPS:
                return  # the judge says what is left
            await self._stage.step(500)

    async def _is_clean(self) -> bool:
        return not await self._leftovers()

    async def _leftovers(self) -> list[str]:
        """The keys of what should be gone.

        Without `transact` a put that was held up on its way may come when all is over, and nobody is there any more who
        would collect it: a participant's word of a transaction that is gone, an operation in a segment that is gone.
        """
        found: list[str] = []
        async with MemoryStore(self._world.data, Environment(self._world.clock)) as store:
            async for record in store.scan(ALL):
                if record.key.startswith(TRANSIENT) and not (self._is_plain and self._is_orphan(record)):
                    found.append(record.key)
        return found

    @property
    def _is_plain(self) -> bool:
        return "transact" in self._plan.lacks

    def _is_orphan(self, record: Record) -> bool:
        if record.key.startswith(f"{paths.APPLIED}/"):
            return True
        if not record.key.startswith(f"{paths.OPERATIONS}/"):
            return False
        host = self._stage.brokers[0].host
        return host is not None and Operation.decode(record.value or b"").segment not in host.segments

    async def _read_everything(self) -> Rest:
        rest = Rest()
        client = self._client("last")
        segments = sorted(self._stage.serving[0].host.segments) if self._stage.serving[0].host else []
        for segment in segments:
            await self._finish(read(client, segment, is_final=True, patience_s=PATIENCE_S))
            for subscription, kind in SUBSCRIPTIONS.items():
                await self._finish(self._drain(client, segment, subscription, kind))
            reached = await client.reach(segment)
            stats = reached.segment.stats
            rest.ends[segment] = (stats.bound, stats.end)
            rest.oldest[segment] = reached.segment.first or stats.end
        rest.leftovers = await self._leftovers()
        return rest

    async def _finish(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        await self._stage.until(task.done)
        task.result()

    async def _drain(self, client: Client, segment: str, subscription: str, kind: SubscriptionKind) -> None:
        taking = await attach(client, segment, subscription, kind, is_final=True)
        assert taking is not None, "in the end nobody is disturbed"
        try:
            while await taking.receive(PATIENCE_S, messages_max=50):
                pass
        except EndOfSegment:
            return
        await taking.aclose()


async def simulate(plan: Plan) -> Findings:
    """Runs a plan in a world of its own."""
    async with running(plan.lacks, plan.shards) as world:
        return await Simulation(plan, world).run()
