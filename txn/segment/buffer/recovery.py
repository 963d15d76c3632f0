"""What an owner finds when it takes a segment over: from records and headers, and few entries, however long the log is.

The log is opened before, so no earlier owner writes anything any more: what was announced and is not there will never
be. And an earlier owner has appended nothing whose operation record was not durable before. So the records that the
index shows now are all that count, and whatever turns up later bears no witness.

Of a transaction whose header is missing the outcome was carried out before its last record went, and then the segment
says by itself what its entries are; what is still there is a late put that nobody acted on. Should somebody have
removed the header of a transaction that was not settled, its record points to an entry of its own: then it counts as
aborted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from metastore.coordination import GuardedRecord
from metastore.interface import Record
from txn.model import paths
from txn.model.aborted import AbortedRange
from txn.model.ids import TxnId
from txn.model.operation import Operation
from txn.model.position import Position
from txn.outcomes import Followed, Known, Outcomes
from txn.segment.buffer.aborted import AbortedRecords
from txn.segment.buffer.producers import ProducerStates, Taken
from txn.segment.entry import Entry
from txn.segment.errors import EntriesTrimmed
from txn.segment.log import START, LedgerLengths, SegmentLog
from txn.segment.log.records import told
from txn.segment.operations import StoredOperation

LOOKS_AT_ONCE_MAX = 1_000
"""Headers that are looked at for the first time at the same time."""
READ_ENTRIES_MAX = 1_000
READ_BYTES_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class FoundTransaction:
    """A transaction that has records here."""

    followed: Followed
    known: Known
    records: Sequence[StoredOperation]
    span: AbortedRange | None
    """Where its entries may be; None if there are none for certain."""
    bears_witness: bool


def announced_span(operations: Iterable[Operation], lengths: LedgerLengths) -> AbortedRange | None:
    """Where entries may be that earlier owners have announced.

    The entries of one announcement are there as a whole or not at all: if the first of them lies behind the end of its
    ledger, they never were written, and never will be. What is trimmed away as a whole holds nobody up any more.
    """
    ends = dict(lengths.ledgers)
    span: AbortedRange | None = None
    for each in operations:
        announced = AbortedRange(each.position, each.last or each.position)
        if announced.last >= lengths.oldest and each.position.entry < ends.get(each.position.ledger, 0):
            span = announced if span is None else span.joined(announced)
    return span


async def find_transactions(
    records: Mapping[str, Record], log: SegmentLog, outcomes: Outcomes
) -> list[FoundTransaction]:
    """The transactions that have records here, each with what is known of it. They are followed from now on."""
    grouped: dict[TxnId, list[StoredOperation]] = {}
    for key, record in records.items():
        found = StoredOperation(key, Operation.decode(record.value or b""))
        grouped.setdefault(paths.txn_id_of_key(key), []).append(found)
    followed: list[Followed] = []
    try:
        pending = list(grouped)
        for start in range(0, len(pending), LOOKS_AT_ONCE_MAX):
            portion = [outcomes.follow(txn_id) for txn_id in pending[start : start + LOOKS_AT_ONCE_MAX]]
            followed += portion
            await asyncio.gather(*(each.known() for each in portion))
        return [await _examined(each, await each.known(), grouped[each.txn_id], log) for each in followed]
    except BaseException:
        for each in followed:
            each.release()
        raise


async def _examined(
    followed: Followed, known: Known, records: Sequence[StoredOperation], log: SegmentLog
) -> FoundTransaction:
    span = announced_span((each.operation for each in records), log.lengths)
    if known.header is not None:
        return FoundTransaction(followed, known, records, span, bears_witness=True)
    for each in records:
        if await _is_entry_of(followed.txn_id, each.operation.position, log):
            return FoundTransaction(followed, known, records, span, bears_witness=True)
    return FoundTransaction(followed, known, records, None, bears_witness=False)


async def _is_entry_of(txn_id: TxnId, position: Position, log: SegmentLog) -> bool:
    try:
        entries = await log.read(position, 1, READ_BYTES_MAX)
    except EntriesTrimmed:
        return False
    return bool(entries) and entries[0].position == position and Entry.decode(entries[0].data).txn_id == txn_id


@dataclass(frozen=True, slots=True)
class FoundProducers:
    """Which messages of which producers there are."""

    states: ProducerStates
    tail_entries: int
    """Entries that were read because they are behind the snapshot."""


async def find_producers(
    record: GuardedRecord, log: SegmentLog, aborted: AbortedRecords, transactions: Iterable[FoundTransaction]
) -> FoundProducers:
    """From the snapshot and the entries behind it. No earlier owner can change the snapshot from now on."""
    with told(log.segment, "recovering the producers of"):
        value = await record.read()
    states, position = (ProducerStates(), START) if value is None else ProducerStates.decode(value)
    tail_entries = await _read_tail(states, max(position, log.lengths.oldest), log)
    in_hand = {each.followed.txn_id: each.known for each in transactions if each.bears_witness}
    settled = [txn_id for txn_id in states.transactions if txn_id not in in_hand]
    for txn_id, is_aborted in (await aborted.look_up(settled)).items():
        states.conclude(txn_id, is_aborted=is_aborted)
    return FoundProducers(states, tail_entries)


async def _read_tail(states: ProducerStates, start: Position, log: SegmentLog) -> int:
    """What the entries from a position on say; how many they are."""
    count = 0
    while entries := await log.read(start, READ_ENTRIES_MAX, READ_BYTES_MAX):
        for _, data in entries:
            entry = Entry.decode(data)
            if entry.producer and not entry.is_void:
                states.take(Taken(entry.producer, entry.sequence_id, entry.sequence_id_last, entry.txn_id))
        count += len(entries)
        last = entries[-1].position
        start = Position(last.ledger, last.entry + 1)
    return count
