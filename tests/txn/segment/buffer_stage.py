"""A segment with its owners, one after another, each in a process of its own; and transactions decided at will."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from metastore.coordination import Election, Grant
from metastore.faults import NO_FAULTS, Faults
from metastore.interface import ABSENT, ALL, MetadataStore, exactly
from support.world import Process, World, running, settle
from txn.model import paths
from txn.model.header import Cause, Header, TxnState
from txn.model.ids import TxnId
from txn.model.operation import Operation
from txn.model.position import Position
from txn.outcomes import Outcomes
from txn.segment.buffer import BufferOptions, Published, TransactionBuffer, Visible
from txn.segment.entry import Entry
from txn.segment.log import LocalLogs, SegmentLog, SegmentLogs, StoredLogs
from txn.segment.operations import OperationRecords

SEGMENT = "segment://tenant/ns/orders/0000-7fff-1"
TIMEOUT_MS = 3_600_000
COMMITTED, ABORTED = TxnState.COMMITTED, TxnState.ABORTED
EVERYTHING = 1 << 30
SESSION_OVER_MS = 20_000

both_stores = pytest.mark.parametrize("lacks", [(), ("transact",)], ids=["transact", "plain"])
Lacks = tuple[str, ...]


def txn(number: int) -> TxnId:
    return TxnId(0, number)


def message(text: str, txn_id: TxnId | None = None, producer: str = "", sequence_id: int = 0, count: int = 1) -> Entry:
    return Entry(text.encode(), producer, sequence_id, txn_id, message_count=count)


async def begin(store: MetadataStore, *txn_ids: TxnId) -> None:
    """Transactions begin."""
    for txn_id in txn_ids:
        header = Header(TxnState.OPEN, 1_000, 1_000 + TIMEOUT_MS)
        await store.put(
            paths.header_key(txn_id),
            header.encode(),
            expected=ABSENT,
            partition_key=paths.partition(txn_id),
            indexes=header.indexes(),
        )


async def decide(store: MetadataStore, txn_id: TxnId, state: TxnState) -> None:
    """A transaction ends."""
    key, partition = paths.header_key(txn_id), paths.partition(txn_id)
    record = await store.get(key, partition_key=partition)
    assert record is not None
    assert record.value is not None
    header = Header.decode(record.value).decided(state, Cause.CLIENT, 2_000)
    await store.put(
        key,
        header.encode(),
        expected=record.version.version_id,
        partition_key=partition,
        indexes=header.indexes(),
    )


async def forget(store: MetadataStore, txn_id: TxnId) -> None:
    """The collector removes a header, with the words about it."""
    partition = paths.partition(txn_id)
    await store.delete(paths.header_key(txn_id), partition_key=partition)
    await store.delete(paths.applied_key(txn_id, SEGMENT), partition_key=partition)


class Owner:
    """An owner of the segment."""

    def __init__(self, process: Process, grant: Grant, log: SegmentLog, outcomes: Outcomes) -> None:
        self.process = process
        self.store = process.store
        self.grant = grant
        self.log = log
        self.outcomes = outcomes
        self.operations = OperationRecords(process.store, SEGMENT, process.name, grant.term, process.pace)
        self.buffer: TransactionBuffer

    async def recover(self, options: BufferOptions | None = None, faults: Faults = NO_FAULTS) -> None:
        self.buffer = await TransactionBuffer.recover(
            self.log,
            self.grant,
            self.outcomes,
            self.operations,
            pace=self.process.pace,
            options=options,
            faults=faults,
        )

    def publish(
        self, text: str, txn_id: TxnId | None = None, producer: str = "", sequence_id: int = 0
    ) -> asyncio.Future[Published]:
        return self.buffer.publish(message(text, txn_id, producer, sequence_id))

    @property
    def bound(self) -> int:
        """How many entries of this ledger lie before the bound."""
        bound = self.buffer.visibility.bound
        assert bound.ledger == self.grant.term
        return bound.entry

    async def visible(self, entries_max: int = 3) -> list[Visible]:
        """What a reader sees that begins now, in small pieces."""
        visibility, at = self.buffer.visibility, self.log.first
        found: list[Visible] = []
        while at is not None and at < (bound := visibility.bound):
            piece = await self.log.read(at, entries_max, EVERYTHING)
            piece = [each for each in piece if each.position < bound]
            if not piece:
                break
            found += await visibility.filter(piece)
            at = Position(piece[-1].position.ledger, piece[-1].position.entry + 1)
        return found

    async def texts(self) -> list[str]:
        return [each.entry.payload.decode() for each in await self.visible()]

    async def crash(self) -> None:
        """The process is gone: nothing of it gets through any more, and the kernel frees what it had locked."""
        self.process.store.line.cut()
        await self.process.store.close()
        if hasattr(self, "buffer"):
            await self.buffer.close()
        await self.log.close()
        await self.outcomes.close()

    async def close(self) -> None:
        await self.buffer.close()
        await self.log.close()
        await self.outcomes.close()
        await self.grant.release()


class Stage:
    """A segment in a world, and whoever owns it."""

    def __init__(self, world: World, root: Path | None) -> None:
        self.world = world
        self.outside = world.process().store
        """Somebody else's store: who decides, and who looks."""
        self._root = root
        self._stack = AsyncExitStack()

    async def claim(self) -> Owner:
        """The next owner, in a process of its own, before it has recovered."""
        process = self.world.process()
        election = Election(
            process.store, paths.owner_key(SEGMENT), partition_key=SEGMENT, pace=process.pace, session_timeout_ms=10_000
        )
        grant = await election.campaign()
        logs: SegmentLogs
        if self._root is None:
            logs = StoredLogs(process.store, pace=process.pace)
        else:
            logs = LocalLogs(self._root, pace=process.pace)
        await self._stack.enter_async_context(logs)
        log = await logs.open(SEGMENT, grant.term)
        return Owner(process, grant, log, Outcomes(process.store, process.pace))

    async def own(self, options: BufferOptions | None = None, faults: Faults = NO_FAULTS) -> Owner:
        """The next owner, recovered."""
        owner = await self.claim()
        await owner.recover(options, faults)
        return owner

    async def succeed(self, owner: Owner, options: BufferOptions | None = None) -> Owner:
        """The owner crashes, and another one takes over."""
        await owner.crash()
        await self.world.pass_ms(SESSION_OVER_MS)
        return await self.own(options)

    async def begin(self, *numbers: int) -> list[TxnId]:
        txn_ids = [txn(number) for number in numbers]
        await begin(self.outside, *txn_ids)
        return txn_ids

    async def decide(self, txn_id: TxnId, state: TxnState) -> None:
        """A transaction ends, and all that can be done about it is done."""
        await decide(self.outside, txn_id, state)
        await settle()

    async def records(self) -> list[Operation]:
        """The operation records of the segment's writes."""
        found = self.outside.scan(exactly(paths.escaped(SEGMENT)), index=paths.WRITES_BY_SEGMENT)
        return [Operation.decode(record.value or b"") async for record in found]

    async def aborted(self) -> list[TxnId]:
        """The transactions that the segment remembers as aborted."""
        keys = self.outside.list(ALL, index=paths.ABORTED_BY_POSITION, partition_key=SEGMENT)
        return sorted([paths.txn_id_of_aborted_key(key) async for key in keys])

    async def applied(self, txn_id: TxnId) -> bool:
        key = paths.applied_key(txn_id, SEGMENT)
        return await self.outside.get(key, partition_key=paths.partition(txn_id)) is not None

    async def close(self) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def staged(lacks: Lacks = (), *, local: bool = False) -> AsyncIterator[Stage]:
    """A stage, with the log in the store, or in files."""
    async with AsyncExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory(prefix="tidemark-buffer-"))) if local else None
        world = await stack.enter_async_context(running(lacks))
        stage = Stage(world, root)
        stack.push_async_callback(stage.close)
        yield stage


def play(scenario: Callable[[Stage], Awaitable[None]], lacks: Lacks = (), *, local: bool = False) -> None:
    """Runs a scenario on a stage of its own."""

    async def whole() -> None:
        async with asyncio.timeout(60), staged(lacks, local=local) as stage:
            await scenario(stage)

    asyncio.run(whole())


async def confirmed(sends: Sequence[asyncio.Future[Published]]) -> list[Position]:
    """The positions of messages that are all confirmed."""
    published = await asyncio.gather(*sends)
    assert not any(each.is_duplicate for each in published)
    return [each.position for each in published if each.position is not None]


def only_failed(sends: Sequence[asyncio.Future[Published]]) -> list[type[BaseException] | None]:
    """Of what kind the errors are of messages that are all answered."""
    assert all(each.done() for each in sends), "somebody is not answered"
    errors = [each.exception() for each in sends]
    return [None if error is None else type(error) for error in errors]
