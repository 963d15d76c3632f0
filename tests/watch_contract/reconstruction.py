"""Makes out the truth of a shard: what the witness tells of its order, held against all that the writers know."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from metastore.interface import Change, Version
from watch_contract.sightings import Sighting, Told
from watch_contract.truth import Entry, Held, Order, ShardTruth, State, apply, known
from watch_contract.violations import Findings, Lie
from watch_contract.writes import EndSession, Fate, Put, Remove, RemoveRange, Write


@dataclass(frozen=True)
class Telling:
    """What the witness was told of one offset."""

    tick: int
    offset: int
    changes: tuple[Change, ...]


def tellings_of(witness: Sighting, shard: int) -> list[Telling]:
    """By offset; of an offset that is told twice, the first time."""
    found: dict[int, Telling] = {}
    for event in witness.events:
        if isinstance(event, Told):
            of_batch: dict[int, list[Change]] = {}
            for change in event.batch.changes:
                if change.shard == shard and change.offset not in found:
                    of_batch.setdefault(change.offset, []).append(change)
            found.update(
                (offset, Telling(event.tick, offset, tuple(changes))) for offset, changes in of_batch.items()
            )
    return [found[offset] for offset in sorted(found)]


class Reconstruction:
    """Takes what the witness tells of a shard, offset by offset."""

    def __init__(self, shard: int, writes: Sequence[Write], order: Order) -> None:
        self.truth = ShardTruth()
        self.findings = Findings()
        self.state: dict[str, Held] = {}
        self._who = f"shard {shard}"
        self._order = order
        self._writes = [write for write in writes if write.shard == shard]
        self._by_value = {
            operation.value: write
            for write in self._writes
            for operation in write.operations
            if isinstance(operation, Put)
        }
        self._removals = [write for write in self._writes if may_only_remove(write)]
        self._placed: dict[int, int] = {}
        self._last_version: dict[str, int] = {}
        self._latest_invoked = -1

    def run(self, tellings: Iterable[Telling]) -> None:
        """All of it; then what was never told."""
        for telling in tellings:
            self._take(telling)
        for write in self._writes:
            if write.must_show and write.number not in self._placed:
                self.findings.add(Lie.LOST_WRITE, self._who, f"{write} is told at no offset")
            if write.fate is Fate.DONE and write.number not in self._placed and not self._can_be_idle(write):
                self.findings.add(Lie.LOST_WRITE, self._who, f"{write} had something to remove, and is told nowhere")
        self.findings.counts["writes"] += len(self._placed)
        self.findings.counts["unanswered writes that happened"] += sum(
            write.fate is Fate.UNKNOWN and write.number in self._placed for write in self._writes
        )

    def _take(self, telling: Telling) -> None:
        writes = self._identify(telling)
        effects: dict[str, tuple[Held | None, Held | None]] = {}
        versions = {change.key: change.record.version for change in telling.changes if change.record is not None}
        for write in writes:
            effects.update(effects_of(write, self.state, versions, self._order))
        for write in writes:
            self._check_write(write, telling.offset)
        for key, (before, after) in effects.items():
            self._check_effect(key, before, after, telling.offset)
        if effects:
            entry = Entry(telling.offset, telling.changes[0].time_ms, tuple(writes), effects)
            self.truth.append(entry)
            apply(self.state, effects)
        self._latest_invoked = max([self._latest_invoked, *(write.invoked for write in writes)])

    def _identify(self, telling: Telling) -> list[Write]:
        """The writes of an offset: by the values that were put; what was only removed, by who can have done it."""
        found: dict[int, Write] = {}
        for change in telling.changes:
            if change.record is not None:
                write = None if change.record.value is None else self._by_value.get(change.record.value)
                if write is None or self._placed.get(write.number, telling.offset) != telling.offset:
                    twice = "nobody wrote this" if write is None else f"{write} is at {self._placed[write.number]}"
                    self.findings.add(Lie.INVENTED, self._who, f"at offset {telling.offset}: {change}: {twice}")
                else:
                    found[write.number] = write
        removed = {change.key for change in telling.changes if change.record is None}
        for write in found.values():
            removed -= effects_of(write, self.state, {}, self._order).keys()
        removers = self._removers_of(frozenset(removed), self._candidates(telling, found)) if removed else []
        if removers is None:
            keys = sorted(removed)
            self.findings.add(Lie.INVENTED, self._who, f"at offset {telling.offset}: nobody can have removed {keys}")
        found.update((write.number, write) for write in removers or ())
        self._placed.update(dict.fromkeys(found, telling.offset))
        return [*found.values()]

    def _candidates(self, telling: Telling, found: Mapping[int, Write]) -> list[tuple[Write, frozenset[str]]]:
        """The removals that can have taken effect here, and what they removed then; the likeliest first."""
        unplaced = (write for write in self._writes if write.number not in self._placed.keys() | found.keys())
        missed = min((known(write) for write in unplaced if write.must_show), default=math.inf)
        candidates = [
            (write, frozenset(effects_of(write, self.state, {}, self._order)))
            for write in self._removals
            if write.number not in self._placed
            and write.invoked < min(telling.tick, missed + 1)
            and known(write) >= self._latest_invoked
            and conditions_hold(write, self.state)
        ]
        return sorted(candidates, key=lambda each: (not each[0].must_show, each[0].invoked))

    def _removers_of(
        self, removed: frozenset[str], candidates: list[tuple[Write, frozenset[str]]]
    ) -> list[Write] | None:
        """Removals that together removed exactly these records; None if there are none."""
        if not removed:
            return []
        for place, (write, keys) in enumerate(candidates):
            if keys and keys <= removed:
                others = self._removers_of(removed - keys, candidates[place + 1 :])
                if others is not None:
                    return [write, *others]
        return None

    def _can_be_idle(self, write: Write) -> bool:
        """Whether there was a moment between its call and its answer at which it had nothing to do."""
        if write.must_show:
            return True  # it is lost for certain, which is said already
        first, end = self.truth.known_by(write.invoked), self.truth.reached_by(known(write))
        moments = [first, *(entry.offset + 1 for entry in self.truth.between(first, 1 << 62) if entry.offset < end)]
        return any(
            not effects_of(write, self.truth.state_at(moment), {}, self._order) for moment in moments
        )

    def _check_write(self, write: Write, offset: int) -> None:
        if write.fate is Fate.REFUSED:
            self.findings.add(Lie.REFUSED_WRITE, self._who, f"at offset {offset}: {write}")
        if known(write) < self._latest_invoked:
            self.findings.add(
                Lie.BROKEN_ORDER, self._who, f"at offset {offset}, behind one that began when it had returned: {write}"
            )
        if not conditions_hold(write, self.state):
            self.findings.add(Lie.BROKEN_ORDER, self._who, f"at offset {offset} its conditions do not hold: {write}")

    def _check_effect(self, key: str, before: Held | None, after: Held | None, offset: int) -> None:
        """Versions grow, also over a record's lives; modifications count from its creation."""
        if after is None:
            return
        version, last = after.version, self._last_version.get(key, -1)
        modifications = 0 if before is None else before.version.modifications + 1
        if version.version_id <= last or version.modifications != modifications:
            self.findings.add(
                Lie.BROKEN_ORDER,
                self._who,
                f"at offset {offset}: {key!r} becomes {version}, behind version {last}, modified {modifications} times",
            )
        self._last_version[key] = max(last, version.version_id)


def may_only_remove(write: Write) -> bool:
    """Whether its place does not follow from a value, and it may have removed something."""
    if write.fate is Fate.REFUSED or any(isinstance(operation, Put) for operation in write.operations):
        return False
    return any(write.answer(place) is not False for place, _ in enumerate(write.operations))


def conditions_hold(write: Write, state: State) -> bool:
    """Whether the records are at the versions that a write expects."""
    for operation in write.operations:
        if isinstance(operation, Put | Remove) and operation.expected is not None:
            held = state.get(operation.key)
            if operation.expected != (-1 if held is None else held.version.version_id):
                return False
    return True


def effects_of(
    write: Write, state: State, told: dict[str, Version], order: Order
) -> dict[str, tuple[Held | None, Held | None]]:
    """What a write does to a state. A put whose answer is unknown has the version that others were told."""
    effects: dict[str, tuple[Held | None, Held | None]] = {}
    for place, operation in enumerate(write.operations):
        if isinstance(operation, Put):
            answer = write.answer(place)
            version = answer if isinstance(answer, Version) else told.get(operation.key)
            version = version or Version(version_id=-1, modifications=-1, created_ms=-1, modified_ms=-1)
            held = Held(operation.value, version, operation.indexes, operation.session)
            effects[operation.key] = (state.get(operation.key), held)
        else:
            effects.update((key, (state[key], None)) for key in removed_by(operation, state, order))
    return effects


def removed_by(operation: Remove | RemoveRange | EndSession, state: State, order: Order) -> Iterator[str]:
    """The records that a removal finds."""
    if isinstance(operation, Remove):
        if operation.key in state:
            yield operation.key
    elif isinstance(operation, RemoveRange):
        low, high = order(operation.start.encode()), order(operation.end.encode())
        yield from (key for key in state if low <= order(key.encode()) < high)
    else:
        yield from (key for key, held in state.items() if held.session == operation.session)
