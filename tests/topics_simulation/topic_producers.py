"""Producers of whole topics: they route by key, and send again what has no answer, wherever it belongs by then.

What has an unknown outcome in one segment is sent again to that one until there is an answer: a sealed segment knows
its producers' numbers for ever. What is refused because the segment is sealed waits for its children, and everything
newer waits behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from controller.layout import key_hash, segment_hash
from controller.operations import data_name
from topics_simulation.topic_clients import TopicClient, TopicView
from topics_simulation.topic_notes import TopicNotes, Written, payload
from topics_simulation.topic_stage import TopicBroker
from txn.hosting import NoSuchSegment
from txn.segment.entry import Entry, pack_hashes
from txn.segment.errors import SegmentSealed
from txn_histories import calls
from txn_histories.clients import Reached, Transaction
from txn_histories.notes import Fate

ATTEMPTS_MAX = 400


@dataclass(frozen=True, slots=True)
class Key:
    """A key, and what it hashes to."""

    text: str
    hash: int
    """All 32 bits."""

    @classmethod
    def of(cls, text: str) -> Key:
        """As every client computes it."""
        return cls(text, key_hash(text))

    @classmethod
    def at(cls, ring_hash: int) -> Key:
        """One that belongs to a place of the ring."""
        return cls(f"at-{ring_hash:04x}", ring_hash << 16)


class TopicProducer:
    """A producer of one topic."""

    def __init__(self, client: TopicClient, view: TopicView, notes: TopicNotes, name: str) -> None:
        self.client = client
        self.name = name
        self._view = view
        self._notes = notes
        self._number = 0

    async def send(self, keys: Sequence[Key], transaction: Transaction | None = None) -> bool:
        """Sends a message for each; False if the topic has gone meanwhile."""
        txn = None if transaction is None else str(transaction.txn_id)
        pending: list[tuple[Written, Key]] = []
        for key in keys:
            name = self.client.recorder.new_name("m")
            self._number += 1
            topic = str(self._view.topic)
            written = Written(name, topic, key.text, segment_hash(key.hash), self.name, self._number, txn)
            self._notes.written.append(written)
            pending.append((written, key))
        for _ in range(ATTEMPTS_MAX):
            layout = await self._view.known()
            if layout is None:
                if transaction is not None:
                    transaction.has_failed = True
                return False
            lanes: dict[int, list[tuple[Written, Key]]] = {}
            for each in pending:
                lanes.setdefault(layout.find(each[0].hash).segment_id, []).append(each)
            sent = [
                self._send(data_name(self._view.topic, layout.segment(segment_id)), segment_id, found, transaction)
                for segment_id, found in lanes.items()
            ]
            refused = [each for found in await asyncio.gather(*sent) for each in found]
            pending = sorted(refused, key=lambda each: each[0].number)
            if not pending:
                return True
            await self.client.pause()
        raise AssertionError(f"{self.name} is not answered in {ATTEMPTS_MAX} attempts")

    async def _send(
        self, segment: str, segment_id: int, found: Sequence[tuple[Written, Key]], transaction: Transaction | None
    ) -> list[tuple[Written, Key]]:
        """Sends to one segment until each is answered; those that it refuses because it takes no more."""
        left, sealed = list(found), list[tuple[Written, Key]]()
        in_doubt: set[str] = set()
        for _ in range(ATTEMPTS_MAX):
            try:
                reached = await self.client.reach(segment)
            except NoSuchSegment:
                # What may be in it nobody can tell any more.
                if in_doubt and transaction is not None:
                    transaction.has_failed = True
                return [*sealed, *(each for each in left if each[0].message not in in_doubt)]
            told = await self._send_all(reached, segment_id, left, transaction)
            for each, answer in zip(left, told, strict=True):
                if answer.fate is Fate.UNKNOWN:
                    in_doubt.add(each[0].message)
                elif isinstance(answer.error, SegmentSealed | NoSuchSegment):
                    sealed.append(each)
                elif answer.fate is Fate.REFUSED and transaction is not None:
                    transaction.has_failed = True
            left = [each for each, answer in zip(left, told, strict=True) if answer.fate is Fate.UNKNOWN]
            if not left:
                return sealed
            self.client.forget(segment)
            await self.client.pause()
        raise AssertionError(f"{self.name} is not answered by {segment} in {ATTEMPTS_MAX} attempts")

    async def _send_all(
        self,
        reached: Reached,
        segment_id: int,
        found: Sequence[tuple[Written, Key]],
        transaction: Transaction | None,
    ) -> list[calls.Told]:
        """One behind the other, without waiting for the answers."""
        now_ms = self.client.stage.clock.wall_ms()
        txn_id = None if transaction is None else transaction.txn_id
        entries = [
            Entry(
                payload(written.message, segment_id).encode(),
                self.name,
                written.number,
                txn_id,
                now_ms,
                key_hashes=pack_hashes([key.hash]),
            )
            for written, key in found
        ]
        if isinstance(reached.broker, TopicBroker):
            reached.broker.meter.count_in(reached.segment.name, len(entries), 1)
        sends = [
            asyncio.ensure_future(calls.publish(self.client.recorder, reached.segment, entry, reached.through))
            for entry in entries
        ]  # tasks begin in the order in which they were made
        return list(await asyncio.gather(*sends))
