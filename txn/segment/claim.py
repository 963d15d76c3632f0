"""The exclusive right to produce, as a segment has heard of it: which claim, and whether anybody still has it.

Who gives claims out numbers them: a greater one is a newer one. A segment remembers the greatest that it was told of,
durably, so that whoever owns it next refuses the same producers. While a claim is held, those who say a smaller one, or
none, are fenced; when it was given back, none is needed any more, and who still says it, or a smaller one, is late.
"""

from __future__ import annotations

import asyncio
import json
from typing import NamedTuple

from metastore.coordination import Deposed, Grant, GuardedRecord
from metastore.faults import Faults
from metastore.interface import OutcomeUnknown, Retriable, UnexpectedVersion
from txn.model import paths
from txn.model.errors import RecordDamaged, SegmentUnavailable
from txn.model.fields import decoded_fields
from txn.segment.bell import Bell
from txn.segment.errors import ProducerFenced

FORMAT = 1
CLAIM_MAX = (1 << 63) - 1


class Claim(NamedTuple):
    """What was heard; of two the greater is the newer."""

    number: int = 0
    is_released: bool = True

    def admits(self, number: int) -> bool:
        """Whether somebody who says this claim, or 0 for none, may produce."""
        if self.is_released:
            return number == 0 or number > self.number
        return number >= self.number

    def encode(self) -> bytes:
        """The record's value."""
        fields = {"format": FORMAT, "claim": self.number, "released": self.is_released}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Claim:
        """Reads a record's value."""
        fields = decoded_fields("claim to a segment", value, FORMAT)
        number, is_released = fields.get("claim"), fields.get("released")
        if type(number) is not int or not 0 <= number <= CLAIM_MAX or type(is_released) is not bool:
            raise RecordDamaged(f"a claim to a segment says {value[:200]!r}")
        return cls(number, is_released)


class ClaimRecord:
    """The newest claim to an owned segment: in memory, and in the segment's partition."""

    def __init__(self, segment: str, record: GuardedRecord, claim: Claim, faults: Faults) -> None:
        self.claim = claim
        self._segment = segment
        self._record = record
        self._faults = faults
        self._writing = asyncio.Lock()
        self._changed = Bell()

    @classmethod
    async def recover(cls, segment: str, grant: Grant, faults: Faults) -> ClaimRecord:
        """As the last owner left it; no earlier owner can change it from now on."""
        record = grant.guard(paths.claim_key(segment))
        value = await record.read()
        return cls(segment, record, Claim() if value is None else Claim.decode(value), faults)

    async def note(self, claim: Claim) -> None:
        """Durable, and in force, when this returns; what is older than what was heard changes nothing."""
        if not 0 <= claim.number <= CLAIM_MAX:
            raise ValueError(f"claim {claim.number}: 0 to {CLAIM_MAX}")
        async with self._writing:
            if claim <= self.claim:
                return
            self._faults.reach("txn.claim.write.before")
            try:
                await self._record.write(claim.encode())
            except (Retriable, OutcomeUnknown, UnexpectedVersion, Deposed) as error:
                raise SegmentUnavailable(f"while noting claim {claim.number} to {self._segment!r}: {error}") from error
            self._faults.reach("txn.claim.write.after")
            self.claim = claim
            self._changed.ring()

    def check(self, number: int) -> None:
        """ProducerFenced if somebody who says this claim may not produce."""
        if not self.claim.admits(number):
            what = f"claim {self.claim.number} to it is " + ("over" if self.claim.is_released else "held")
            said = f"claim {number}" if number else "none"
            raise ProducerFenced(f"{self._segment!r} takes nothing of a producer who says {said}: {what}")

    async def wait_fenced(self, number: int) -> None:
        """Raises ProducerFenced as soon as somebody who says this claim may produce no longer."""
        await self._changed.until(lambda: not self.claim.admits(number))
        self.check(number)
