"""The transactions there are, kept by watches of the two header indexes: what is open, and what is decided.

A registry is a view of the store and nothing else: whoever starts one sees what every other coordinator sees. What its
own process has just begun or ended it knows a moment before the watch tells; such knowledge is dropped at the
transaction's deadline at the latest, so nothing that the watch never confirms stays behind.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from metastore.coordination import Pace, View
from metastore.interface import MetadataStore
from txn.coordinator.sightings import sightings
from txn.model.header import Header
from txn.model.ids import TxnId
from txn.outcomes import OpenHeaders

STALE_DEADLINES_MAX = 1_000
"""Deadlines of ended transactions that are kept in the heap, beyond as many as there are open ones."""


class Deadline(NamedTuple):
    """When a transaction runs out of time."""

    timeout_ms: int
    txn_id: TxnId


class Found(NamedTuple):
    """A header as it is in the store, or was when it was last seen."""

    header: Header
    version_id: int


class OpenTransactions:
    """The open transactions of all coordinators, by id and by deadline. `follow` keeps it up to date."""

    def __init__(self, store: MetadataStore, pace: Pace, headers: OpenHeaders | None = None) -> None:
        self._headers = headers or OpenHeaders(store, pace)
        self._found: dict[TxnId, Found] = {}
        self._owners: Counter[str] = Counter()
        self._deadlines: list[Deadline] = []
        """A heap; it may name transactions that have ended meanwhile."""
        self._unconfirmed: set[TxnId] = set()
        """Begun by this process; the watch has not told of them yet."""
        self._ended: set[TxnId] = set()
        """Ended by this process; the watch has not told of it yet."""
        self._is_earlier = asyncio.Event()
        self._is_ready = asyncio.Event()

    @property
    def count(self) -> int:
        """How many are open."""
        return len(self._found)

    def count_of(self, owner: str) -> int:
        """How many of them are a principal's."""
        return self._owners[owner]

    def headers(self) -> dict[TxnId, Header]:
        """All of them, as they are now."""
        return {txn_id: found.header for txn_id, found in self._found.items()}

    def get(self, txn_id: TxnId) -> Found | None:
        """A transaction that was open when it was last seen; by now it may be decided."""
        return self._found.get(txn_id)

    async def ready(self) -> None:
        """Returns when the registry has seen the store once."""
        await self._is_ready.wait()

    async def wait_earlier(self) -> None:
        """Returns when the next deadline has become an earlier one since the last call."""
        await self._is_earlier.wait()
        self._is_earlier.clear()

    def note_begun(self, txn_id: TxnId, found: Found) -> None:
        """This process has begun a transaction."""
        if txn_id not in self._found:
            self._add(txn_id, found)
            self._unconfirmed.add(txn_id)

    def note_ended(self, txn_id: TxnId) -> None:
        """This process has ended a transaction."""
        if txn_id in self._found:
            self._unconfirmed.discard(txn_id)
            self._ended.add(txn_id)
            self._remove(txn_id)

    async def follow(self) -> None:
        """Follows the store until cancelled."""
        await self._headers.follow(self._told)

    def due(self, now_ms: int) -> list[TxnId]:
        """Those whose time is over; each is named once, unless it is put back by `retry`."""
        found = []
        while self._deadlines and self._deadlines[0].timeout_ms <= now_ms:
            txn_id = heapq.heappop(self._deadlines).txn_id
            if txn_id in self._unconfirmed:
                self._unconfirmed.discard(txn_id)
                self._remove(txn_id)
                found.append(txn_id)
            elif txn_id in self._found:
                found.append(txn_id)
            self._ended.discard(txn_id)
        return found

    def retry(self, txn_id: TxnId) -> None:
        """Puts a transaction back among those that will be due."""
        found = self._found.get(txn_id)
        if found is not None:
            self._push(Deadline(found.header.timeout_ms, txn_id))

    def next_deadline_ms(self) -> int | None:
        """When the next one may run out of time."""
        return self._deadlines[0].timeout_ms if self._deadlines else None

    def _told(self, view: View, news: Iterable[str]) -> None:
        for txn_id, header, version_id in sightings(news, view.records):
            self._take(txn_id, None if header is None else Found(header, version_id))
        self._is_ready.set()

    def _take(self, txn_id: TxnId, found: Found | None) -> None:
        """What the watch says of a transaction: the header while it is open, None from then on."""
        self._unconfirmed.discard(txn_id)
        if found is None:
            self._ended.discard(txn_id)
            self._remove(txn_id)
        elif txn_id not in self._found and txn_id not in self._ended:
            self._add(txn_id, found)

    def _add(self, txn_id: TxnId, found: Found) -> None:
        self._found[txn_id] = found
        header = found.header
        if header.owner is not None:
            self._owners[header.owner] += 1
        self._push(Deadline(header.timeout_ms, txn_id))

    def _push(self, deadline: Deadline) -> None:
        heapq.heappush(self._deadlines, deadline)
        if self._deadlines[0] is deadline:
            self._is_earlier.set()

    def _remove(self, txn_id: TxnId) -> None:
        found = self._found.pop(txn_id, None)
        owner = None if found is None else found.header.owner
        if owner is not None:
            self._owners[owner] -= 1
            if not self._owners[owner]:
                del self._owners[owner]
        if len(self._deadlines) > 2 * len(self._found) + STALE_DEADLINES_MAX:
            self._deadlines = [Deadline(each.header.timeout_ms, txn_id) for txn_id, each in self._found.items()]
            heapq.heapify(self._deadlines)
            self._ended.clear()
