"""A watcher that is cut off, cancelled, slow, late and back again, by a seed, and notes all it was told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from metastore.interface import BatchKind, ChangeKind, MetadataStore, StoreError, TokenExpired, Watch, WatchBatch
from watch_contract.notes import Notes
from watch_contract.sightings import Expired, Failed, Opened, Scope, Sighting, Told

BATCHES_PER_OPENING = 4
LAG_WRITES_MAX = 40
TOKENS_KEPT = 30


class Watcher:
    """One watcher of one range, over any number of watches."""

    def __init__(
        self,
        sighting: Sighting,
        partition_key: str | None,
        store: MetadataStore,
        notes: Notes,
        seed: int,
        may_begin_now: bool,
    ) -> None:
        self.sighting = sighting
        self._scope: Scope = sighting.scope
        self._partition_key = partition_key
        self._store = store
        self._notes = notes
        self._random = random.Random(seed)
        self._tokens: list[str] = []
        """Of this watcher, the newest last; none before a snapshot is complete."""
        self._may_begin_now = may_begin_now
        self.token: str | None = None
        """Of the last batch; None before the watch has told where it begins."""
        self.versions: dict[str, int] = {}
        """The records in the range, as far as they were told."""
        self._versions_at: dict[str, dict[str, int]] = {}
        """The same at each token that is kept."""
        self._goal: Callable[[], bool] | None = None

    def aim(self, goal: Callable[[], bool]) -> None:
        """It has seen enough when this is so."""
        self._goal = goal
        self._notes.ring()

    @property
    def has_arrived(self) -> bool:
        return self._goal is not None and self.token is not None and self._goal()

    async def run(self) -> None:
        """Opens one watch after the other, until it has seen everything."""
        while not self.has_arrived:
            resume, has_snapshot = self._choose_beginning()
            self._note(Opened(self._notes.tick(), resume, has_snapshot))
            self._notes.count("openings" if resume is None else "resumes")
            self.token = resume
            self.versions = {} if resume is None else dict(self._versions_at[resume])
            try:
                async with self._open(resume, has_snapshot) as watch:
                    await self._read(watch)
            except TokenExpired as error:
                self._notes.count("expiries")
                self._note(Expired(self._notes.tick(), self._notes.clock.wall_ms(), error.oldest_offset))
                self._tokens.clear()
                self.token = None
            except StoreError as error:
                self._note(Failed(self._notes.tick(), repr(error)))
                return

    def _choose_beginning(self) -> tuple[str | None, bool]:
        """Mostly where it was; now and then where it was long ago, or anew."""
        chance = self._random.random()
        if not self._tokens or chance < 0.25:
            may_begin_now = self._may_begin_now and self._goal is None and bool(self._tokens)
            return None, chance < 0.17 or not may_begin_now
        return self._tokens[-1] if chance < 0.8 else self._random.choice(self._tokens), True

    def _open(self, resume: str | None, has_snapshot: bool) -> Watch:
        return self._store.watch(
            self._scope.range,
            index=self._scope.index,
            partition_key=self._partition_key,
            resume=resume,
            snapshot=has_snapshot,
            previous_values=self._scope.previous_values,
        )

    async def _read(self, watch: Watch) -> None:
        """Some batches; between them it is slow at times, and then it may stay away for a while."""
        last = self._random.randint(1, BATCHES_PER_OPENING)
        number = 0
        while (number < last or self._goal is not None) and not self.has_arrived:
            if not await self._read_one(watch, patience=self._random.randint(1, LAG_WRITES_MAX)):
                continue
            number += self.token is not None  # most snapshots are read to their end
            if self._random.random() < 0.02:
                return
            if self._random.random() < 0.15:
                await self._notes.until_written(self._random.randint(1, LAG_WRITES_MAX))
        if self._random.random() < 0.5:
            await watch.close()
            await self._notes.until_written(self._random.randint(1, LAG_WRITES_MAX))

    async def _read_one(self, watch: Watch, patience: int) -> bool:
        """A batch; False if it gave up waiting, which must lose nothing."""
        reading = asyncio.ensure_future(anext(watch))
        waiting = asyncio.ensure_future(self._lose_patience(patience))
        try:
            await asyncio.wait([reading, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _end(waiting)
            if not reading.done():
                await _end(reading)
        if reading.cancelled():
            return False
        batch = reading.result()
        self._note(Told(self._notes.tick(), batch))
        self._fold(batch)
        self._notes.count("changes", len(batch.changes))
        self._notes.ring()
        return True

    def _fold(self, batch: WatchBatch) -> None:
        """Keeps what it knows of the range, and where it can resume."""
        if batch.kind is BatchKind.SNAPSHOT_BEGIN:
            self.versions.clear()
        self.versions.update((record.key, record.version.version_id) for record in batch.records)
        for change in batch.changes:
            if change.record is None or change.kind is ChangeKind.LEFT:
                self.versions.pop(change.key, None)
            else:
                self.versions[change.key] = change.record.version.version_id
        self.token = batch.token
        if batch.token is not None:
            self._tokens = [*self._tokens, batch.token][-TOKENS_KEPT:]
            self._versions_at[batch.token] = dict(self.versions)

    async def _lose_patience(self, writes: int) -> None:
        if self._notes.are_writers_done:
            await self._notes.until(lambda: self.has_arrived)
        else:
            await self._notes.until_written(writes)

    def _note(self, event: Opened | Told | Expired | Failed) -> None:
        self.sighting.events.append(event)


async def _end(task: asyncio.Future[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # whoever wants the outcome still finds it
