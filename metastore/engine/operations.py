"""The operations of the engine and their results: plain values, as lean as their number asks for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from typing import NamedTuple


class Status(IntEnum):
    """The outcome of one operation; the numbers are those of the protocol."""

    OK = 0
    KEY_NOT_FOUND = 1
    UNEXPECTED_VERSION_ID = 2
    SESSION_DOES_NOT_EXIST = 3


class Comparison(IntEnum):
    """Which record a get asks for, relative to its key."""

    EQUAL = 0
    FLOOR = 1
    CEILING = 2
    LOWER = 3
    HIGHER = 4


class PutOptions(NamedTuple):
    """What a put may ask for beside its key and value. Most puts ask for nothing and have no options at all."""

    expected_version_id: int | None = None
    session_id: int | None = None
    client_identity: bytes | None = None
    partition_key: bytes | None = None
    sequence_key_deltas: tuple[int, ...] = ()
    secondary_indexes: tuple[tuple[bytes, bytes], ...] = ()
    override_version_id: int | None = None
    override_modifications_count: int | None = None

    @property
    def has_only_indexes(self) -> bool:
        """Whether it asks for index entries and nothing else."""
        before, indexes, after = self[:5], self[5], self[6:]
        return bool(indexes) and before == _NOTHING_BEFORE_INDEXES and after == _NOTHING_AFTER_INDEXES


_NOTHING_BEFORE_INDEXES = (None, None, None, None, ())
_NOTHING_AFTER_INDEXES = (None, None)

Put = tuple[bytes, bytes, PutOptions | None]
"""Key, value, options."""


def is_numbered(put: Put) -> bool:
    """Whether it is a put to a sequence, and its key only the prefix."""
    return put[2] is not None and bool(put[2].sequence_key_deltas)


Delete = tuple[bytes, int | None]
"""Key, expected version id."""

DeleteRange = tuple[bytes, bytes]
"""Start (inclusive), end (exclusive)."""


@dataclass(slots=True)
class WriteBatch:
    """One write request: puts, then deletes, then range deletes, all or nothing."""

    puts: list[Put] = field(default_factory=list)
    deletes: list[Delete] = field(default_factory=list)
    delete_ranges: list[DeleteRange] = field(default_factory=list)

    @property
    def only_deletes(self) -> bool:
        """Whether it can only make the store smaller; such batches may use the reserve of a full disk."""
        return not self.puts

    @property
    def has_sequences(self) -> bool:
        """Whether a put is one to a sequence."""
        return any(map(is_numbered, self.puts))

    def places_sequences_first(self) -> list[int]:
        """The places of the puts, those to sequences before the others, otherwise in their order."""
        return sorted(range(len(self.puts)), key=lambda place: not is_numbered(self.puts[place]))


@dataclass(slots=True)
class Transaction:
    """One write request that applies only if every condition holds in the state before it: all or nothing.

    The versions that its puts and deletes expect are conditions too, and -1 means that there is no record. Deleting
    what is not there does nothing. Puts to sequences are carried out first, so that nothing else of the transaction
    has a say in their numbers.
    """

    conditions: list[tuple[bytes, int]] = field(default_factory=list)
    """Key, expected version id."""
    puts: list[Put] = field(default_factory=list)
    deletes: list[Delete] = field(default_factory=list)

    @property
    def only_deletes(self) -> bool:
        """Whether it can only make the store smaller."""
        return not self.puts

    def all_conditions(self) -> Iterator[tuple[int, bytes, int]]:
        """(place, key, expected version id) of each."""
        of_puts = ((key, options.expected_version_id) for key, _, options in self.puts if options is not None)
        conditions = chain(self.conditions, _expecting(of_puts), _expecting(self.deletes))
        return ((place, key, expected) for place, (key, expected) in enumerate(conditions))


def _expecting(operations: Iterable[tuple[bytes, int | None]]) -> Iterator[tuple[bytes, int]]:
    return ((key, expected) for key, expected in operations if expected is not None)


PutResult = tuple[int, bytes, bytes | None]
"""Status, the encoded Version (empty unless OK), the new key (of a sequence put)."""


@dataclass(slots=True)
class WriteResult:
    """The outcomes of a write batch, in the order of its operations."""

    puts: list[PutResult]
    deletes: list[int]
    delete_ranges: int


class Get(NamedTuple):
    """A point read, or the nearest record on one side of a key, by primary or secondary key."""

    key: bytes
    include_value: bool = True
    comparison: int = Comparison.EQUAL
    index_name: bytes | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """A range of keys, or of secondary keys of an index: from start to before end."""

    start: bytes
    end: bytes
    index_name: bytes | None = None
    include_internal_keys: bool = False
