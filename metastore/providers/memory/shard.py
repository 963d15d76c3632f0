"""One shard: its records, the entries of its indexes, its sequences and its log of changes. Plain and synchronous."""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from sortedcontainers import SortedDict, SortedList

from metastore.engine.index_keys import path_escape
from metastore.engine.keys import KeyOrder
from metastore.interface import ABSENT, Comparison, Index, InvalidRequest, Range, Record, UnexpectedVersion, Version
from metastore.interface.checks import SEQUENCE_DELTA_MAX, shown

EntryPlace = tuple[bytes, ...]
"""Where an entry stands in its index: its secondary key, encoded, then its primary key as ties are ordered."""

_NUMBERS = re.compile(r"[0-9]{20}(-[0-9]{20})*")


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as the shard keeps it."""

    key: str
    value: bytes
    version: Version
    indexes: tuple[Index, ...]

    def as_record(self, secondary_key: str | None = None, include_value: bool = True) -> Record:
        return Record(self.key, self.value if include_value else None, self.version, secondary_key)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a write did to one record."""

    key: str
    before: Stored | None
    after: Stored | None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One write: all its effects, under one offset."""

    offset: int
    time_ms: int
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True)
class Author:
    """Whose an ephemeral record is."""

    session_id: int
    identity: str


class GeneratedKey(NamedTuple):
    """The last key that a sequence generated, and the how manyeth it is."""

    ordinal: int
    key: str


class Shard:
    """Invariant: the indexes say what the records say, and the log has no gap from its first entry to `next_offset`."""

    def __init__(self, number: int, order: KeyOrder, retention_writes: int) -> None:
        self.number = number
        self.order = order
        self.log: deque[LogEntry] = deque(maxlen=retention_writes)
        self.next_offset = 0
        self.generated: dict[str, GeneratedKey] = {}
        self._next_version = 0
        self._records: SortedDict[bytes, Stored] = SortedDict()
        self._indexes: dict[str, SortedDict[EntryPlace, tuple[str, bytes]]] = {}
        self._keys_of_session: dict[int, dict[str, None]] = {}

    # -- reading

    def find(self, key: str) -> Stored | None:
        return self._records.get(self.place(key))

    def place(self, key: str) -> bytes:
        """What orders a key among the others."""
        return self.order.encode(key.encode())

    def entry_place(self, secondary_key: str, key: str) -> EntryPlace:
        """What orders an entry among those of its index."""
        return (self.place(secondary_key), path_escape(key.encode()))

    def nearest(self, key: str, comparison: Comparison) -> Stored | None:
        """The record that a get asks for; internal ones answer only to their own key."""
        if comparison is Comparison.EQUAL:
            return self.find(key)
        place, end = self.place(key), self.order.user_end
        if comparison in (Comparison.LOWER, Comparison.FLOOR):
            inclusive = comparison is Comparison.FLOOR and place < end
            found = self._records.irange(None, min(place, end), (True, inclusive), reverse=True)
        else:
            found = self._slice(place if comparison is Comparison.CEILING else place + b"\0", end)
        nearest = next(found, None)
        return None if nearest is None else self._records[nearest]

    def nearest_entry(self, index: str, secondary_key: str, comparison: Comparison) -> Record | None:
        """The record that a get by index asks for: of several with one secondary key the first, from above the last."""
        entries = self._indexes.get(index, _NO_ENTRIES)
        place = self.place(secondary_key)
        first, beyond = entries.bisect_left((place,)), entries.bisect_left((place + b"\0",))
        chosen = {
            Comparison.EQUAL: first if first < beyond else None,
            Comparison.CEILING: first,
            Comparison.HIGHER: beyond,
            Comparison.FLOOR: first if first < beyond else first - 1,
            Comparison.LOWER: first - 1,
        }[comparison]
        if chosen is None or not 0 <= chosen < len(entries):
            return None
        secondary, primary = entries.values()[chosen]
        return self._records[primary].as_record(secondary)

    def within(self, range: Range) -> Iterator[Stored]:
        """The records of a range, in order; internal ones are left out."""
        end = self.place(range.end) if range.end else self.order.user_end
        for place in self._slice(self.place(range.start), min(end, self.order.user_end)):
            yield self._records[place]

    def _slice(self, first: bytes, end: bytes) -> Iterator[bytes]:
        return self._records.irange(first, end, (True, False)) if first < end else iter(())

    def entries_within(self, index: str, range: Range) -> Iterator[Record]:
        """The records of a range of an index, once for each secondary key there, in the order of those."""
        entries = self._indexes.get(index, _NO_ENTRIES)
        first, end = (self.place(range.start),), (self.place(range.end),) if range.end else None
        for entry in entries.irange(first, end, (True, False)):
            secondary, primary = entries[entry]
            if primary < self.order.user_end:
                yield self._records[primary].as_record(secondary)

    def keys_of_session(self, session_id: int) -> Sequence[str]:
        return tuple(self._keys_of_session.get(session_id, ()))

    # -- writing

    def check_expected(self, key: str, expected: int | None) -> None:
        """Raises UnexpectedVersion unless the record is at this version."""
        actual = self.version_of(key)
        if expected is not None and expected != actual:
            wanted, found = _named(expected), _named(actual)
            raise UnexpectedVersion(f"{shown(key)} is {found}, not {wanted}: read it again", key, expected)

    def version_of(self, key: str) -> int:
        stored = self.find(key)
        return ABSENT if stored is None else stored.version.version_id

    def next_stored(
        self, key: str, value: bytes, indexes: Sequence[Index], author: Author | None, time_ms: int
    ) -> Stored:
        """The record that a put stores. It takes a version id, so it has to be committed."""
        before = self.find(key)
        version = Version(
            version_id=self._next_version,
            modifications=0 if before is None else before.version.modifications + 1,
            created_ms=time_ms if before is None else before.version.created_ms,
            modified_ms=time_ms,
            session_id=None if author is None else author.session_id,
            identity=None if author is None else author.identity,
        )
        self._next_version += 1
        return Stored(key, value, version, tuple(indexes))

    def next_of_sequence(self, prefix: str, deltas: Sequence[int], pending: SortedList[bytes]) -> str:
        """The next key of a sequence; to be noted when it is sure to be committed. `pending` are places to come."""
        parts = self.numbers(prefix, self.greatest_of_sequence(prefix, pending))
        if len(parts) > len(deltas):
            raise InvalidRequest(f"sequence {shown(prefix)} has {len(parts)} parts: {len(deltas)} deltas are too few")
        numbers = [delta + (parts[place] if place < len(parts) else 0) for place, delta in enumerate(deltas)]
        if max(numbers) > SEQUENCE_DELTA_MAX:
            raise InvalidRequest(f"sequence {shown(prefix)} is exhausted: a part would become {max(numbers)}")
        return "-".join([prefix, *(f"{number:020d}" for number in numbers)])

    def note_generated(self, prefix: str, key: str) -> None:
        """Tells those who follow the sequence."""
        earlier = self.generated.get(prefix)
        self.generated[prefix] = GeneratedKey(1 if earlier is None else earlier.ordinal + 1, key)

    def greatest_of_sequence(self, prefix: str, pending: SortedList[bytes] | None = None) -> str | None:
        """The greatest key of a sequence; other keys between them do not disturb."""
        low, high = self.place(prefix + "-"), self.place(prefix + "-:")  # the colon follows the nine
        descending = [places.irange(low, high, reverse=True) for places in (self._records, pending or SortedList())]
        for place in heapq.merge(*descending, reverse=True):
            key = self.order.decode(place).decode()
            if self.numbers(prefix, key):
                return key
        return None

    @staticmethod
    def numbers(prefix: str, key: str | None) -> list[int]:
        """The numbers of a key of the sequence; none if the key only looks alike, or there is no key."""
        suffix = "" if key is None else key[len(prefix) + 1 :]
        numbers = [int(part) for part in suffix.split("-")] if _NUMBERS.fullmatch(suffix) else []
        return numbers if max(numbers, default=0) <= SEQUENCE_DELTA_MAX else []

    def commit(self, changes: Sequence[tuple[str, Stored | None]], time_ms: int) -> None:
        """Takes all effects of one write together; one that changes nothing leaves no trace."""
        effects = []
        for key, after in changes:
            before = self.find(key)
            if before is not None:
                self._forget(before)
            if after is not None:
                self._remember(after)
            if before is not None or after is not None:
                effects.append(Effect(key, before, after))
        if effects:
            self.log.append(LogEntry(self.next_offset, time_ms, tuple(effects)))
            self.next_offset += 1

    def _remember(self, stored: Stored) -> None:
        place = self.place(stored.key)
        self._records[place] = stored
        for name, secondary in stored.indexes:
            entries = self._indexes.setdefault(name, SortedDict())
            entries[self.entry_place(secondary, stored.key)] = (secondary, place)
        if stored.version.session_id is not None:
            self._keys_of_session.setdefault(stored.version.session_id, {})[stored.key] = None

    def _forget(self, stored: Stored) -> None:
        del self._records[self.place(stored.key)]
        for name, secondary in set(stored.indexes):
            del self._indexes[name][self.entry_place(secondary, stored.key)]
            if not self._indexes[name]:
                del self._indexes[name]
        if stored.version.session_id is not None:
            keys = self._keys_of_session[stored.version.session_id]
            del keys[stored.key]
            if not keys:
                del self._keys_of_session[stored.version.session_id]

    # -- the log

    @property
    def oldest_offset(self) -> int:
        return self.log[0].offset if self.log else self.next_offset

    def entries_from(self, offset: int, entries_max: int) -> list[LogEntry]:
        """The next entries; `offset` must not have been trimmed."""
        first = offset - self.oldest_offset
        assert first >= 0, "the caller asks for what is no longer kept"
        return list(islice(self.log, first, first + entries_max))

    def trim(self, keep_writes: int) -> None:
        """Forgets all but the last writes."""
        while len(self.log) > keep_writes:
            self.log.popleft()


_NO_ENTRIES: SortedDict[EntryPlace, tuple[str, bytes]] = SortedDict()


def _named(version_id: int) -> str:
    return "absent" if version_id == ABSENT else f"at version {version_id}"
