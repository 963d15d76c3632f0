"""Makes out the truth of a shard: what the witness tells of its order, held against all that the writers know.

What was put says who has put it. What was removed does not say who has removed it, where several can have done so: a
removal without an answer may have happened at any later time. The likeliest is tried first; where that leads to a
contradiction the others are tried as well, and what contradicts every one of them is a lie.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice

from metastore.interface import Change, Version
from watch_contract.sightings import Sighting, Told
from watch_contract.truth import Entry, Held, Order, ShardTruth, State, apply, known
from watch_contract.violations import Findings, Lie
from watch_contract.writes import EndSession, Fate, Put, Remove, RemoveRange, Write

COVERS_MAX, EXPLANATIONS_MAX = 64, 8
"""Of what was removed at one offset: so many are looked at, and the likeliest of them tried."""
STEPS_MAX = 5_000
"""Offsets that are looked at while explanations are tried; then the history counts as contradictory."""


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
            found.update((offset, Telling(event.tick, offset, tuple(changes))) for offset, changes in of_batch.items())
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
        self._showing = sorted((write for write in self._writes if write.must_show), key=known)
        self._silent = sorted((each for each in self._writes if is_silent(each)), key=known)
        """By when they had returned."""
        self._judged = 0
        """Of those, whether they can have found nothing."""
        self._placed: dict[int, int] = {}
        self._last_version: dict[str, int] = {}
        self._latest_invoked = -1

    def branch(self) -> Reconstruction:
        """The same so far, to go on in another way."""
        made = copy(self)
        made.truth, made.findings = self.truth.copy(), Findings()
        made.state, made._placed, made._last_version = {**self.state}, {**self._placed}, {**self._last_version}
        return made

    def run(self, tellings: Iterable[Telling]) -> None:
        """All of it; then what was never told."""
        for telling in tellings:
            self._take(telling)
        for write in self._writes:
            if write.must_show and write.number not in self._placed:
                self.findings.add(Lie.LOST_WRITE, self._who, f"{write} is told at no offset")
            if is_silent(write) and write.number not in self._placed and not self._can_be_idle(write):
                self.findings.add(Lie.LOST_WRITE, self._who, f"{write} had something to remove, and is told nowhere")
        self.findings.counts["writes"] += len(self._placed)
        self.findings.counts["unanswered writes that happened"] += sum(
            write.fate is Fate.UNKNOWN and write.number in self._placed for write in self._writes
        )

    def explained(self, tellings: Sequence[Telling]) -> Reconstruction | None:
        """What explains all of it without a contradiction, from here on; None if nothing does."""
        ways: list[tuple[Reconstruction, int, Sequence[Write] | None]] = [(self.branch(), 0, None)]
        steps = 0
        while ways:
            made, place, removers = ways.pop()
            while place < len(tellings) and made._is_possible() and steps < STEPS_MAX:
                if removers is None:
                    likely = made._explanations(tellings[place])
                    ways += [(made.branch(), place, other) for other in reversed(likely[1:])]
                    removers = likely[0] if likely else None
                made._take(tellings[place], removers)
                place, removers, steps = place + 1, None, steps + 1
            if place == len(tellings) and made._is_possible():
                made.run(())
                if not made.findings.violations:
                    return made
        return None

    def _is_possible(self) -> bool:
        """Whether nothing contradicts it, and everything that has to be told still can be."""
        if self.findings.violations or self._missed(()) < self._latest_invoked:
            return False
        # What had returned before something began that is told has no other place any more than among these.
        over = [each for each in self._silent[self._judged :] if known(each) < self._latest_invoked]
        self._judged += len(over)
        return all(each.number in self._placed or self._can_be_idle(each) for each in over)

    def _take(self, telling: Telling, removers: Sequence[Write] | None = None) -> None:
        """With these as those who removed what nobody has put, or with the likeliest."""
        writes = self._identify(telling, removers)
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

    def _identify(self, telling: Telling, removers: Sequence[Write] | None) -> list[Write]:
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
        if removers is None:
            removers = next(iter(self._explanations(telling)), None)
        if removers is None:
            keys = sorted(self._only_removed(telling))
            self.findings.add(Lie.INVENTED, self._who, f"at offset {telling.offset}: nobody can have removed {keys}")
        found.update((write.number, write) for write in removers or ())
        self._placed.update(dict.fromkeys(found, telling.offset))
        return [*found.values()]

    def _putters(self, telling: Telling) -> dict[int, Write]:
        """The writes of which an offset has values."""
        values = (change.record.value for change in telling.changes if change.record is not None)
        writes = (self._by_value.get(value) for value in values if value is not None)
        return {write.number: write for write in writes if write is not None}

    def _only_removed(self, telling: Telling) -> frozenset[str]:
        """The records that are gone, and not by a write that has put others."""
        removed = {change.key for change in telling.changes if change.record is None}
        for write in self._putters(telling).values():
            removed -= effects_of(write, self.state, {}, self._order).keys()
        return frozenset(removed)

    def _explanations(self, telling: Telling) -> list[list[Write]]:
        """Who can have removed what an offset lacks, the likeliest first; one is that nobody had to."""
        removed = self._only_removed(telling)
        candidates = self._candidates(telling, self._putters(telling)) if removed else []
        fitting = [(write, keys) for write, keys in candidates if keys and keys <= removed]
        sizes = {write.number: len(keys) for write, keys in fitting}

        def unlikeliness(writes: Sequence[Write]) -> tuple[int, int]:
            """Those who have certainly removed something have first done so; seldom did two find the same."""
            return -sum(write.must_show for write in writes), sum(sizes[write.number] for write in writes)

        found = islice(_covers(removed, fitting), COVERS_MAX)
        return sorted(found, key=unlikeliness)[:EXPLANATIONS_MAX]

    def _missed(self, found: Iterable[int]) -> float:
        """When the first write had returned that has to be told yet."""
        unplaced = (each for each in self._showing if each.number not in self._placed and each.number not in found)
        return next((known(each) for each in unplaced), math.inf)

    def _candidates(self, telling: Telling, found: Mapping[int, Write]) -> list[tuple[Write, frozenset[str]]]:
        """The removals that can have taken effect here, and what they removed then; the likeliest first."""
        missed = self._missed(found)
        candidates = [
            (write, frozenset(effects_of(write, self.state, {}, self._order)))
            for write in self._removals
            if write.number not in self._placed
            and write.invoked < min(telling.tick, missed + 1)
            and known(write) >= self._latest_invoked
            and conditions_hold(write, self.state)
        ]
        return sorted(candidates, key=lambda each: (not each[0].must_show, known(each[0]), each[0].invoked))

    def _can_be_idle(self, write: Write) -> bool:
        """Whether there was a moment between its call and its answer at which it had nothing to do."""
        truth = self.truth.copy()  # which keeps what it works out
        first, end = truth.known_by(write.invoked), truth.reached_by(known(write))
        moments = [first, *(entry.offset + 1 for entry in truth.between(first, 1 << 62) if entry.offset < end)]
        return any(not effects_of(write, truth.state_at(moment), {}, self._order) for moment in moments)

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


def reconstructed(shard: int, writes: Sequence[Write], order: Order, tellings: Sequence[Telling]) -> Reconstruction:
    """By the likeliest explanation of everything; by another one if that is contradictory and another one is not."""
    made = Reconstruction(shard, writes, order)
    made.run(tellings)
    if made.findings.violations:
        return Reconstruction(shard, writes, order).explained(tellings) or made
    return made


def _covers(removed: frozenset[str], fitting: Sequence[tuple[Write, frozenset[str]]]) -> Iterator[list[Write]]:
    """Removals that together removed exactly these: of one request a later one finds what an earlier one has left."""
    if not removed:
        yield []
        return
    for place, (write, keys) in enumerate(fitting):
        if not removed <= frozenset().union(*(each for _, each in fitting[place:])):
            return
        if keys & removed:
            for rest in _covers(removed - keys, fitting[place + 1 :]):
                yield [write, *rest]


def may_only_remove(write: Write) -> bool:
    """Whether its place does not follow from a value, and it may have removed something."""
    if write.fate is Fate.REFUSED or any(isinstance(operation, Put) for operation in write.operations):
        return False
    return any(write.answer(place) is not False for place, _ in enumerate(write.operations))


def is_silent(write: Write) -> bool:
    """Whether it is done, and may have found nothing to remove."""
    return write.fate is Fate.DONE and not write.must_show


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
