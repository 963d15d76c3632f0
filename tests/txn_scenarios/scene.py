"""The stage of a scenario: brokers, clients, and short words for what they do. Time passes by itself, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from support.world import World, running
from txn.hosting.host import HostOptions
from txn.model import paths
from txn.model.header import TxnState
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.subscription import Delivery, EndOfSegment, SubscriptionKind
from txn_histories import calls
from txn_histories.checker import check, report
from txn_histories.clients import Client, Publisher, Reached, Transaction
from txn_histories.consumers import Taking, attach, read
from txn_histories.notes import Rest
from txn_histories.recorder import Recorder, history_of
from txn_histories.stage import SimulatedBroker, Stage

STEP_MS = 100
STEPS_MAX = 10_000
HOUR_MS = 3_600_000
PATIENCE_S = 1.0
OPTIONS = HostOptions(session_timeout_ms=5_000, retention_ms=2_000)
LACKING = ("transact", "every_change", "index_order")

EVERYWHERE = pytest.mark.parametrize(
    ("shards", "lacks"),
    [(1, ()), (4, ()), (4, LACKING)],
    ids=["1 shard", "4 shards", "4 plain shards"],
)
"""Where every scenario is played."""


class Scene:
    """What a scenario is told with. Names of segments are completed; messages are named by what the scenario says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.recorder = Recorder()
        self.stage = Stage(world, 1, OPTIONS)
        self.client = Client(self.stage, self.recorder, "client")
        self._publishers: dict[str, Publisher] = {}
        self.segments: list[str] = []

    @property
    def broker(self) -> SimulatedBroker:
        """The one that was started first of those that live."""
        return self.stage.brokers[0]

    # -- brokers and segments

    async def start(self, brokers: int = 1) -> None:
        for _ in range(brokers):
            self.stage.start_broker()
        while len(self.stage.serving) < len(self.stage.brokers):
            await self.pause()

    async def restart(self, *, kill: bool = True) -> None:
        """The first broker goes, and another comes in its place."""
        self.stage.end_broker(self.broker, kill=kill)
        await self.start()

    async def create(self, *names: str) -> None:
        for name in names:
            assert self.broker.host is not None
            await self.broker.call(self.broker.host.create, name)
            self.segments.append(name)

    async def reach(self, segment: str) -> Reached:
        self.client.forget(segment)
        return await self.client.reach(segment)

    async def pause(self, seconds: float = STEP_MS / 1000) -> None:
        await self.stage.pace.sleep(seconds)

    # -- transactions

    async def begin(self, timeout_ms: int = HOUR_MS) -> Transaction:
        return await self.client.begin(timeout_ms)

    async def commit(self, transaction: Transaction) -> None:
        await self.client.end(transaction, TxnState.COMMITTED)
        assert transaction.state is TxnState.COMMITTED

    async def abort(self, transaction: Transaction) -> None:
        await self.client.end(transaction, TxnState.ABORTED)
        assert transaction.state is TxnState.ABORTED

    async def state_of(self, txn_id: TxnId) -> TxnState:
        assert self.broker.host is not None
        return (await self.broker.call(self.broker.host.coordinator.describe, txn_id)).state

    # -- messages

    async def send(
        self, segment: str, count: int = 1, txn: Transaction | None = None, *, producer: str = "p", size: int = 1
    ) -> list[str]:
        """Sends messages, one behind the other; their names."""
        publisher = self._publishers.setdefault(producer, Publisher(self.client, producer))
        before = len(self.recorder.lines)
        await publisher.publish(segment, txn, count, size)
        names = [str(line["message"]) for line in self.recorder.lines[before:] if line["what"] == "send"]
        return list(dict.fromkeys(names))

    async def attach(
        self, segment: str, subscription: str, kind: SubscriptionKind = SubscriptionKind.EXCLUSIVE
    ) -> Taking:
        self.client.forget(segment)
        while (taking := await attach(self.client, segment, subscription, kind)) is None:
            await self.pause()
        return taking

    async def take(self, taking: Taking, patience_s: float = PATIENCE_S) -> list[Delivery]:
        """Everything that comes until nothing more does."""
        found: list[Delivery] = []
        try:
            while deliveries := await taking.receive(patience_s, messages_max=1_000):
                found += deliveries
        except EndOfSegment:
            pass  # all of it was acknowledged, and nothing will come
        return found

    async def consume(self, segment: str, subscription: str) -> list[str]:
        """What a consumer of a subscription gets, who acknowledges nothing."""
        taking = await self.attach(segment, subscription)
        found = await self.take(taking)
        await taking.aclose()
        return names_of(found)

    async def acknowledge(
        self, taking: Taking, deliveries: Sequence[Delivery], txn: Transaction | None = None
    ) -> calls.Told:
        return await taking.acknowledge([Ack(each.position) for each in deliveries], txn)

    async def read(self, segment: str) -> list[str]:
        """What a reader finds from the beginning on."""
        before = len(self.recorder.lines)
        self.client.forget(segment)
        await read(self.client, segment, patience_s=PATIENCE_S)
        shown = [line for line in self.recorder.lines[before:] if line["what"] == "shown"]
        return [message for line in shown for _, message, _ in line["entries"]]

    async def keys(self, *prefixes: str) -> list[str]:
        """The records there are below these paths."""
        return [key for key in await self.world.keys() if key.startswith(prefixes)]

    # -- the end

    async def rest(self) -> Rest:
        """Waits until nothing is left to be done, and reads everything once more."""
        transient = (f"{paths.HEADERS}/", f"{paths.OPERATIONS}/", f"{paths.APPLIED}/")
        rest = Rest()
        for _ in range(400):
            rest.leftovers = await self.keys(*transient)
            if not rest.leftovers:
                break
            await self.pause(1.0)
        for segment in self.segments:
            self.client.forget(segment)
            await read(self.client, segment, is_final=True, patience_s=PATIENCE_S)
            taking = await attach(self.client, segment, "fresh in the end", is_final=True)
            assert taking is not None
            await self.take(taking)
            reached = await self.reach(segment)
            stats = reached.segment.stats
            rest.ends[segment] = (stats.bound, stats.end)
            rest.oldest[segment] = reached.segment.first or stats.end
        return rest


def names_of(deliveries: Sequence[Delivery]) -> list[str]:
    return [each.entry.payload.decode() for each in deliveries]


def positions_of(deliveries: Sequence[Delivery]) -> list[Position]:
    return [each.position for each in deliveries]


def play(scenario: Callable[[Scene], Awaitable[None]], shards: int = 1, lacks: tuple[str, ...] = ()) -> None:
    """Plays a scenario to its end, and has everything judged."""

    async def whole() -> None:
        async with running(lacks, shards) as world:
            scene = Scene(world)

            async def told() -> Rest:
                await scene.start()
                await scenario(scene)
                return await scene.rest()

            task = asyncio.ensure_future(told())
            try:
                for _ in range(STEPS_MAX):
                    if task.done():
                        break
                    await scene.stage.step(STEP_MS)
                assert task.done(), "the scenario does not come to its end"
                rest = task.result()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await scene.stage.close()
            history = history_of(scene.recorder.lines)
            history.rest = rest
            findings = check(history)
            assert not findings.violations, report(findings)

    asyncio.run(whole())
