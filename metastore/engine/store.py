"""The records of one shard: LMDB, a bounded amount behind, under the generations that are newer.

Three states of the same data, each a stretch of the log:

    staging     the round that is under way; only its writer sees it (it lives in the writer, not here)
    active      durable in the log, not yet in LMDB; grows with every round
    frozen      durable in the log, on its way into LMDB; never changes
    trees       in LMDB, up to `applied`

Readers see active over frozen over trees. When the feeder has brought the frozen generation into LMDB whole, it is
dropped, and the active one may be frozen. A generation goes in by several commits, sorted by key, so a commit in the
middle is a state that never was: harmless, since the generation in memory covers it for readers, and a restart
replays the log from `applied`, which only the last of these commits moves.

`lock` guards everything here but the trees' write side, which belongs to the feeder alone.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import lmdb

from metastore.engine.change import Table
from metastore.engine.errors import StoreDamaged
from metastore.engine.leaves import Leaves, MappedFile
from metastore.engine.overlay import Generation, View
from metastore.engine.pages import Root, root_of
from metastore.engine.tree import Database, Transaction, Tree

FORMAT = 1
TABLE_NAMES = {
    Table.RECORDS: "records",
    Table.INDEXES: "indexes",
    Table.SESSIONS: "sessions",
    Table.SHADOWS: "shadows",
}
SUBDATABASES_MAX = 16
READERS_MAX = 1024
"""How many snapshots may be open at a time, at the most."""

_APPLIED_KEY = b"applied"
_APPLIED = struct.Struct("<Bqq")


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Sizes of a store."""

    map_bytes: int = 16 << 30
    """The address space that LMDB gets at first; it doubles whenever it is full."""
    generation_bytes: int = 64 << 20
    """From this size on the active generation is frozen and fed."""
    lag_bytes_max: int = 192 << 20
    """No write goes on while the active generation is larger: the bound of memory and of recovery."""


@dataclass(frozen=True, slots=True)
class Applied:
    """How far LMDB has got."""

    next_offset: int
    """The first log offset that LMDB does not hold."""
    last_version_id: int


def read_applied(transaction: Transaction, meta: Database) -> Applied:
    """How far LMDB has got, as a transaction sees it."""
    data = transaction.get(_APPLIED_KEY, db=meta)
    if data is None:
        return Applied(0, -1)
    if len(data) != _APPLIED.size:
        raise StoreDamaged(f"the mark of what LMDB holds has {len(data)} bytes instead of {_APPLIED.size}")
    form, next_offset, last_version_id = _APPLIED.unpack(data)
    if form != FORMAT:
        raise StoreDamaged(f"the store has format {form}; this version reads format {FORMAT}")
    return Applied(next_offset, last_version_id)


class Store:
    """The trees, the generations over them, and the transaction through which they are read."""

    def __init__(self, directory: Path, options: StoreOptions) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.options = options
        self.lock = threading.Lock()
        self.snapshots_closed = threading.Condition(self.lock)
        try:
            self.environment = lmdb.open(
                str(directory),
                map_size=options.map_bytes,
                max_dbs=SUBDATABASES_MAX,
                max_readers=READERS_MAX,
                max_spare_txns=4,
            )
            self._meta = self.environment.open_db(b"meta")
            self.trees = tuple(Tree(self.environment, TABLE_NAMES[table]) for table in Table)
            with self.environment.begin() as transaction:
                self.applied = read_applied(transaction, self._meta)
        except lmdb.Error as error:
            raise StoreDamaged(f"{directory}: LMDB cannot open it: {error}") from error
        self.file = MappedFile(directory, int(self.environment.stat()["psize"]))
        self.active = Generation()
        self.frozen: Generation | None = None
        self.frozen_applied = self.applied
        self.durable = self.applied
        """What the active generation reaches: the state that readers see."""
        self.open_snapshots = 0
        self.is_waiting_to_grow = False
        """The map is full, and snapshots keep it from growing."""
        self.keeps_previous = False
        """Whether writers log what records were before."""
        self._transaction: Transaction | None = self.environment.begin()
        self.view = self._make_view()

    def write_applied(self, transaction: Transaction, applied: Applied) -> None:
        """Puts the mark of how far LMDB has got into a write transaction."""
        data = _APPLIED.pack(FORMAT, applied.next_offset, applied.last_version_id)
        transaction.put(_APPLIED_KEY, data, db=self._meta)

    def _make_view(self) -> View:
        assert self._transaction is not None
        return View(self.trees, self._transaction, self.generations)

    @property
    def generations(self) -> list[Generation]:
        """What lies over the trees, the oldest first."""
        return [self.active] if self.frozen is None else [self.frozen, self.active]

    def record_lookup(self) -> Callable[[bytes], bytes | None]:
        """How a writer finds a record that no generation knows; good until the next renewal."""
        assert self._transaction is not None
        return partial(self.trees[Table.RECORDS].get, self._transaction)

    def view_with(self, staging: Generation) -> View:
        """What the writer of a round sees."""
        assert self._transaction is not None
        return View(self.trees, self._transaction, [*self.generations, staging])

    def publish(self, staging: Generation, durable: Applied) -> None:
        """Makes a round visible, after it is durable."""
        assert durable.next_offset >= self.durable.next_offset
        assert durable.last_version_id >= self.durable.last_version_id
        self.active.absorb(staging)
        self.durable = durable

    def freeze(self) -> Generation | None:
        """Hands the active generation to the feeder, if there is anything to feed."""
        if self.frozen is None and self.durable != self.applied:
            self.frozen, self.active = self.active, Generation()
            self.frozen_applied = self.durable
            self.view = self._make_view()
        return self.frozen

    def renew(self) -> None:
        """Lets readers see what LMDB has committed since, so that it can reuse the pages it gave up."""
        assert self._transaction is not None
        self._transaction.abort()
        self._transaction = self.environment.begin()
        self.view = self._make_view()

    def drop_frozen(self) -> None:
        """The frozen generation is in LMDB whole."""
        assert self.frozen is not None
        self.frozen = None
        self.applied = self.frozen_applied
        self.renew()

    def grow_map(self) -> int:
        """Doubles LMDB's address space; waits for open snapshots to end. Called with the lock held, by the feeder."""
        while self.open_snapshots:
            self.is_waiting_to_grow = True
            self.snapshots_closed.wait()
        self.is_waiting_to_grow = False
        assert self._transaction is not None
        self._transaction.abort()
        self._transaction = None
        size = 2 * int(self.environment.info()["map_size"])
        self.environment.set_mapsize(size)
        self._transaction = self.environment.begin()
        self.view = self._make_view()
        return size

    def snapshot(self) -> Snapshot:
        """A view that later writes do not reach. Called with the lock held; to be closed."""
        assert self.open_snapshots < READERS_MAX - 1, "the caller bounds the number of snapshots"
        snapshot = Snapshot(self)
        self.open_snapshots += 1
        return snapshot

    def size_bytes(self) -> int:
        """What the records and indexes take in LMDB, and the generations above at the most."""
        assert self._transaction is not None
        transaction = self._transaction
        trees = sum(tree.size_bytes(transaction) for tree in self.trees)
        return trees + sum(generation.size_bytes for generation in self.generations)

    def close(self) -> None:
        """Releases LMDB. Nothing may be under way."""
        if self._transaction is not None:
            self._transaction.abort()
            self._transaction = None
        self.environment.close()


class Snapshot:
    """A state of the store that stands still, in a transaction of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._transaction = store.environment.begin()
        frozen = [] if store.frozen is None else [store.frozen]
        self.view = View(store.trees, self._transaction, [*frozen, store.active.copy()])
        self.durable = store.durable

    @cached_property
    def _stored(self) -> Root | None:
        """Where LMDB holds records; None while keys of records are in several places."""
        tree = self._store.trees[Table.RECORDS]
        if not tree.is_plain(self._transaction):
            return None
        self._store.file.reach(int(self._store.environment.info()["last_pgno"]) + 1)
        return root_of(self._transaction, TABLE_NAMES[Table.RECORDS].encode())

    def stored_until(self, low: bytes, high: bytes) -> bytes:
        """How far into a range `leaves` has all records of the state."""
        return low if self._stored is None else self.view.unchanged_until(Table.RECORDS, low, high)

    def leaves(self, low: bytes, high: bytes) -> Iterator[Leaves]:
        """The records that LMDB holds of a range. They are read while they are asked for."""
        return iter(()) if self._stored is None else self._store.file.leaves(self._stored, low, high)

    def close(self) -> None:
        """Lets LMDB reuse what the snapshot held."""
        self._transaction.abort()
        with self._store.lock:
            self._store.open_snapshots -= 1
            self._store.snapshots_closed.notify_all()
