"""What keeps a deposed owner's late entries out, on stores with `transact` and on those without.

An entry is put where there must be none yet, by its owner alone. What remains is an owner who does not know that it was
deposed, or whose put is still under way. Two ways against it:

- With `transact` each put is on the condition that the fence record is as the owner left it. Who takes over raises the
  fence; from then on no put of an earlier owner can succeed, and the end of its ledger stands still.
- Without it, who takes over puts a closing record into the place where the next entry would be. Of a late put and the
  closing record one comes first. If it is the put, it belongs to the log, and the next place is tried. If it is the
  closing record, the put fails, and what lies behind it is confirmed by nobody, for entries are confirmed in their
  order, and read by nobody, for the ledger's length is known. A closing record stays for as long as the segment, since
  nobody knows how late a put may be.
"""

from __future__ import annotations

import json
from typing import Protocol

from metastore.interface import (
    ABSENT,
    Condition,
    OutcomeUnknown,
    Put,
    UnexpectedVersion,
)
from txn.model.errors import SegmentUnavailable
from txn.model.fields import decoded_fields
from txn.model.position import Position
from txn.segment.errors import Fenced
from txn.segment.log.chunk import Chunk, ChunkKind
from txn.segment.log.records import LogRecords

FORMAT = 1
FENCE_ATTEMPTS_MAX = 8
"""Races with others who raise the same fence that are lost in a row."""


class Fence(Protocol):
    """Between an owner and the earlier ones."""

    async def raise_to(self, term: int) -> None:
        """No owner with a smaller term passes from now on, as far as this fence can see to that in advance."""

    async def put(self, position: Position, value: bytes) -> None:
        """Puts a chunk; UnexpectedVersion or ConditionFailed if its place is taken or the owner deposed."""

    async def close(self, end: Position, mark: str) -> bool:
        """Ends an earlier owner's ledger there; False if it is to be looked at again, for something came first."""


class RaisedFence(Fence):
    """By `transact`."""

    def __init__(self, records: LogRecords) -> None:
        self._records = records
        self._version_id = ABSENT

    async def raise_to(self, term: int) -> None:
        records = self._records
        for _ in range(FENCE_ATTEMPTS_MAX):
            record = await records.store.get(records.fence_key, partition_key=records.partition_key)
            raised_to = -1 if record is None else _decode(record.value or b"")
            if raised_to > term:
                raise Fenced(f"the log of {records.segment!r} is being opened under term {raised_to}, not {term}")
            expected = ABSENT if record is None else record.version.version_id
            try:
                result = await records.store.put(
                    records.fence_key, _encode(term), expected=expected, partition_key=records.partition_key
                )
            except (UnexpectedVersion, OutcomeUnknown):
                continue  # what is there now decides, be it this put's or somebody else's
            self._version_id = result.version.version_id
            return
        raise SegmentUnavailable(
            f"the fence of {records.segment!r} changed {FENCE_ATTEMPTS_MAX} times while it was being raised to {term} "
            "(FENCE_ATTEMPTS_MAX): try again"
        )

    async def put(self, position: Position, value: bytes) -> None:
        records = self._records
        put = Put(records.key(position.ledger, position.entry), value, ABSENT)
        condition = Condition(records.fence_key, self._version_id)
        await records.store.transact(records.partition_key, [put], conditions=[condition])

    async def close(self, end: Position, mark: str) -> bool:
        return True


class ClosingFence(Fence):
    """By records that close a ledger."""

    def __init__(self, records: LogRecords) -> None:
        self._records = records

    async def raise_to(self, term: int) -> None:
        """Earlier owners are met at the end of their ledger."""

    async def put(self, position: Position, value: bytes) -> None:
        records = self._records
        key = records.key(position.ledger, position.entry)
        await records.store.put(key, value, expected=ABSENT, partition_key=records.partition_key)

    async def close(self, end: Position, mark: str) -> bool:
        try:
            await self.put(end, Chunk(ChunkKind.CLOSING, end, mark, end.entry).encode())
        except (UnexpectedVersion, OutcomeUnknown):
            return False
        return True


def fence_of(records: LogRecords) -> Fence:
    """The fence that the store can have."""
    return RaisedFence(records) if records.store.capabilities.transact else ClosingFence(records)


def _encode(term: int) -> bytes:
    return json.dumps({"format": FORMAT, "term": term}, separators=(",", ":")).encode()


def _decode(value: bytes) -> int:
    return int(decoded_fields("fence of a segment's log", value, FORMAT)["term"])
