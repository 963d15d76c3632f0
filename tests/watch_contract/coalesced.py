"""The judge for stores that may tell several changes of a record as one. It knows no offsets and no witness.

Per record it makes out the states that were true one after the other: the versions that writers were answered, or that
anybody was told, with an absence before each that is new. What a watcher is told of a record has to lead forward
through these states, and in the end to the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from metastore.interface import BatchKind, Change, ChangeKind, Record, Version
from watch_contract.comparison import is_same
from watch_contract.sightings import Event, Expired, Failed, Opened, Scope, Sighting, Told
from watch_contract.truth import Held, Lens
from watch_contract.verdict import History
from watch_contract.violations import Findings, Lie
from watch_contract.writes import Put, Write

IN_RANGE_BEFORE = {ChangeKind.MODIFIED, ChangeKind.DELETED, ChangeKind.LEFT}
IN_RANGE_AFTER = {ChangeKind.CREATED, ChangeKind.MODIFIED, ChangeKind.ENTERED}
UNHEARD_OF = -1
"""The place before a record's first state."""

Life = list[Held | None]
"""The states of a record in their order; None where there was none."""
Folded = dict[str, int]
"""Of each record that a watcher has heard of, the place of its state in its life."""


def lives_of(history: History) -> dict[str, Life]:
    """The states of all records that anybody knows of."""
    assert history.final is not None, "the last states are known by a scan"
    puts = {put.value: (put, write) for put, write in puts_of(history.writes)}
    versions: dict[str, dict[int, Held]] = {}
    for put, version in [*answered(history.writes), *seen(history, puts)]:
        held = Held(put.value, version, put.indexes, put.session)
        versions.setdefault(put.key, {})[version.version_id] = held
    present = {record.key for record in history.final}
    return {
        key: life_of([known[version] for version in sorted(known)], key in present) for key, known in versions.items()
    }


def puts_of(writes: Iterable[Write]) -> Iterator[tuple[Put, Write]]:
    for write in writes:
        for operation in write.operations:
            if isinstance(operation, Put):
                yield operation, write


def answered(writes: Iterable[Write]) -> Iterator[tuple[Put, Version]]:
    """The puts that were acknowledged."""
    for write in writes:
        for operation, answer in zip(write.operations, write.answers, strict=False):
            if isinstance(operation, Put) and isinstance(answer, Version):
                yield operation, answer


def seen(history: History, puts: Mapping[bytes, tuple[Put, Write]]) -> Iterator[tuple[Put, Version]]:
    """The puts without an answer that somebody saw the effect of."""
    for record in records_of(history):
        put, write = puts.get(record.value or b"", (None, None))
        if put is not None and write is not None and write.returned is None and put.key == record.key:
            yield put, record.version


def records_of(history: History) -> Iterator[Record]:
    """Every record that anybody was shown."""
    yield from history.final or ()
    for sighting in history.watchers:
        for event in sighting.events:
            if isinstance(event, Told):
                yield from event.batch.records
                for change in event.batch.changes:
                    yield from filter(None, (change.record, change.previous))


def life_of(helds: list[Held], is_present: bool) -> Life:
    """The states, with an absence wherever there can have been one."""
    life: Life = [None]
    for held in helds:
        before = life[-1]
        if before is not None and held.version.modifications != before.version.modifications + 1:
            life.append(None)
        life.append(held)
    return life if is_present else [*life, None]


def places_of(record: Record | None, life: Life) -> Iterator[int]:
    """Where in a record's life it was so."""
    for place, held in enumerate(life):
        if held is None if record is None else held is not None and held.is_shown_as(record):
            yield place


@dataclass
class CoalescedJudge:
    """One watcher's notes, from the first to the last."""

    sighting: Sighting
    lens: Lens
    lives: Mapping[str, Life]
    may_expire: bool = False
    """Whether tokens can be too old here."""
    findings: Findings = field(default_factory=Findings)
    _opened: Opened = field(default_factory=lambda: Opened(-1))
    _folded: Folded | None = None
    _snapshot: Folded | None = None
    _at_token: dict[str, Folded] = field(default_factory=dict)

    def run(self) -> Findings:
        """Everything that is wrong."""
        for event in self.sighting.events:
            self._take(event)
        self._judge_end()
        return self.findings

    def _add(self, lie: Lie, evidence: str) -> None:
        self.findings.add(lie, f"{self.sighting.watcher}, {self.sighting.scope}", evidence)

    def _take(self, event: Event) -> None:
        if isinstance(event, Opened):
            self._opened, self._snapshot = event, None
            self._folded = None if event.resume is None else dict(self._at_token[event.resume])
            self.findings.counts["openings" if event.resume is None else "resumes"] += 1
        elif isinstance(event, Failed):
            self._add(Lie.WRONGLY_ENDED, event.error)
        elif isinstance(event, Expired):
            self.findings.counts["expiries"] += 1
            if not self.may_expire or self._opened.resume is None:
                self._add(Lie.WRONGLY_EXPIRED, f"{event} of {self._opened}")
        elif event.batch.kind in (BatchKind.SNAPSHOT_BEGIN, BatchKind.SNAPSHOT, BatchKind.SNAPSHOT_END):
            self._take_snapshot(event)
        elif self._folded is None:
            self._add(Lie.BAD_SHAPE, f"{event.batch.kind} before the watch has begun")
        else:
            for change in event.batch.changes:
                self._take_change(change, self._folded)
            self.findings.counts["changes"] += len(event.batch.changes)
            self._keep(event)

    def _keep(self, event: Told) -> None:
        if event.batch.token is None or self._folded is None:
            self._add(Lie.BAD_SHAPE, f"{event.batch.kind} without a token")
        else:
            self._at_token[event.batch.token] = dict(self._folded)

    def _take_snapshot(self, event: Told) -> None:
        if event.batch.kind is BatchKind.SNAPSHOT_BEGIN:
            self._snapshot = {}
        if self._snapshot is None or self._folded is not None:
            self._add(Lie.BAD_SHAPE, f"{event.batch.kind} where no snapshot has begun")
            return
        for record in event.batch.records:
            places = [*places_of(record, self.lives.get(record.key, []))]
            if not places or record.key in self._snapshot:
                self._add(Lie.WRONG_SNAPSHOT, f"{record} is told twice, or was never so")
            elif not self.lens.holds(record.key, self.lives[record.key][places[0]]):
                self._add(Lie.WRONG_SNAPSHOT, f"{record} was not in the range")
            else:
                self._snapshot[record.key] = places[0]
        if event.batch.kind is BatchKind.SNAPSHOT_END:
            self._folded, self._snapshot = self._snapshot, None
            self.findings.counts["snapshots"] += 1
            self._keep(event)

    def _take_change(self, change: Change, folded: Folded) -> None:
        behind = folded.get(change.key, UNHEARD_OF)
        places = [*places_of(change.record, self.lives.get(change.key, [None]))]
        later = [place for place in places if place > behind]
        if not later:
            self._add(Lie.REPEATED if places else Lie.INVENTED, f"behind state {behind}: {change}")
            return
        faults = [self._fault(change, behind, place) for place in later]
        if None in faults:
            folded[change.key] = later[faults.index(None)]
        else:
            folded[change.key] = later[0]
            assert faults[0] is not None
            life = self.lives[change.key]
            self._add(faults[0], f"{change} from state {behind} to {later[0]} of {life[: later[0] + 1][-5:]}")

    def _fault(self, change: Change, behind: int, place: int) -> Lie | None:
        """What is wrong if it led to this place. The record can have been gone, or out of the range, in between."""
        life = self.lives[change.key]
        passed = life[max(behind, 0) : place]
        is_in = self.lens.holds(change.key, life[place])
        was_in = [self.lens.holds(change.key, held) for held in passed]
        fits = (change.kind in IN_RANGE_AFTER) == is_in and (change.kind is ChangeKind.DELETED) == (life[place] is None)
        if not fits or (change.kind in IN_RANGE_BEFORE) not in was_in:
            return Lie.WRONG_KIND
        if change.previous is None and not self.sighting.scope.previous_values:
            return None
        is_previous = self.sighting.scope.previous_values and any(
            is_same(change.key, change.previous, held) for held in passed
        )
        return None if is_previous else Lie.WRONG_PREVIOUS

    def _judge_end(self) -> None:
        """The last state of everything in the range was told."""
        if self._folded is None:
            self._add(Lie.STARVED, "its last watch has not begun")
        for key, life in self.lives.items():
            place = (self._folded or {}).get(key, UNHEARD_OF)
            told = life[place] if place >= 0 else None
            if self.lens.holds(key, told) != self.lens.holds(key, life[-1]) or (
                self.lens.holds(key, life[-1]) and told is not life[-1]
            ):
                self._add(Lie.STARVED, f"{key!r} was told up to {told}, and is {life[-1]} in the end")


def check_coalesced(history: History) -> Findings:
    """Everything that is wrong with what the watchers were told; they began with snapshots."""
    findings, lives = Findings(), lives_of(history)
    for sighting in history.watchers:
        lens = Lens(sighting.scope, history.order)
        may_expire = history.retention_ms is not None
        judge = CoalescedJudge(sighting, lens, lives_on(history, lives, sighting.scope), may_expire)
        findings.merge(judge.run())
    return findings


def lives_on(history: History, lives: Mapping[str, Life], scope: Scope) -> Mapping[str, Life]:
    """Those of the records on the shards of a watch."""
    homes = {put.key: write.shard for put, write in puts_of(history.writes)}
    return {key: life for key, life in lives.items() if homes[key] in scope.shards}
