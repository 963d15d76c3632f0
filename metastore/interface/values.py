"""What goes into a store and what comes out: immutable values, free of any provider."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from metastore.interface.errors import InvalidRequest

ABSENT = -1
"""The expected version of a key that must not exist."""

Index = tuple[str, str]
"""An index name and the secondary key that a record has in it."""


class Comparison(Enum):
    """Which record a get asks for, relative to its key, in the store's order of keys."""

    EQUAL = "equal"
    FLOOR = "floor"
    CEILING = "ceiling"
    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True)
class Range:
    """The keys from `start` to before `end`, in the store's order. Empty means open: from the first, to the last."""

    start: str = ""
    end: str = ""

    def __str__(self) -> str:
        return f"[{self.start!r}, {self.end!r})" if self.end else f"[{self.start!r}, end)"


ALL = Range()


def children_of(path: str) -> Range:
    """The keys one level below a path, in the hierarchical order: `children_of("/a")` has `/a/b`, not `/a/b/c`."""
    if path.endswith("/"):
        raise InvalidRequest(f"children of {path!r}: give the path without a slash at its end")
    return Range(path + "/", path + "//")


def exactly(key: str) -> Range:
    """The range that holds one key and nothing else, in either order.

    Nothing lies between a key and the key with a zero byte behind it. So a range over an index that selects one
    secondary key is exact: `exactly("1_2")` never has `1_20`.
    """
    if key.endswith("//"):
        raise InvalidRequest(f"exactly {key!r}: keys with two slashes at the end bound their neighbours, use a get")
    return Range(key, key + "\0")


@dataclass(frozen=True, slots=True)
class Version:
    """Which state of a record this is, and since when; times in milliseconds since the epoch."""

    version_id: int
    """Greater than that of every earlier write of the record, also of its earlier lives."""
    modifications: int
    """How often the record was overwritten since it was created."""
    created_ms: int
    modified_ms: int
    session_id: int | None = None
    """The session with which the record goes, if it is ephemeral."""
    identity: str | None = None
    """Who put an ephemeral record: the identity of its session."""

    @property
    def is_ephemeral(self) -> bool:
        """Whether the record goes when its session ends."""
        return self.session_id is not None


@dataclass(frozen=True, slots=True)
class PutResult:
    """A stored record's key (the generated one, of a sequence) and version."""

    key: str
    version: Version


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was read."""

    key: str
    value: bytes | None
    """None only where the caller asked for no values."""
    version: Version
    secondary_key: str | None = None
    """The secondary key by which an index led here. Scans of a plain Oxia server do not tell it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold for a transaction: the key's record is at this version, or absent (ABSENT)."""

    key: str
    version_id: int


@dataclass(frozen=True, slots=True)
class Put:
    """An operation of a transaction: store a record. `expected` is one condition more."""

    key: str
    """Of a put to a sequence the prefix, as in `MetadataStore.put`; the result tells the generated key."""
    value: bytes
    expected: int | None = None
    """None for a put to a sequence: its key is new."""
    indexes: tuple[Index, ...] = ()
    is_ephemeral: bool = False
    """Goes with the session that the transaction names."""
    sequence_deltas: tuple[int, ...] = ()
    """Makes it a put to a sequence."""


@dataclass(frozen=True, slots=True)
class Delete:
    """An operation of a transaction: there is no such record afterwards. `expected` is one condition more."""

    key: str
    expected: int | None = None


Operation = Put | Delete


class ChangeKind(Enum):
    """What a change was to the range that is watched."""

    CREATED = "created"
    """The record is new, and in the range."""
    MODIFIED = "modified"
    """The record was in the range before and is so still."""
    DELETED = "deleted"
    """The record was in the range and is no more."""
    ENTERED = "entered"
    """Of an index range: the record existed, and now has a secondary key in the range."""
    LEFT = "left"
    """Of an index range: the record exists, and now has no secondary key in the range."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one record, as a watch tells it."""

    kind: ChangeKind
    key: str
    record: Record | None
    """The record as it is from now on; None when it was deleted."""
    previous: Record | None
    """The record as it was before, where the watch asks for previous values; None where there was none."""
    shard: int
    offset: int
    """The place of the write in the change log of its shard; all changes of one write have the same."""
    time_ms: int
    """When it was written."""


class BatchKind(Enum):
    """What a batch of a watch is."""

    SNAPSHOT_BEGIN = "snapshot-begin"
    """A snapshot follows: forget what an earlier one said."""
    SNAPSHOT = "snapshot"
    """Records of the snapshot, in no particular order."""
    SNAPSHOT_END = "snapshot-end"
    """The snapshot is complete, and the watch can be resumed from here on."""
    CHANGES = "changes"
    """Changes, those of a write all together, those of a shard in their order."""
    PROGRESS = "progress"
    """Nothing has happened to the range up to here."""


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """The next news of a watch."""

    kind: BatchKind
    records: tuple[Record, ...] = ()
    changes: tuple[Change, ...] = ()
    token: str | None = None
    """Where to resume after this batch; None until the snapshot is complete."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do beyond what every store can."""

    transact: bool
    """`transact` works; otherwise it raises Unsupported."""
    watches_every_change: bool
    """A watch tells every change. Otherwise it may tell only the latest of several changes of one record."""
    orders_index_scans: bool
    """Scans of an index over all partitions come in the order of the secondary keys. Otherwise only those within one
    partition do."""
    survives_restart: bool
    """What was acknowledged outlives the process that serves it."""
