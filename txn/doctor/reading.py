"""Reads the records of a store as rows: the only place here that asks a store, but for abort and what is followed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import NamedTuple, TypeVar

from metastore.coordination import ForeignRecord
from metastore.interface import MetadataStore, Record
from txn.decoding.fields import Malformed, json_object, text
from txn.decoding.rows import (
    AbortedRow,
    AppliedRow,
    OddRow,
    OperationRow,
    Row,
    TransactionRow,
    WatermarkRow,
)
from txn.doctor.layout import LAYOUTS, Layout, Place, RecordsKind
from txn.model import paths
from txn.model.errors import RecordDamaged
from txn.model.header import TxnState
from txn.posts import Owner

ODD_SHOWN_MAX = 20
"""Odd records that are named; all are counted."""

RowOfKind = TypeVar("RowOfKind", bound=Row)


class MixedRecords(Exception):
    """A store holds records of both kinds, and nobody said which are meant."""


class SegmentFacts(NamedTuple):
    """What the records of a segment itself say."""

    name: str
    is_known: bool
    """Whether there is any record of it."""
    state: str | None = None
    owner: str | None = None
    term: int | None = None


async def detect(store: MetadataStore) -> Layout:
    """The layout of the records that a store holds, ours if it holds none."""
    found = [layout for layout in LAYOUTS.values() if await _is_used(store, layout)]
    if len(found) > 1:
        raise MixedRecords("the store holds transactions of Tidemark and of Pulsar: say which are meant (--records)")
    return found[0] if found else LAYOUTS[RecordsKind.TIDEMARK]


async def _is_used(store: MetadataStore, layout: Layout) -> bool:
    decided = [layout.decided_headers(state) for state in (TxnState.COMMITTED, TxnState.ABORTED)]
    for place in (layout.open_headers, *decided, *layout.operations, layout.aborted):
        if await has_any(store.list(place.range, index=place.index)):
            return True
    return False


async def has_any(items: AsyncIterator[object]) -> bool:
    """Whether anything comes; the rest is not read."""
    try:
        async for _ in items:
            return True
        return False
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


class Records:
    """The records of one store, as rows. What is odd is counted and left out."""

    def __init__(
        self, store: MetadataStore, layout: Layout, progress: Callable[[int], None] = lambda count: None
    ) -> None:
        self.store = store
        self.layout = layout
        self.odd: list[OddRow] = []
        """The first ones of those that were met."""
        self.odd_count = 0
        self._progress = progress
        self._read = 0

    async def header(self, txn_id: str) -> TransactionRow | None:
        key, partition = self.layout.header(txn_id)
        return self._taken(await self.store.get(key, partition_key=partition), TransactionRow)

    def open_headers(self) -> AsyncIterator[TransactionRow]:
        return self._rows(self.layout.open_headers, TransactionRow)

    async def decided_headers(self, *states: TxnState) -> AsyncIterator[TransactionRow]:
        """One state after the other."""
        for state in states:
            async for row in self._rows(self.layout.decided_headers(state), TransactionRow):
                yield row

    async def operations(self) -> AsyncIterator[OperationRow]:
        """All there are."""
        for place in self.layout.operations:
            async for row in self._rows(place, OperationRow):
                yield row

    def operations_of(self, txn_id: str) -> AsyncIterator[OperationRow]:
        return self._rows(self.layout.operations_of(txn_id, self.store.key_sorting), OperationRow)

    def writes_to(self, segment: str) -> AsyncIterator[OperationRow]:
        return self._rows(self.layout.writes_to(segment), OperationRow)

    def acknowledgements_of(self, segment: str) -> AsyncIterator[OperationRow]:
        return self._rows(self.layout.acknowledgements_of(segment), OperationRow)

    async def applied_by(self, txn_id: str) -> AsyncIterator[AppliedRow]:
        place = self.layout.applied_by(txn_id, self.store.key_sorting)
        if place is not None:
            async for row in self._rows(place, AppliedRow):
                yield row

    def aborted(self) -> AsyncIterator[AbortedRow]:
        return self._rows(self.layout.aborted, AbortedRow)

    async def watermark(self, segment: str) -> WatermarkRow | None:
        found = self.layout.watermark(segment)
        if found is None:
            return None
        key, partition = found
        return self._taken(await self.store.get(key, partition_key=partition), WatermarkRow)

    async def segment(self, segment: str) -> SegmentFacts:
        """Who owns a segment, and whether it is there at all. Pulsar keeps that elsewhere."""
        if self.layout.kind is not RecordsKind.TIDEMARK:
            return SegmentFacts(segment, is_known=await self.watermark(segment) is not None)
        key = paths.descriptor_key(segment)
        descriptor = await self.store.get(key, partition_key=segment)
        state = None
        if descriptor is not None and descriptor.value is not None:
            try:
                state = text(json_object(descriptor.value), "state")
            except Malformed as error:
                self._note(OddRow(key, str(error)))
        owner_key = paths.owner_key(segment)
        grant = await self.store.get(owner_key, partition_key=segment)
        if grant is not None:
            try:
                owner = Owner.of_grant(grant)
                return SegmentFacts(segment, True, state, f"{owner.broker} at {owner.address}", owner.term)
            except (ForeignRecord, RecordDamaged) as error:
                self._note(OddRow(owner_key, str(error)))
        return SegmentFacts(segment, descriptor is not None, state)

    def row(self, record: Record) -> Row | None:
        """What a record says."""
        version = record.version
        return self.layout.decode(record.key, record.value or b"", version.created_ms, version.modified_ms)

    async def _rows(self, place: Place, kind: type[RowOfKind]) -> AsyncIterator[RowOfKind]:
        async for record in self.store.scan(place.range, index=place.index, partition_key=place.partition_key):
            row = self._taken(record, kind)
            if row is not None:
                yield row

    def _taken(self, record: Record | None, kind: type[RowOfKind]) -> RowOfKind | None:
        """The row of a record that is to be of a kind; one of another kind is odd here."""
        if record is None:
            return None
        self._read += 1
        self._progress(self._read)
        row = self.row(record)
        if isinstance(row, kind):
            return row
        self._note(row if isinstance(row, OddRow) else OddRow(record.key, "it stands where other records belong"))
        return None

    def _note(self, odd: OddRow) -> None:
        self.odd_count += 1
        if len(self.odd) < ODD_SHOWN_MAX:
            self.odd.append(odd)
