"""Holds what a watcher was told against the truth, batch by batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from metastore.interface import BatchKind, Record, Version, WatchBatch
from watch_contract.comparison import lies_between
from watch_contract.sightings import Event, Expired, Failed, Opened, Sighting, Told
from watch_contract.tokens import offsets_of
from watch_contract.truth import Lens, Order, ShardTruth
from watch_contract.violations import Findings, Lie

Snapshot = Counter[tuple[str, bytes | None, Version]]
SNAPSHOT_KINDS = (BatchKind.SNAPSHOT_BEGIN, BatchKind.SNAPSHOT)


class Judge:
    """One watcher's notes, from the first to the last."""

    def __init__(
        self, sighting: Sighting, truth: Sequence[ShardTruth], order: Order, retention_ms: int | None = None
    ) -> None:
        self.findings = Findings()
        self._sighting = sighting
        self._scope = sighting.scope
        self._lens = Lens(sighting.scope, order)
        self._truth = [truth[shard] for shard in sighting.scope.shards]
        self._retention_ms = retention_ms
        """How long changes are kept at least; None where nothing is ever trimmed."""
        self._opened = Opened(-1)
        self._offsets: list[int] | None = None
        """Everything below was told; None before there is a token."""
        self._snapshot: list[Record] | None = None
        """What has come of the snapshot that is under way."""
        self._oldest: dict[int, int] = {}
        """Of a shard, that offsets below were said to be no longer kept."""

    def run(self) -> Findings:
        """Everything that is wrong."""
        for event in self._sighting.events:
            self._take(event)
        return self.findings

    def judge_end(self) -> Findings:
        """Whether the last token is beyond all that happened to the range."""
        for place, truth in enumerate(self._truth):
            reached = None if self._offsets is None else self._offsets[place]
            untold = self._lens.offsets_of(truth, reached or 0)
            if untold or reached is None:
                self._add(Lie.STARVED, f"place {place} has come to {reached}, and {untold[:10]} concern it")
        return self.findings

    def _add(self, lie: Lie, evidence: str) -> None:
        self.findings.add(lie, f"{self._sighting.watcher}, {self._scope}", evidence)

    def _count(self, what: str, number: int = 1) -> None:
        self.findings.counts[what] += number

    def _take(self, event: Event) -> None:
        if isinstance(event, Opened):
            self._open(event)
        elif isinstance(event, Told):
            self._take_batch(event)
        elif isinstance(event, Expired):
            self._judge_expiry(event)
        else:
            assert isinstance(event, Failed)
            self._add(Lie.WRONGLY_ENDED, event.error)

    def _open(self, event: Opened) -> None:
        self._opened = event
        self._snapshot = None
        self._offsets = None if event.resume is None else offsets_of(event.resume)
        self._count("openings" if event.resume is None else "resumes")

    def _take_batch(self, told: Told) -> None:
        batch = told.batch
        shape = self._shape_fault(batch)
        if shape is not None:
            self._add(Lie.BAD_SHAPE, f"{shape}: {batch.kind} with {len(batch.changes)} changes, token {batch.token}")
            return
        if batch.kind is BatchKind.SNAPSHOT_BEGIN:
            self._snapshot = []
        elif batch.kind is BatchKind.SNAPSHOT:
            assert self._snapshot is not None
            self._snapshot += batch.records
        else:
            assert batch.token is not None
            self._take_token(told, offsets_of(batch.token))

    def _shape_fault(self, batch: WatchBatch) -> str | None:
        """What is wrong with this batch at this time."""
        if (batch.token is None) != (batch.kind in SNAPSHOT_KINDS):
            return "there is a token if and only if the snapshot is complete"
        if bool(batch.changes) != (batch.kind is BatchKind.CHANGES):
            return "changes come in batches of changes"
        if batch.records and batch.kind is not BatchKind.SNAPSHOT:
            return "records come in a snapshot"
        if batch.kind is BatchKind.SNAPSHOT_BEGIN:
            may_begin = self._opened.resume is None and self._opened.has_snapshot and self._offsets is None
            return None if may_begin else "no snapshot begins here"
        if batch.kind in (BatchKind.SNAPSHOT, BatchKind.SNAPSHOT_END):
            return None if self._snapshot is not None else "no snapshot has begun"
        if self._offsets is None and (self._opened.has_snapshot or batch.kind is not BatchKind.PROGRESS):
            return "the watch has not begun"
        return None

    # -- tokens and what lies between them

    def _take_token(self, told: Told, offsets: list[int]) -> None:
        if len(offsets) != len(self._truth):
            self._add(Lie.BAD_SHAPE, f"the token has {len(offsets)} offsets")
            return
        self._check_bounds(told, offsets)
        if told.batch.kind is BatchKind.SNAPSHOT_END:
            self._check_snapshot(offsets)
        elif self._offsets is not None:
            self._check_changes(told.batch, self._offsets, offsets)
        self._offsets = offsets

    def _check_bounds(self, told: Told, offsets: list[int]) -> None:
        for place, (offset, truth) in enumerate(zip(offsets, self._truth, strict=True)):
            shard = self._scope.shards[place]
            if offset > truth.reached_by(told.tick):
                self._add(
                    Lie.TOKEN_TOO_LATE,
                    f"{told.batch.kind} says {offset} of shard {shard} at {told.tick}, and what began later got "
                    f"{truth.reached_by(told.tick)}",
                )
            if self._offsets is None and offset < truth.known_by(self._opened.tick):
                self._add(
                    Lie.TOKEN_TOO_EARLY,
                    f"{told.batch.kind} says {offset} of shard {shard}, and {truth.known_by(self._opened.tick)} was "
                    f"acknowledged before it was opened at {self._opened.tick}",
                )
            if self._offsets is not None and offset < self._offsets[place]:
                self._add(Lie.TOKEN_WENT_BACK, f"from {self._offsets[place]} to {offset} on shard {shard}")

    def _check_snapshot(self, offsets: list[int]) -> None:
        assert self._snapshot is not None
        found: Snapshot = Counter((record.key, record.value, record.version) for record in self._snapshot)
        wanted: Snapshot = Counter(
            (key, held.value, held.version)
            for offset, truth in zip(offsets, self._truth, strict=True)
            for key, held in truth.state_at(offset).items()
            if self._lens.holds(key, held)
        )
        if found != wanted:
            lacks, has = [*(wanted - found)][:5], [*(found - wanted)][:5]
            self._add(Lie.WRONG_SNAPSHOT, f"at {offsets}: it lacks {lacks}, and should not have {has}")
        self._snapshot = None
        self._count("snapshots")
        self._count("records of snapshots", found.total())

    def _check_changes(self, batch: WatchBatch, firsts: list[int], ends: list[int]) -> None:
        self._count("changes", len(batch.changes))
        self._count("marks of progress", batch.kind is BatchKind.PROGRESS)
        if not {change.shard for change in batch.changes} <= {*self._scope.shards}:
            self._add(Lie.INVENTED, f"changes of other shards: {batch.changes}")
        for shard, truth, first, end in zip(self._scope.shards, self._truth, firsts, ends, strict=True):
            told = [change for change in batch.changes if change.shard == shard]
            for lie, evidence in lies_between(first, end, truth.between(first, end), told, self._lens):
                self._add(lie, f"{evidence} (shard {shard}, opened at {self._opened.tick})")

    # -- the end of what is kept

    def _judge_expiry(self, event: Expired) -> None:
        """It is allowed where the store kept changes for long enough, and what is missing has been forgotten."""
        self._count("expiries")
        offsets = self._offsets
        if self._retention_ms is None or offsets is None or event.oldest_offset is None:
            self._add(Lie.WRONGLY_EXPIRED, f"nothing is trimmed here, or it had no token: {offsets}, {event}")
            return
        oldest = event.oldest_offset
        excuses = [
            place
            for place, (offset, truth) in enumerate(zip(offsets, self._truth, strict=True))
            if offset < oldest and self._is_old(truth, oldest - 1, event.at_ms)
        ]
        if not excuses:
            self._add(Lie.WRONGLY_EXPIRED, f"at {offsets} there was no need: {event}")

    def _is_old(self, truth: ShardTruth, last_lost: int, at_ms: int) -> bool:
        """Whether what is said to be lost was written, and longer ago than changes are kept."""
        assert self._retention_ms is not None
        lost = truth.between(0, last_lost + 1)
        return bool(lost) and lost[-1].time_ms + self._retention_ms <= at_ms
