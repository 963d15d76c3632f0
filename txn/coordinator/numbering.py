"""Transaction ids that are never given twice: taken from the store in blocks, by compare-and-set."""

from __future__ import annotations

import asyncio
import json

from metastore.coordination import Backoff, Pace
from metastore.interface import ABSENT, MetadataStore, OutcomeUnknown, UnexpectedVersion
from txn.model.errors import CoordinatorUnavailable
from txn.model.fields import decoded_fields
from txn.model.ids import TxnId

BLOCK_IDS = 1_000
"""Ids that are taken at a time. A coordinator that goes leaves the rest of its block unused: gaps mean nothing."""
ATTEMPTS_MAX = 20
"""Races with other coordinators of the same number that are lost in a row, before giving up."""
FORMAT = 1
NUMBERS = "/txn-ids"


class Numbering:
    """The ids of one coordinator number. Several processes may share a number: no two ever get the same id."""

    def __init__(self, store: MetadataStore, coordinator: int, pace: Pace) -> None:
        self._store = store
        self._coordinator = coordinator
        self._key = f"{NUMBERS}/{coordinator}"
        self._pace = pace
        self._block = range(0)
        self._taking = asyncio.Lock()

    async def next_id(self) -> TxnId:
        """An id that nobody has, had, or will have."""
        async with self._taking:
            if not self._block:
                self._block = await self._take_block()
            number, self._block = self._block[0], self._block[1:]
            return TxnId(self._coordinator, number)

    async def _take_block(self) -> range:
        backoff = Backoff(self._pace)
        for _ in range(ATTEMPTS_MAX):
            record = await self._store.get(self._key, partition_key=self._key)
            first = 0 if record is None else _decode(record.value or b"")
            expected = ABSENT if record is None else record.version.version_id
            value = json.dumps({"format": FORMAT, "next": first + BLOCK_IDS}, separators=(",", ":")).encode()
            try:
                await self._store.put(self._key, value, expected=expected, partition_key=self._key)
            except (UnexpectedVersion, OutcomeUnknown):
                # Whether an unanswered one has taken its block makes no difference: nobody will use it.
                await backoff.pause()
            else:
                return range(first, first + BLOCK_IDS)
        raise CoordinatorUnavailable(
            f"no transaction ids of coordinator {self._coordinator}: {ATTEMPTS_MAX} attempts in a row lost against "
            "others (ATTEMPTS_MAX): try again, or give each coordinator a number of its own"
        )


def _decode(value: bytes) -> int:
    return decoded_fields("record of transaction numbers", value, FORMAT).number("next")
