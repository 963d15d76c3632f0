"""What was really so: the writes of a shard at their offsets, and the records before and after each of them."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from metastore.interface import Index, Record, Version
from watch_contract.sightings import Scope
from watch_contract.writes import Write

Order = Callable[[bytes], bytes]
"""Makes keys comparable."""


@dataclass(frozen=True)
class Held:
    """A record, with what readers are not shown."""

    value: bytes
    version: Version
    indexes: tuple[Index, ...] = ()
    session: str | None = None

    def is_shown_as(self, record: Record) -> bool:
        """Whether a record that was read is this one."""
        return (self.value, self.version) == (record.value, record.version)


State = Mapping[str, Held]
Effects = Mapping[str, tuple[Held | None, Held | None]]
"""What each record was before and is afterwards."""


@dataclass(frozen=True)
class Entry:
    """What stands at an offset. A client may have put several writes there together."""

    offset: int
    time_ms: int
    writes: tuple[Write, ...]
    effects: Effects


@dataclass
class ShardTruth:
    """One shard."""

    entries: list[Entry] = field(default_factory=list)
    """By offset; offsets at which nothing happened to any record are left out."""
    _offsets: list[int] = field(default_factory=list)

    def copy(self) -> ShardTruth:
        """The same so far."""
        return ShardTruth([*self.entries], [*self._offsets])

    def append(self, entry: Entry) -> None:
        assert not self._offsets or entry.offset > self._offsets[-1], "entries come in the order of their offsets"
        self.entries.append(entry)
        self._offsets.append(entry.offset)

    def between(self, first: int, end: int) -> Sequence[Entry]:
        """The entries from an offset to before another."""
        return self.entries[bisect_left(self._offsets, first) : bisect_left(self._offsets, end)]

    def at(self, offset: int) -> Entry | None:
        """The entry at an offset."""
        found = self.between(offset, offset + 1)
        return found[0] if found else None

    def state_at(self, offset: int) -> State:
        """The records behind all entries below an offset."""
        state: dict[str, Held] = {}
        for entry in self.between(0, offset):
            apply(state, entry.effects)
        return state

    def known_by(self, tick: float) -> int:
        """The offset behind the last write that had returned by then: whoever looks later sees at least so much."""
        place = bisect_left(self._returned, tick)
        return self.entries[place - 1].offset + 1 if place else 0

    def reached_by(self, tick: float) -> float:
        """The offset of the first write that began later: nobody can have got beyond it."""
        place = bisect_right(self._invoked, tick)
        return self.entries[place].offset if place < len(self.entries) else math.inf

    @cached_property
    def _returned(self) -> list[float]:
        """When the first of an entry and those behind it had returned."""
        times = [min((known(write) for write in entry.writes), default=math.inf) for entry in self.entries]
        return [*accumulate(reversed(times), min)][::-1]

    @cached_property
    def _invoked(self) -> list[float]:
        """When the last of an entry and those before it had begun."""
        times = [min((write.invoked for write in entry.writes), default=0) for entry in self.entries]
        return [*accumulate(times, max)]


def known(write: Write) -> float:
    """When a write was known to have taken effect."""
    return math.inf if write.returned is None else write.returned


def apply(state: dict[str, Held], effects: Effects) -> None:
    """Makes of a state the one behind a write."""
    for key, (_, after) in effects.items():
        if after is None:
            state.pop(key, None)
        else:
            state[key] = after


@dataclass(frozen=True)
class Lens:
    """What a watcher's range has to do with records."""

    scope: Scope
    order: Order

    def holds(self, key: str, held: Held | None) -> bool:
        """Whether a record is in the range."""
        if held is None:
            return False
        if self.scope.index is None:
            return self._is_within(key)
        return any(name == self.scope.index and self._is_within(secondary) for name, secondary in held.indexes)

    def is_changed(self, effects: Effects) -> Iterator[str]:
        """The records of a write that are something to the range."""
        for key, (before, after) in effects.items():
            if self.holds(key, before) or self.holds(key, after):
                yield key

    def offsets_of(self, truth: ShardTruth, first: int) -> list[int]:
        """The offsets of a shard, from one on, that are something to the range."""
        return [entry.offset for entry in truth.between(first, 1 << 62) if [*self.is_changed(entry.effects)]]

    def _is_within(self, key: str) -> bool:
        place, range = self.order(key.encode()), self.scope.range
        return self.order(range.start.encode()) <= place and (not range.end or place < self.order(range.end.encode()))
