"""The files of shards that somebody else writes, open for reading, and points of them.

Whoever only holds a point needs no more than this: neither numpy nor Arrow, which take longer to import.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import lmdb

from metastore.directory import DirectoryError, Namespace, read_manifest, shard_directory
from metastore.engine.change import Table
from metastore.engine.pages import Pages, Root, root_of
from metastore.engine.store import TABLE_NAMES, Applied, read_applied
from metastore.engine.tree import Tree
from metastore.log import LogFollower, LogPlace
from metastore.spark.errors import StoreUnreachable, WrongOption
from metastore.spark.stores.mapping import pages_of
from metastore.spark.stores.point import Point

MAP_BYTES = 1 << 40
"""The address space for a file that may grow while it is read. Only what is there takes room."""
SUBDATABASES_MAX = 16
TABLES = (Table.RECORDS, Table.INDEXES)


class State(NamedTuple):
    """A point on a shard."""

    offset: int
    segment: int
    """With `position`, where the log ended then."""
    position: int
    applied: int
    """What LMDB held then."""
    roots: tuple[tuple[int, int, int], ...] = ()
    """Its sub-databases then, short and long, of records and of indexes; none if nobody holds them."""
    holder: int = 0
    """The process that holds them, by the number that LMDB knows it by."""
    transaction: int = 0
    """What it holds, by LMDB's number."""

    @property
    def log_end(self) -> LogPlace:
        """Where the log ended then."""
        return LogPlace(self.segment, self.offset, self.position)


class ShardFiles:
    """A shard's directory, open for reading. Only one for each environment and process."""

    def __init__(self, directory: Path, known: LogPlace | None = None) -> None:
        self._index = directory / "index"
        try:
            self.environment = lmdb.open(str(self._index), map_size=MAP_BYTES, max_dbs=SUBDATABASES_MAX, readonly=True)
        except lmdb.Error as error:
            raise StoreUnreachable(f"{self._index} cannot be read: {error}") from None
        self._meta = self.environment.open_db(b"meta", create=False)
        self.trees = [Tree(self.environment, TABLE_NAMES[table]) for table in Table]
        self.log = LogFollower(directory / "log", known)

    def applied(self, transaction: lmdb.Transaction[bytes]) -> Applied:
        """What LMDB holds."""
        return read_applied(transaction, self._meta)

    def roots(self, transaction: lmdb.Transaction[bytes]) -> tuple[Root, ...]:
        """The sub-databases as a transaction sees them."""
        names = [name for table in TABLES for name in (TABLE_NAMES[table], f"{TABLE_NAMES[table]}/long")]
        return tuple(root_of(transaction, name.encode()) for name in names)

    def pages(self) -> Pages:
        """The pages of the environment, as far as there are any by now."""
        return pages_of(self._index, int(self.environment.stat()["psize"]))

    def state(self, is_held: bool) -> tuple[State, lmdb.Transaction[bytes]]:
        """The state of now, and the transaction that holds it."""
        transaction = self.environment.begin()
        applied = self.applied(transaction).next_offset
        end = self.log.end()
        assert end.offset >= applied, "LMDB is ahead of the log"
        state = State(end.offset, end.segment, end.position, applied)
        if is_held:
            roots = tuple((each.page, each.depth, each.entries) for each in self.roots(transaction))
            state = state._replace(roots=roots, holder=os.getpid(), transaction=transaction.id())
        return state, transaction

    def is_kept(self, transaction: lmdb.Transaction[bytes]) -> bool:
        """Whether all pages that a transaction of this environment has read by now were as it sees them."""
        return self._keeps(os.getpid(), transaction.id())

    def holds(self, state: State) -> bool:
        """Whether all pages of a state that were read by now were as its holder keeps them."""
        return self._keeps(state.holder, state.transaction)

    def _keeps(self, process: int, transaction: int) -> bool:
        # LMDB knows of no reader that has it mounted read only. A write uses no page that was in use when it began, but
        # maybe one that the write before gave up.
        if int(self.environment.info()["last_txnid"]) <= transaction + 1:
            return True
        readers = (line.split() for line in self.environment.readers().splitlines())
        return any((reader[0], reader[-1]) == (str(process), str(transaction)) for reader in readers if reader)

    def close(self) -> None:
        """Lets the files go."""
        self.environment.close()


class DirectoryShards:
    """The shards of a namespace of a data directory."""

    def __init__(self, path: Path, namespace: str) -> None:
        self.path = path
        try:
            identity, namespaces = read_manifest(path)
        except DirectoryError as error:
            raise StoreUnreachable(str(error)) from None
        if not namespaces:
            raise StoreUnreachable(f"{path} holds no store: there is no tidemark.json in it")
        self.namespace = _named(namespaces, namespace, path)
        self.identity = f"{identity or path}/{namespace}"
        """What its points are of."""

    def files(self, shard: int, known: LogPlace | None = None) -> ShardFiles:
        """A shard's files; to be closed."""
        return ShardFiles(shard_directory(self.path, shard), known)

    def pin(self) -> Point:
        """The present state of all, which nobody holds."""
        with ExitStack() as stack:
            return self._pinned(stack, is_held=False)

    def hold(self, stack: ExitStack) -> Point:
        """The same, held in LMDB until the stack unwinds."""
        return self._pinned(stack, is_held=True)

    def _pinned(self, stack: ExitStack, is_held: bool) -> Point:
        states = {}
        for shard in self.namespace.shard_ids:
            files = stack.enter_context(closing(self.files(shard)))
            states[shard], transaction = files.state(is_held)
            stack.callback(transaction.abort)
        return Point(self.identity, {shard: state._asdict() for shard, state in states.items()})


def _named(namespaces: Sequence[Namespace], name: str, path: Path) -> Namespace:
    for each in namespaces:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in namespaces)
    raise WrongOption(f"{path} has no namespace {name!r}: it has {known}")
