"""Owners of one segment and their subscriptions, in a world of `support.world`, and who decides transactions."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

import pytest

from metastore.coordination import Election, Grant
from metastore.faults import NO_FAULTS, Faults
from support.world import Process, World, running, settle
from txn.model import paths
from txn.model.header import Cause, Header, TxnState
from txn.model.ids import TxnId
from txn.model.position import Position
from txn.outcomes import Outcomes
from txn.segment.cursor import Ack, CursorState
from txn.segment.entry import VOID, Entry
from txn.segment.log import LogEntry, SegmentLog, StoredLogs
from txn.segment.operations import OperationRecords
from txn.segment.subscription import (
    Consumer,
    Delivery,
    InitialPosition,
    Subscription,
    SubscriptionKind,
    Surroundings,
    read_cursor,
)
from txn.segment.subscription.values import VisibleEntry

SEGMENT = "segment://tenant/ns/orders/0000-7fff-1"
SUB = "billing"
SESSION_MS = 10_000
EXCLUSIVE, SHARED, FAILOVER = SubscriptionKind.EXCLUSIVE, SubscriptionKind.SHARED, SubscriptionKind.FAILOVER
KEY_SHARED = SubscriptionKind.KEY_SHARED

every_store = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])

_sequences = itertools.count()


class _Visible:
    def __init__(self, position: Position, entry: Entry) -> None:
        self.position = position
        self.entry = entry


class Sight:
    """What may be read of a log: a stand-in for the transaction buffer whose outcomes a test sets."""

    def __init__(self, log: SegmentLog) -> None:
        self.held_at: Position | None = None
        self.aborted: set[TxnId] = set()
        self.asked = 0
        self._log = log
        self._moved = asyncio.Event()

    @property
    def bound(self) -> Position:
        end = self._log.lengths.end
        return end if self.held_at is None else min(end, self.held_at)

    async def wait_moved(self, beyond: Position) -> bool:
        while self.bound <= beyond:
            if self._log.is_sealed and self.held_at is None:
                return False
            await self._moved.wait()
        return True

    async def filter(self, entries: Sequence[LogEntry]) -> Sequence[VisibleEntry]:
        self.asked += 1
        await asyncio.sleep(0)
        found = [_Visible(position, Entry.decode(data)) for position, data in entries]
        return [each for each in found if not each.entry.is_void and each.entry.txn_id not in self.aborted]

    def ring(self) -> None:
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


class Owner:
    """A process that owns the segment, and what it has of it."""

    def __init__(self, world: World, process: Process, grant: Grant, log: SegmentLog, faults: Faults) -> None:
        self.world = world
        self.process = process
        self.grant = grant
        self.log = log
        self.sight = Sight(log)
        self.outcomes = Outcomes(process.store, process.pace)
        self.operations = OperationRecords(process.store, SEGMENT, process.name, grant.term, process.pace)
        self.around = Surroundings(log, self.sight, grant, self.outcomes, self.operations, process.pace, faults)
        self.subscriptions: list[Subscription] = []

    @classmethod
    async def take(cls, world: World, faults: Faults = NO_FAULTS) -> Owner:
        """The next owner; the one before has let go, or is dead."""
        process = world.process()
        election = Election(
            process.store,
            paths.owner_key(SEGMENT),
            process.name.encode(),
            partition_key=SEGMENT,
            session_timeout_ms=SESSION_MS,
            identity=process.name,
            pace=process.pace,
        )
        grant = await election.campaign()
        log = await StoredLogs(process.store, pace=process.pace).open(SEGMENT, grant.term)
        return cls(world, process, grant, log, faults)

    async def create(self, name: str = SUB) -> Subscription:
        subscription = await Subscription.create(name, InitialPosition.EARLIEST, self.around)
        self.subscriptions.append(subscription)
        return subscription

    async def recover(self, name: str = SUB) -> Subscription:
        subscription = await Subscription.recover(name, self.around)
        assert subscription is not None
        self.subscriptions.append(subscription)
        return subscription

    async def publish(self, count: int = 1, *, messages: int = 1, txn_id: TxnId | None = None) -> list[Position]:
        """Entries, each of so many messages."""
        entries = [
            Entry(b"%d" % next(_sequences), message_count=messages, txn_id=txn_id).encode() for _ in range(count)
        ]
        return await self._append(entries)

    async def append(self, *entries: Entry) -> list[Position]:
        """These entries."""
        return await self._append([each.encode() for each in entries])

    async def _append(self, entries: Sequence[bytes]) -> list[Position]:
        first = await self.log.append(entries)
        self.sight.ring()
        return [Position(first.ledger, first.entry + number) for number in range(len(entries))]

    async def publish_void(self) -> Position:
        first = await self.log.append([VOID.encode()])
        self.sight.ring()
        return first

    async def seal(self) -> None:
        await self.log.seal()
        self.sight.ring()

    async def die(self) -> None:
        """Ends as a killed process does: nothing more is written, the grant's session goes."""
        self.process.script.clear()
        for subscription in self.subscriptions:
            await subscription.close()
        await self.outcomes.close()
        await self.log.close()
        await self.grant.release()


async def begin(world: World, number: int) -> TxnId:
    """A transaction."""
    txn_id = TxnId(0, number)
    header = Header(TxnState.OPEN, world.clock.wall_ms(), world.clock.wall_ms() + 3_600_000)
    await put_header(world, txn_id, header)
    return txn_id


async def decide(world: World, txn_id: TxnId, state: TxnState) -> None:
    """Its outcome; everybody has heard of it, and done what can be done, when this returns."""
    await decide_silently(world, txn_id, state)
    await settle()


async def decide_silently(world: World, txn_id: TxnId, state: TxnState) -> None:
    now_ms = world.clock.wall_ms()
    await put_header(world, txn_id, Header(TxnState.OPEN, now_ms, now_ms + 1).decided(state, Cause.CLIENT, now_ms))


async def put_header(world: World, txn_id: TxnId, header: Header) -> None:
    store = world.process().store
    await store.put(
        paths.header_key(txn_id), header.encode(), partition_key=paths.partition(txn_id), indexes=header.indexes()
    )


async def commit(world: World, txn_id: TxnId) -> None:
    await decide(world, txn_id, TxnState.COMMITTED)


async def abort(world: World, txn_id: TxnId) -> None:
    await decide(world, txn_id, TxnState.ABORTED)


async def records(world: World) -> list[str]:
    """The operation records that there are."""
    return [key for key in await world.keys() if key.startswith("/txn-op/")]


async def stored(world: World, name: str = SUB) -> CursorState:
    """The cursor as the store has it."""
    state = await read_cursor(world.process().store, SEGMENT, name)
    assert state is not None
    return state


async def take_all(consumer: Consumer, permits: int = 1_000) -> list[Delivery]:
    """What is delivered without anything new happening."""
    consumer.permit(permits)
    found: list[Delivery] = []
    while True:
        await settle()
        task = asyncio.ensure_future(consumer.receive(1_000))
        await settle()
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            return found
        found += task.result()


async def taken(consumer: Consumer) -> list[Position]:
    return [each.position for each in await take_all(consumer)]


def whole(positions: Iterable[Position]) -> list[Ack]:
    return [Ack(position) for position in positions]


def up_to(position: Position) -> list[Ack]:
    return [Ack(position, is_cumulative=True)]


def part(position: Position, *indexes: int, size: int = 4) -> list[Ack]:
    return [Ack(position, batch=indexes, batch_size=size)]


def run_owned(scenario: Callable[[World, Owner], Awaitable[None]], lacks: tuple[str, ...] = ()) -> None:
    """Runs a scenario in a world in which the segment has an owner."""

    async def whole_of_it() -> None:
        async with running(lacks) as world:
            owner = await Owner.take(world)
            await scenario(world, owner)
            for process in world.processes:
                process.script.clear()
            await owner.die()

    asyncio.run(whole_of_it())
