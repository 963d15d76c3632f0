"""Where everything lies below the root of a store.

    ROOT/store                               what this is: format, identity, key sorting
    ROOT/head                                the end of the change log: see `head`
    ROOT/log/NUMBER                          the last writes: see `changes`
    ROOT/records/DIRECTORY/LEAF              the records: see `records`
    ROOT/indexes/INDEX/DIRECTORY/LEAF        an entry for each secondary key of each record
    ROOT/sequences/NAME                      the greatest key of a sequence
    ROOT/sessions/ID                         ephemeral: there while the session is
    ROOT/owners/ID/NAME                      the ephemeral records of a session
    ROOT/asking/ID                           ephemeral: a writer that needs room, see `courtesy`

A key is cut at its last slash into a directory and a leaf: so one level of a path is one list of children, and a
range asks only for the directories that it meets. Directories come with their first child and go with their last.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from metastore.providers.zookeeper.names import is_digest, name_of


class Identity(NamedTuple):
    """What names a record: its key, and its partition key where that is another one."""

    key: str
    partition: str | None = None

    @property
    def home(self) -> str:
        """The partition in which the record lives."""
        return self.key if self.partition is None else self.partition


def identity_of(key: str, partition_key: str | None) -> Identity:
    """The record that a key and a partition key name."""
    return Identity(key, None if partition_key == key else partition_key)


def directory_of(key: str) -> str:
    """The key up to its last slash."""
    return key[: key.rfind("/") + 1]


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of a znode, and the directories above it that come and go with their children."""

    path: str
    meaning: bytes = b""
    """What the name stands for, where it does not say it itself and the znode has no other data."""
    directories: tuple[Spot, ...] = ()

    def paths(self) -> Iterable[str]:
        """What must be known before anything can be put here or removed from here."""
        yield self.path
        for directory in self.directories:
            yield directory.path


class Layout:
    """The paths of one store."""

    def __init__(self, root: str) -> None:
        assert root.startswith("/"), root
        assert not root.endswith("/"), root
        self.root = root
        self.store = f"{root}/store"
        self.head = f"{root}/head"
        self.log = f"{root}/log"
        self.records = f"{root}/records"
        self.indexes = f"{root}/indexes"
        self.sequences = f"{root}/sequences"
        self.sessions = f"{root}/sessions"
        self.owners = f"{root}/owners"
        self.askers = f"{root}/asking"
        self.tables = (
            *(self.log, self.records, self.indexes, self.sequences),
            *(self.sessions, self.owners, self.askers),
        )
        """What is always there, and whose children come and go."""

    def log_entry(self, number: int) -> str:
        return f"{self.log}/{number}"

    def record(self, identity: Identity) -> Spot:
        directory = directory_of(identity.key)
        above = _spot(self.records, directory)
        return Spot(f"{above.path}/{_name(identity, directory)}", directories=(above,))

    def index(self, index: str) -> str:
        return f"{self.indexes}/{name_of(index)}"

    def index_entry(self, index: str, secondary_key: str, identity: Identity) -> Spot:
        above = _spot(self.indexes, index)
        directory = directory_of(secondary_key)
        below = _spot(above.path, directory)
        leaf = secondary_key[len(directory) :]
        entry = _spot(below.path, leaf, *_parts(identity))
        return Spot(entry.path, entry.meaning, (above, below))

    def counter(self, prefix: str, partition: str) -> Spot:
        return Spot(f"{self.sequences}/{name_of(prefix, partition)}")

    def session(self, session_id: int) -> str:
        return f"{self.sessions}/{session_name(session_id)}"

    def asking(self, identity: str) -> str:
        return f"{self.askers}/{identity}"

    def owned_by(self, session_id: int) -> str:
        """The list of a session's records."""
        return f"{self.owners}/{session_name(session_id)}"

    def owned(self, session_id: int, identity: Identity) -> Spot:
        above = Spot(self.owned_by(session_id))
        entry = _spot(above.path, *_parts(identity))
        return Spot(entry.path, entry.meaning, (above,))


def session_name(session_id: int) -> str:
    """ZooKeeper's session ids are signed; names show them as its own logs do."""
    return f"{session_id & (1 << 64) - 1:x}"


def session_id_of(name: str) -> int:
    """The session id of a name."""
    number = int(name, 16)
    return number - (1 << 64) if number >> 63 else number


def _parts(identity: Identity) -> tuple[str, ...]:
    return (identity.key,) if identity.partition is None else (identity.key, identity.partition)


def _name(identity: Identity, directory: str) -> str:
    _, *partition = _parts(identity)
    return name_of(identity.key[len(directory) :], *partition)


def _spot(above: str, *parts: str) -> Spot:
    name = name_of(*parts)
    meaning = json.dumps(parts, ensure_ascii=False).encode() if is_digest(name) else b""
    return Spot(f"{above}/{name}", meaning)
