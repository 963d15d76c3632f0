"""Stores to audit the audit with: clean ones of any size, and faults whose every violation is known.

    planter = Planter(store, as_of_ms, elsewhere)
    await planter.plant_clean(transactions=100_000)
    expected = await plant_fault(planter, "operations-without-header", count=10)

Records are made by the code that makes them in earnest, and lie in the store as brokers put them there. What a rule
should find in a fault is returned: nothing else may be found anywhere.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from metastore.interface import Index, MetadataStore
from txn.audit.dialect import Limits
from txn.coordinator.numbering import NUMBERS
from txn.hosting.descriptor import Descriptor, SegmentState
from txn.model import paths
from txn.model.aborted import AbortedRange
from txn.model.applied import Applied
from txn.model.header import Cause, Header, TxnState
from txn.model.ids import TxnId
from txn.model.operation import Operation, OperationKind
from txn.model.position import Position
from txn.segment.cursor import AckedRange, CursorState
from txn.segment.log.ledgers import LedgerLength
from txn.segment.log.state import LogState

AT_ONCE_MAX = 500
"""Transactions that are written at the same time."""
BROKER = "broker-1"
TERM = 3
CLOSED = (LedgerLength(1, 100), LedgerLength(2, 50))
TRIMMED = Position(1, 10)
KEPT = Position(TERM, 1)
MARK = Position(2, 20)
SEGMENTS = 8
SUBSCRIPTION = "billing"
IDS_GIVEN = 1_000_000_000
RECENT_MS = 10_000
"""Younger than any step takes."""
LONG_AGO_MS = 200_000
"""Older than any step takes, and not yet to be collected."""


class Expected(NamedTuple):
    """What a rule should find."""

    rule: str
    txn_id: str | None = None
    segment: str | None = None
    subscription: str | None = None
    key: str | None = None
    """Where it is about neither a transaction nor a segment."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A transaction to be planted: its header, and its operations."""

    header: Header | None
    operations: Sequence[Operation] = ()


def segment_named(number: int, realm: int = 0) -> str:
    """A segment's name, which asks for escapes."""
    return f"segment://public/{realm or 'default'}/orders {number % SEGMENTS}/0000-ffff-{number % SEGMENTS}"


class Planter:
    """Plants into one store. All times are seen from the audit's moment.

    What is planted in different realms has nothing in common: neither coordinator nor segments.
    """

    def __init__(self, store: MetadataStore, as_of_ms: int, elsewhere: Callable[[str], str], realm: int = 0) -> None:
        self.realm = realm
        self.store = store
        self.as_of_ms = as_of_ms
        self.limits = Limits()
        self.elsewhere = elsewhere
        """A partition on another shard than this one's."""
        self._numbers = count()
        self._entries = count(1_000)

    # -- what is there

    def segment(self, number: int) -> str:
        """One of the segments that there are."""
        return segment_named(number, self.realm)

    def new_segment(self, what: str) -> str:
        """The name of one more segment."""
        return f"segment://public/{self.realm or 'default'}/{what}-{next(self._numbers)}/0000-ffff-0"

    async def plant_segments(self) -> None:
        """The segments, their logs and cursors, and the numbers that were given."""
        value = json.dumps({"format": 1, "next": IDS_GIVEN}).encode()
        key = f"{NUMBERS}/{self.realm}"
        await self.store.put(key, value, partition_key=key)
        for number in range(SEGMENTS):
            await self.put_segment(self.segment(number))

    async def put_segment(
        self, segment: str, *, with_descriptor: bool = True, log_partition: str | None = None
    ) -> None:
        """A segment, with a log of three owners and one subscription."""
        if with_descriptor:
            descriptor = Descriptor(segment, SegmentState.OPEN, "stored", "mark", 1)
            await self.store.put(
                paths.descriptor_key(segment),
                descriptor.encode(),
                partition_key=segment,
                indexes=descriptor.indexes(),
            )
        state = LogState(segment, TERM, "mark", CLOSED, trimmed=TRIMMED)
        await self.store.put(
            f"{paths.segment_path(segment)}/log", state.encode(), partition_key=log_partition or segment
        )
        await self.put_cursor(segment, SUBSCRIPTION, CursorState(MARK, (AckedRange(Position(3, 5), Position(3, 9)),)))

    async def put_cursor(self, segment: str, subscription: str, cursor: CursorState) -> None:
        """A cursor, as its keeper writes it."""
        stamp = json.dumps({"fence": TERM}).encode()
        value = stamp + b"\n" + cursor.encode()
        await self.store.put(paths.cursor_key(segment, subscription), value, partition_key=segment)

    # -- transactions

    def next_id(self) -> TxnId:
        """An id that was not used yet."""
        return TxnId(self.realm, next(self._numbers))

    def open_header(self, age_ms: int = RECENT_MS) -> Header:
        """Of a transaction that was begun so long ago and has an hour."""
        begun_ms = self.as_of_ms - age_ms
        return Header(TxnState.OPEN, begun_ms, begun_ms + self.limits.timeout_max_ms, "ann")

    def ended(self, state: TxnState, age_ms: int = RECENT_MS) -> Header:
        """Of a transaction that was decided so long ago."""
        return self.open_header(age_ms + RECENT_MS).decided(state, Cause.CLIENT, self.as_of_ms - age_ms)

    def write(self, segment: str, age_ms: int = RECENT_MS) -> Operation:
        """A write of three entries behind all others."""
        first = next(self._entries) * 3
        last = Position(TERM, first + 2)
        at_ms = self.as_of_ms - age_ms
        return Operation(
            OperationKind.WRITE, segment, Position(TERM, first), last, broker=BROKER, term=TERM, written_ms=at_ms
        )

    def acknowledgement(
        self, segment: str, age_ms: int = RECENT_MS, position: Position | None = None, *, cumulative: bool = False
    ) -> Operation:
        """An acknowledgement of an entry that nobody else acknowledges."""
        return Operation(
            OperationKind.ACK,
            segment,
            position or Position(TERM, next(self._entries)),
            subscription=SUBSCRIPTION,
            is_cumulative=cumulative,
            broker=BROKER,
            term=TERM,
            written_ms=self.as_of_ms - age_ms,
        )

    async def put(self, subject: Subject, txn_id: TxnId | None = None, indexes: Sequence[Index] | None = None) -> TxnId:
        """A transaction; returns its id."""
        txn_id = txn_id or self.next_id()
        if subject.header is not None:
            await self.put_header(txn_id, subject.header, indexes)
        for operation in subject.operations:
            await self.put_operation(txn_id, operation)
        return txn_id

    async def put_header(self, txn_id: TxnId, header: Header, indexes: Sequence[Index] | None = None) -> None:
        """A header, as its coordinator puts it: open first, and once more when it is decided."""
        key, partition = paths.header_key(txn_id), paths.partition(txn_id)
        if not header.is_open:
            begun = replace(header, state=TxnState.OPEN, finalized_ms=None, cause=None)
            await self.store.put(key, begun.encode(), partition_key=partition, indexes=begun.indexes())
        found = header.indexes() if indexes is None else indexes
        await self.store.put(key, header.encode(), partition_key=partition, indexes=found)

    async def put_operation(self, txn_id: TxnId, operation: Operation, indexes: Sequence[Index] | None = None) -> str:
        """An operation, at the next number; returns its key."""
        result = await self.store.put(
            paths.operation_sequence(txn_id),
            operation.encode(),
            partition_key=paths.partition(txn_id),
            sequence_deltas=(1,),
            indexes=operation.indexes() if indexes is None else indexes,
        )
        return result.key

    async def put_applied(self, txn_id: TxnId, segment: str, subscription: str | None, age_ms: int = RECENT_MS) -> None:
        """What a participant says that has carried an outcome out."""
        at_ms = self.as_of_ms - age_ms
        applied = Applied(at_ms, BROKER, TERM, 1, at_ms, at_ms)
        key = paths.applied_key(txn_id, segment, subscription)
        await self.store.put(key, applied.encode(), partition_key=paths.partition(txn_id))

    async def put_aborted(self, txn_id: TxnId, segment: str, first: Position = KEPT) -> None:
        """What a segment says of an aborted transaction."""
        aborted = AbortedRange(first, first)
        key = paths.aborted_key(segment, txn_id)
        await self.store.put(key, aborted.encode(), partition_key=segment, indexes=aborted.indexes(segment))

    # -- whole stores

    async def plant_clean(self, transactions: int, operations: int = 4) -> None:
        """Segments, and so many transactions of every age, each with so many operations where it has any."""
        await self.plant_segments()
        for start in range(0, transactions, AT_ONCE_MAX):
            numbers = range(start, min(transactions, start + AT_ONCE_MAX))
            await asyncio.gather(*(self._plant_clean_one(number, operations) for number in numbers))

    async def _plant_clean_one(self, number: int, operations: int) -> None:
        segment, other = self.segment(number), self.segment(number + 1)
        made = [self.write(segment) if each % 2 else self.acknowledgement(other) for each in range(operations)]
        match number % 5:
            case 0:
                await self.put(Subject(self.open_header(), made))
            case 1:  # decided just now, not applied yet
                await self.put(Subject(self.ended(TxnState.COMMITTED), made))
            case 2:  # half applied, just now
                txn_id = await self.put(Subject(self.ended(TxnState.COMMITTED), made[:2]))
                await self.put_applied(txn_id, self.segment(number + 2), None, RECENT_MS // 2)
            case 3:  # applied by all, not collected yet
                txn_id = await self.put(Subject(self.ended(TxnState.ABORTED, LONG_AGO_MS)))
                await self.put_applied(txn_id, segment, None, LONG_AGO_MS - 10)
                await self.put_applied(txn_id, other, SUBSCRIPTION, LONG_AGO_MS - 10)
                await self.put_aborted(txn_id, segment)
            case _:  # collected; its entries are still skipped
                await self.put_aborted(self.next_id(), segment)


Fault = Callable[[Planter], Awaitable[Sequence[Expected]]]
