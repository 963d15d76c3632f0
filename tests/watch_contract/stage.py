"""A run: a witness, watchers and writers on a store, and somebody who makes trouble; then the last word is waited for.

No part of it waits for time to pass. What it waits for are writes, batches and offsets; where they do not come within
a bound the run ends, and the judges say what is missing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial

from metastore.clock import Clock
from metastore.interface import ALL, MetadataStore, Record, Unavailable
from shard_model.order import ENCODERS
from watch_contract.notes import Notes
from watch_contract.scopes import random_scope
from watch_contract.sightings import Opened, Scope, Sighting, Told
from watch_contract.tokens import offsets_of
from watch_contract.truth import Lens, ShardTruth
from watch_contract.verdict import History, check, truth_of
from watch_contract.violations import Findings
from watch_contract.watcher import Watcher
from watch_contract.writer import Writer

logger = logging.getLogger(__name__)

LAST_WORD_WITHIN_S = 45.0
SCANS_MAX = 10
"""So often the last scan is begun, where others go on killing the service."""
MARK = "/end/"
MARKS_MAX = 10_000
"""Keys that are tried until every shard has one."""

OpenStore = Callable[[], AbstractAsyncContextManager[MetadataStore]]
Trouble = Callable[["Stage"], Coroutine[None, None, None]]


def end_of(lens: Lens, truth: ShardTruth) -> int:
    """The offset behind the last write that is something to a range."""
    return max(lens.offsets_of(truth, 0), default=-1) + 1


@dataclass(frozen=True)
class Plan:
    """What a run is to be. All choices follow from the seed."""

    seed: int
    shards: int = 1
    writers: int = 3
    rounds: int = 60
    """Calls of each writer, at least."""
    least: Mapping[str, int] = field(default_factory=dict)
    """What has to happen to watchers before the writers end: so many changes, resumes, expiries, openings."""
    watchers: int = 8
    sorting: str = "hierarchical"
    retention_ms: int | None = None
    clock: Clock | None = None
    may_ask_previous: bool = True
    indexes_ephemerals: bool = True
    """Whether records that go with a session have index entries: some stores forget to remove those."""

    @property
    def has_previous(self) -> bool:
        """Whether the witness asks for previous values, so that the log has them for everybody, from the beginning."""
        return self.may_ask_previous and self.seed % 2 == 0


class Stage:
    """One run. The three ways to the store may be different ones: to it directly, or through something that fails."""

    may_begin_now = True
    """Whether watchers begin without a snapshot, too."""

    def __init__(self, plan: Plan, open_store: OpenStore, open_watched: OpenStore | None = None) -> None:
        self.plan = plan
        self.notes = Notes(plan.shards, plan.clock, plan.least)
        self._open_store = open_store
        self._open_watched = open_watched or open_store
        self._random = random.Random(plan.seed)
        self._stack = AsyncExitStack()
        shards = tuple(range(plan.shards))
        self._witness = Sighting("the witness", Scope(shards=shards, previous_values=plan.has_previous))
        self._writers: list[Writer] = []
        self._watchers: list[Watcher] = []
        self._marks: set[str] = set()
        """What the witness was told of the last words."""
        self._witness_token: str | None = None

    async def run(self, trouble: Trouble | None = None) -> Findings:
        """What is found to be wrong, and the counts."""
        return self.judge(await self.record(trouble))

    def judge(self, history: History) -> Findings:
        """By the contract that the store promises to keep."""
        return check(history)

    async def record(self, trouble: Trouble | None = None) -> History:
        """Everything that was noted."""
        async with self._stack:
            store = await self._stack.enter_async_context(self._open_store())
            self._closer = Writer("closer", store, self.notes, self.plan.seed)
            tasks = [*await self._begin_witness(store)]
            names = [f"w{number}" for number in range(self.plan.writers)]
            watching = [self._start(watcher.run()) for watcher in await self._make_watchers(names)]
            tasks += watching
            await self._write_all(names, trouble)
            final = await self._finish(store)
            await asyncio.wait(watching, timeout=LAST_WORD_WITHIN_S)
            for task in tasks:
                if task.done():
                    task.result()
            return self._history(final)

    @property
    def witness_offsets(self) -> list[int]:
        """How far the witness has come on each shard."""
        assert self._witness_token is not None
        return offsets_of(self._witness_token)

    async def settle(self) -> None:
        """Returns when the witness has been told all that was written, on every shard; within a bound."""
        marks = await self._mark_shards()
        told = asyncio.ensure_future(self.notes.until(lambda: marks <= self._marks))
        await asyncio.wait([told], timeout=LAST_WORD_WITHIN_S)
        told.cancel()
        await asyncio.wait([told])

    async def _mark_shards(self) -> set[str]:
        """Writes a record on each shard."""
        marks: dict[int, str] = {}
        for _ in range(MARKS_MAX):
            key = f"{MARK}{self.notes.number()}"
            if marks.setdefault(self.notes.shard_of(key), key) is key:
                await self._closer.mark(key)
            if len(marks) == self.plan.shards:
                return {*marks.values()}
        raise AssertionError("every shard has some key")

    async def _begin_witness(self, store: MetadataStore) -> list[asyncio.Task[None]]:
        """Before anything is written."""
        has_begun = asyncio.Event()
        witnessing = self._start(self._witness_all(store, has_begun))
        await has_begun.wait()
        return [witnessing]

    async def _witness_all(self, store: MetadataStore, has_begun: asyncio.Event) -> None:
        """Notes everything."""
        self._witness.events.append(Opened(self.notes.tick(), None, has_snapshot=False))
        previous_values = self._witness.scope.previous_values
        async with store.watch(ALL, snapshot=False, previous_values=previous_values) as watch:
            async for batch in watch:
                self._witness.events.append(Told(self.notes.tick(), batch))
                self._marks.update(change.key for change in batch.changes if change.key.startswith(MARK))
                self._witness_token = batch.token
                self.notes.ring()
                has_begun.set()

    async def _make_watchers(self, names: list[str]) -> list[Watcher]:
        store = await self._stack.enter_async_context(self._open_watched())
        for number in range(self.plan.watchers):
            scope, partition = random_scope(self._random, names, self.notes, self.plan.has_previous)
            sighting = Sighting(f"watcher {number}", scope)
            seed = self._random.getrandbits(32)
            self._watchers.append(Watcher(sighting, partition, store, self.notes, seed, self.may_begin_now))
        return self._watchers

    async def _write_all(self, names: list[str], trouble: Trouble | None) -> None:
        """Returns when all is written and nobody makes trouble any more."""
        writing, troubling = [], []
        for name in names:
            store = await self._stack.enter_async_context(self._open_store())
            seed = self._random.getrandbits(32)
            writer = Writer(name, store, self.notes, seed, self.plan.indexes_ephemerals)
            self._writers.append(writer)
            writing.append(self._start(writer.run(self.plan.rounds)))
        if trouble is not None:
            troubling.append(self._start(trouble(self)))
        await asyncio.gather(*writing)
        self.notes.finish_writers()
        await asyncio.gather(*troubling)

    async def _finish(self, store: MetadataStore) -> list[Record]:
        """Says the last word on each shard, and tells the watchers how far they have to come."""
        await self.settle()
        final = await self._scanned(store)
        for writer in self._writers:
            await writer.note_loss()
        self._aim(self._history(final))
        return final

    @staticmethod
    async def _scanned(store: MetadataStore) -> list[Record]:
        """All records; a scan that breaks off, for others may kill the service still, is begun anew."""
        for _ in range(SCANS_MAX - 1):
            try:
                return [record async for record in store.scan(ALL)]
            except Unavailable as error:
                logger.info("the last scan is begun anew: %s", error)
        return [record async for record in store.scan(ALL)]

    def _aim(self, history: History) -> None:
        """Every watcher has to come to the last write that is something to its range."""
        truth, _ = truth_of(history)
        for watcher in self._watchers:
            scope = watcher.sighting.scope
            lens = Lens(scope, ENCODERS[self.plan.sorting])
            watcher.aim(partial(self._has_come_to, watcher, [end_of(lens, truth[shard]) for shard in scope.shards]))

    @staticmethod
    def _has_come_to(watcher: Watcher, ends: list[int]) -> bool:
        assert watcher.token is not None
        return all(offset >= end for offset, end in zip(offsets_of(watcher.token), ends, strict=True))

    def _note_failure(self, task: asyncio.Task[None]) -> None:
        """Who takes part fails only by a mistake, here or in the store: so does the run."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.notes.fail(error)

    def _history(self, final: list[Record]) -> History:
        return History(
            shards=self.plan.shards,
            order=ENCODERS[self.plan.sorting],
            writes=self.notes.writes,
            witness=self._witness,
            watchers=[watcher.sighting for watcher in self._watchers],
            final=final,
            retention_ms=self.plan.retention_ms,
        )

    def _start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """A task that ends with the run at the latest."""
        task = asyncio.ensure_future(work)
        task.add_done_callback(self._note_failure)

        async def end() -> None:
            task.cancel()
            await asyncio.wait([task])

        self._stack.push_async_callback(end)
        return task
