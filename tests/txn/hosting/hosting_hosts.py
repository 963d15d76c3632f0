"""Whole brokers without a network: hosts over one store in memory, clients that find the owner, and ways to die."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from hosting_world import SESSION_MS, pass_session

from metastore.faults import NO_FAULTS, Faults
from metastore.interface import StoreClosed
from support.world import Process, World, settle
from txn.coordinator.coordinator import Coordinator
from txn.hosting import Host, HostOptions, NoSuchSegment, OwnedElsewhere, Segment
from txn.hosting.places import STORED
from txn.model import paths
from txn.model.errors import SegmentUnavailable, TxnRetriable
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.segment.cursor import Ack
from txn.segment.entry import Entry
from txn.segment.log import SegmentLogs, StoredLogs
from txn.segment.subscription import InitialPosition, Subscription, SubscriptionKind

OPTIONS = HostOptions(session_timeout_ms=SESSION_MS, retention_ms=5_000)
STEPS_MAX = 200
DISK_S_MAX = 10.0
"""How long a disk may take, in the time that tests do not rule."""
TIMEOUT_MS = 600_000
SEGMENTS = [f"segment://t/{number}" for number in (1, 10, 100)]
"""Names of which one begins like the other."""

T = TypeVar("T")


class RunningHost:
    """A broker, from its start to its death."""

    def __init__(
        self,
        world: World,
        logs: Mapping[str, SegmentLogs] | None = None,
        faults: Faults = NO_FAULTS,
        options: HostOptions = OPTIONS,
    ) -> None:
        self.world = world
        self.process: Process = world.process()
        self.name = self.process.name
        made = logs or {STORED: StoredLogs(self.process.store, pace=self.process.pace, faults=faults)}
        self.host = Host(
            self.process.store,
            made,
            self.name,
            f"{self.name}:1",
            pace=self.process.pace,
            options=options,
            faults=faults,
        )
        self.is_dead = False
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> RunningHost:
        self._serving = self.process.start(self._serve())
        await settle()
        return self

    async def _serve(self) -> None:
        async with self.host:
            await asyncio.Event().wait()

    async def stop(self) -> None:
        """Ends it in good order."""
        await self._end()

    async def kill(self) -> None:
        """Nothing of it reaches the store from now on; what it holds of its machine is free."""
        self.process.script.clear()
        self.process.store.line.close()
        await self._end()

    async def _end(self) -> None:
        assert self._serving is not None
        self.is_dead = True
        self._serving.cancel()
        for _ in range(STEPS_MAX):
            if self._serving.done():
                return
            await self.world.pass_ms(10)
        raise AssertionError(f"{self.name} does not come to its end")

    @property
    def owned(self) -> list[str]:
        return sorted(self.host.owned)


async def hosts(world: World, count: int) -> list[RunningHost]:
    """So many of them."""
    return [await RunningHost(world).start() for _ in range(count)]


async def until(world: World, holds: Callable[[], bool], step_ms: int = 500) -> None:
    """Lets time pass until something is so."""
    for _ in range(STEPS_MAX):
        if holds():
            return
        await world.pass_ms(step_ms)
        await settle()
    raise AssertionError("it does not come to that")


async def within(world: World, work: Coroutine[Any, Any, T], step_ms: int = 200) -> T:
    """The result of something, while time passes."""
    task = asyncio.ensure_future(work)
    world.tasks.append(task)
    for _ in range(STEPS_MAX):
        await settle()
        if task.done():
            return task.result()
        await world.pass_ms(step_ms)
    task.cancel()
    raise AssertionError("it does not come to its end")


class Client:
    """Finds whoever owns a segment, and tries again where that is asked of it."""

    def __init__(self, world: World, made: list[RunningHost]) -> None:
        self.world = world
        self.made = made
        self._sequences: dict[str, int] = {}

    @property
    def living(self) -> list[RunningHost]:
        return [each for each in self.made if not each.is_dead]

    @property
    def coordinator(self) -> Coordinator:
        return self.living[0].host.coordinator

    async def begin(self, timeout_ms: int = TIMEOUT_MS) -> TxnId:
        return await self._repeated(lambda: self.coordinator.begin(timeout_ms))

    async def commit(self, txn_id: TxnId) -> None:
        await self._repeated(lambda: self.coordinator.commit(txn_id))

    async def abort(self, txn_id: TxnId) -> None:
        await self._repeated(lambda: self.coordinator.abort(txn_id))

    async def create(self, segment: str, place: str | None = None) -> None:
        await self._repeated(lambda: self.living[0].host.create(segment, place))

    async def delete(self, segment: str) -> None:
        async def delete() -> None:
            with suppress(NoSuchSegment):  # an earlier attempt may have come to its end meanwhile
                await self.living[0].host.delete(segment)

        await self._repeated(delete)

    async def find(self, segment: str) -> Segment:
        """The segment, wherever it is served."""
        return await self._repeated(lambda: self._find(segment))

    async def owner(self, segment: str) -> RunningHost:
        """Who serves it."""
        await self.find(segment)
        (owner,) = [each for each in self.living if segment in each.owned]
        return owner

    async def bury(self) -> None:
        """Ends what is left of those that have been cut off for ever."""
        for each in self.living:
            if each.process.store.line.is_closed:
                await each.kill()

    async def _find(self, segment: str) -> Segment:
        try:
            return await self.living[0].host.get(segment)
        except OwnedElsewhere as error:
            for each in self.living:
                if each.name == error.broker:
                    return await each.host.get(segment)
            raise SegmentUnavailable("its owner has died") from error

    async def send(self, segment: str, text: str, txn_id: TxnId | None = None) -> Position:
        """Publishes once, however often it takes."""
        sequence = self._sequences[segment] = self._sequences.get(segment, -1) + 1
        entry = Entry(text.encode(), "producer", sequence, txn_id)

        async def publish() -> Position:
            published = await (await self._find(segment)).publish(entry)
            return published.position or Position(0, 0)

        return await self._repeated(publish)

    async def read(self, segment: str) -> list[str]:
        """What a reader sees that comes now and waits for nothing."""

        async def read() -> list[str]:
            reader = (await self._find(segment)).reader(InitialPosition.EARLIEST, is_following=False)
            found: list[str] = []
            while entries := await reader.read():
                found += [each.entry.payload.decode() for each in entries]
            return found

        return await self._repeated(read)

    async def subscribe(self, segment: str, name: str = "sub") -> Subscription:
        async def subscribe() -> Subscription:
            return await (await self._find(segment)).subscribe(name, InitialPosition.EARLIEST)

        return await self._repeated(subscribe)

    async def acknowledge(self, segment: str, position: Position, txn_id: TxnId | None, name: str = "sub") -> None:
        async def acknowledge() -> None:
            subscription = await (await self._find(segment)).subscribe(name, InitialPosition.EARLIEST)
            await subscription.acknowledge([Ack(position)], txn_id)

        await self._repeated(acknowledge)

    async def receive(self, segment: str, name: str = "sub", *, count: int = 0) -> list[str]:
        """What a consumer gets that attaches now: so many, however long a disk takes, and what comes at once."""
        subscription = await self.subscribe(segment, name)
        consumer = subscription.attach("consumer", SubscriptionKind.SHARED)
        found: list[str] = []
        try:
            consumer.permit(1_000)
            while True:
                receiving = asyncio.ensure_future(consumer.receive(100))
                await settle()
                if not receiving.done() and len(found) >= count:
                    receiving.cancel()
                    return found
                found += [each.entry.payload.decode() for each in await asyncio.wait_for(receiving, DISK_S_MAX)]
        finally:
            await consumer.close()

    async def _repeated(self, call: Callable[[], Awaitable[T]]) -> T:
        for _ in range(STEPS_MAX):
            try:
                return await within(self.world, _awaited(call))
            except (TxnRetriable, StoreClosed):
                await self.bury()
                await self.world.pass_ms(500)
        raise AssertionError("it is refused for ever")


async def _awaited(call: Callable[[], Awaitable[T]]) -> T:
    return await call()


async def collected(world: World) -> list[str]:
    """The keys that are left of transactions, once everything that was decided had time to be collected."""
    for _ in range(30):
        await world.pass_ms(5_000)
        await settle()
    roots = (f"{paths.HEADERS}/", paths.OPERATIONS, paths.APPLIED)
    return [key for key in await world.keys() if key.startswith(roots)]


def in_hand(host: RunningHost) -> int:
    """Transactions that a host still has in hand."""
    return sum(segment.stats.in_hand for segment in host.host.owned.values())


async def check_outcome(world: World, client: Client, is_committed: bool) -> None:
    """What everybody sees in the end, once whoever had to die is dead; and that nothing is left."""
    await client.bury()
    await pass_session(world)
    for segment in SEGMENTS:
        inside = [f"{segment} in"] if is_committed else []
        assert await client.read(segment) == [f"{segment} before", *inside, f"{segment} after"]
    for segment in SEGMENTS:
        expected = [f"{segment} in", f"{segment} after"] if is_committed else [f"{segment} before", f"{segment} after"]
        assert await client.receive(segment, count=len(expected)) == expected
    await until(world, lambda: all(not in_hand(each) for each in client.living))
    assert await collected(world) == []


__all__ = [
    "Client",
    "RunningHost",
    "check_outcome",
    "collected",
    "hosts",
    "in_hand",
    "pass_session",
    "until",
    "within",
]
