"""The judge of an election: what was stored and what candidates said, against what is promised of leaders."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from election_candidate import BLIND_KEY, GRANTED_KEY, GUARDED_KEY, GUARDED_PARTITION, ROLE
from election_staging import Event

from metastore.coordination.stamps import read_fence
from metastore.interface import BatchKind, MetadataStore, Record, exactly

PARTITIONS = {GRANTED_KEY: ROLE, BLIND_KEY: ROLE, GUARDED_KEY: GUARDED_PARTITION}
COMPLETE_WITHIN_S = 20.0


@dataclass(frozen=True)
class Stored:
    """One state that a record has had."""

    term: int
    count: int


@dataclass
class Ledger:
    """Every state of all records, in the order of the store's writes."""

    states: dict[str, list[Stored]] = field(default_factory=lambda: {key: [] for key in PARTITIONS})

    async def follow(self, store: MetadataStore, key: str, has_begun: asyncio.Event) -> None:
        """Notes all that becomes of a record, until it is deleted."""
        assert store.capabilities.watches_every_change
        async with store.watch(exactly(key), partition_key=PARTITIONS[key]) as watch:
            async for batch in watch:
                assert not batch.records, "the watch began before the first write"
                if batch.kind is BatchKind.SNAPSHOT_END:
                    has_begun.set()
                for change in batch.changes:
                    if change.record is None:
                        return
                    self.states[key].append(_state(change.record))


def _state(record: Record) -> Stored:
    assert record.value is not None
    if record.key != GUARDED_KEY:
        said = json.loads(record.value)
        return Stored(said["term"], said["count"])
    stamp, value = read_fence(record)
    return Stored(stamp.term, int(value or b"0"))


@asynccontextmanager
async def following(store: MetadataStore) -> AsyncIterator[Ledger]:
    """A ledger that is kept as long as the block lasts; then the records are deleted, and it is complete."""
    ledger = Ledger()
    begun = {key: asyncio.Event() for key in PARTITIONS}
    tasks = [asyncio.ensure_future(ledger.follow(store, key, begun[key])) for key in PARTITIONS]
    try:
        for event in begun.values():
            await event.wait()
        yield ledger
        for key, partition_key in PARTITIONS.items():
            assert await store.delete(key, partition_key=partition_key)
        async with asyncio.timeout(COMPLETE_WITHIN_S):
            await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


def judge(ledger: Ledger, events: Sequence[Event]) -> dict[str, int]:
    """Raises if a promise was broken; else says how much there was to be judged."""
    elected = [event for event in events if event.name == "elected"]
    holders = Counter(event.term for event in elected)
    assert all(count == 1 for count in holders.values()), f"a term has had two holders: {holders}"
    in_time = [event.term for event in sorted(elected, key=lambda event: event.at_s)]
    assert in_time == sorted(in_time), f"terms were won in the order {in_time}"
    owners = {event.term: event.candidate for event in elected}
    handovers = 0
    for key, states in ledger.states.items():
        terms = [state.term for state in states]
        overwritten = [(before, after) for before, after in pairwise(states) if after.term < before.term]
        assert overwritten == [], f"{key}: a deposed leader has written over its successor: {overwritten[0]}"
        assert set(terms) <= set(owners), f"{key}: written under terms that nobody held"
        if key != BLIND_KEY:
            counts = [state.count for state in states]
            steps = {after - before for before, after in pairwise([0, *counts])}
            # A successor that raises the fence puts the record as it was.
            assert steps <= ({0, 1} if key == GUARDED_KEY else {1}), f"{key}: counts went by {steps}"
        handovers += len(set(terms)) - 1
    judge_acknowledged(ledger, events, owners)
    return {
        "terms": len(elected),
        "handovers with writes on both sides": handovers,
        "writes stored": sum(len(states) for states in ledger.states.values()),
        "writes acknowledged": sum(event.name == "wrote" for event in events),
        "depositions": sum(event.name == "deposed" for event in events),
    }


def judge_acknowledged(ledger: Ledger, events: Sequence[Event], owners: dict[int, str]) -> None:
    """What a leader was told is stored was stored once, under its own term."""
    told = Counter((event.key, event.term, event.count) for event in events if event.name == "wrote")
    assert all(times == 1 for times in told.values())
    stored = {(key, state.term, state.count) for key, states in ledger.states.items() for state in states}
    assert set(told) <= stored, f"acknowledged and not stored: {set(told) - stored}"
    for event in events:
        assert event.name != "wrote" or owners[event.term] == event.candidate
