"""A shard of a directory that somebody else writes, as it was at a point.

LMDB holds the shard some way behind the log, and goes on while it is read. So a state is put together of both: what
LMDB held at `applied`, and the log from there to the point; and where LMDB has come beyond that meanwhile, what the log
says of the keys that were changed. Every effect in the log is absolute, so this costs one look at the log behind
`applied`, and nothing for records that nobody has changed.

What was overwritten behind the point can be known in these ways, tried in this order:
- the log between `applied` and the point says it;
- the process that pinned the point holds LMDB's state of then: its pages are still there, and are read;
- the first later change says that there was nothing, or what there was (while the log keeps previous records);
- LMDB does not have the later change yet.
In the rare other case the read fails with PointGone. With a point that is held (`pin`) there is no other case as long
as its holder lives: after each look at the pages it is asked whether they were still kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from metastore.engine.change import DELETED_FROM, PUT_INTO, Kind, Table, decode
from metastore.engine.index_keys import primary_of
from metastore.engine.overlay import Generation, View
from metastore.engine.pages import Pages, Root, root_of
from metastore.engine.record import modifications_of
from metastore.engine.store import TABLE_NAMES
from metastore.engine.tree import HEAD, cut
from metastore.log import LogPlace, LogTrimmed
from metastore.spark.errors import PointGone
from metastore.spark.records import Records, records_in, records_of
from metastore.spark.stores.files import TABLES, ShardFiles, State
from metastore.spark.stores.leaves import Elsewhere, Found, Leaves

BLOCK_BYTES = 8 << 20
"""A block ends about here, however many rows were asked for."""
MERGED_ROWS_MAX = 5_000
"""In one go, where some were changed: however few of them have room, all changes among so many are looked at."""


class _Later(NamedTuple):
    """What the log says of a key behind the point."""

    existed: bool
    before: bytes | None
    """What it was at the point, where the log keeps that."""
    puts: set[bytes]


class Past:
    """A shard at a state; to be closed. Errors are those of the data source."""

    def __init__(self, files: ShardFiles, state: State) -> None:
        self._files = files
        self._state = state
        self._transaction = files.environment.begin()
        applied = files.applied(self._transaction).next_offset
        start = state.applied if state.roots else min(applied, state.offset)
        end = files.log.end()
        self._generation = Generation()
        self._later: dict[int, dict[bytes, _Later]] = {int(table): {} for table in TABLES}
        try:
            self._read_log(start, end)
        except LogTrimmed as error:
            self._transaction.abort()
            raise PointGone(f"the log from offset {start} on is no longer kept ({error}): read anew") from None
        self._records = View(files.trees, self._transaction, [self._generation])

    def _read_log(self, offset: int, end: LogPlace) -> None:
        while offset < end.offset:
            for frame in self._files.log.read(offset, end):
                for number, payload in enumerate(frame.entries, frame.first_offset):
                    if number < self._state.offset:
                        self._apply(payload)
                    else:
                        self._note(payload)
                offset = frame.end_offset

    def _apply(self, payload: bytes) -> None:
        layers = self._generation.layers
        for kind, key, value in decode(payload).changes:
            if kind in PUT_INTO:
                layers[PUT_INTO[kind]].entries[key] = value
            elif kind in DELETED_FROM:
                layers[DELETED_FROM[kind]].entries[key] = None

    def _note(self, payload: bytes) -> None:
        """Takes note of what was changed behind the point: what there was, and what came instead."""
        for kind, key, value in decode(payload).changes:
            if kind == Kind.RECORD_BEFORE:
                self._later[Table.RECORDS].setdefault(key, _Later(True, value, set()))
            elif kind in (Kind.RECORD_EXISTED, Kind.RECORD_NEW):
                self._later[Table.RECORDS].setdefault(key, _Later(kind == Kind.RECORD_EXISTED, None, set()))
            elif kind in PUT_INTO and PUT_INTO[kind] in TABLES:
                table = PUT_INTO[kind]
                existed = table is Table.RECORDS and modifications_of(value) > 0
                self._later[table].setdefault(key, _Later(existed, None, set())).puts.add(value)
            elif kind in DELETED_FROM and DELETED_FROM[kind] in TABLES:
                self._later[DELETED_FROM[kind]].setdefault(key, _Later(True, None, set()))

    # -- reading

    def view(self, table: Table, low: bytes, high: bytes | None) -> View:
        """The shard at the state, as far as this range of the table goes."""
        layer = self._generation.layers[table].entries
        later = self._later[table]
        keys = [key for key in later if key not in layer and low <= key and (high is None or key < high)]
        layer.update(self._before(table, keys))
        return View(self._files.trees, self._transaction, [self._generation])

    def entries(self, low: bytes, high: bytes, count: int) -> Iterator[list[tuple[bytes, bytes]]]:
        """The entries of a range of an index, in order, so many at a time; each with its key and its record's."""
        view = self.view(Table.INDEXES, low, high)
        following: bytes | None = low
        while following is not None:
            items, following = view.ascending(Table.INDEXES, following, high, min(count, MERGED_ROWS_MAX))
            if items:
                yield items

    def found_entries(self, low: bytes, high: bytes, count: int) -> Iterator[Found | list[tuple[bytes, bytes]]]:
        """The same, as they are on LMDB's pages where nothing of the range was changed."""
        if not self._is_as_stored(Table.INDEXES, low, high):
            yield from self.entries(low, high, count)
            return
        for found in self._found(Table.INDEXES, low, high, count):
            if isinstance(found, Found):
                yield found
            else:
                yield from self.entries(found.low, found.high, count)

    def record(self, key: bytes) -> bytes:
        """The record that an index entry leads to, by its encoded key."""
        layer = self._generation.layers[Table.RECORDS].entries
        if key not in layer and key in self._later[Table.RECORDS]:
            layer.update(self._before(Table.RECORDS, [key]))
        record = self._records.record(key)
        assert record is not None, "an index entry has no record"
        return record

    def _before(self, table: Table, keys: list[bytes]) -> dict[bytes, bytes | None]:
        """What keys were at the point, which were changed since, and not between `applied` and the point."""
        if not keys:
            return {}
        if not self._state.roots:
            return {key: self._before_change(table, key) for key in keys}
        pages = self._files.pages()
        try:
            found = {key: _held(pages, self._state, table, key) for key in keys}
        except Exception as error:
            # Pages that LMDB has used again may look like anything.
            if self._files.holds(self._state):
                raise
            raise _holder_gone() from error
        if not self._files.holds(self._state):
            raise _holder_gone()
        return found

    def _before_change(self, table: Table, key: bytes) -> bytes | None:
        """The same of one key, if nobody holds the point."""
        later = self._later[table][key]
        if not later.existed or later.before is not None:
            return later.before
        if table is Table.INDEXES:
            return primary_of(key)
        present = self._files.trees[table].get(self._transaction, key)
        if present is None or present in later.puts:
            raise PointGone(
                "a record was overwritten since the read began, and what it was is no longer kept: hold the point with "
                "metastore.spark.pin(store) and give it as option `point`, or read through the service"
            )
        return present

    def records(self, low: bytes, high: bytes, count: int, shard: int) -> Iterator[Records]:
        """The records of a range, in order, about so many at a time."""
        table = Table.RECORDS
        if self._is_as_stored(table, low, high):
            yield from self._unchanged_records(table, low, high, count, shard)
            return
        view = self.view(table, low, high)
        following: bytes | None = low
        while following is not None:
            items, following = view.ascending(table, following, high, min(count, MERGED_ROWS_MAX))
            for part in parts(record for _, record in items):
                yield records_of(part, shard)

    def _is_as_stored(self, table: Table, low: bytes, high: bytes) -> bool:
        """Whether LMDB says of a range what was there at the state, each key in one piece."""
        changed = self._later[table].keys() | self._generation.layers[table].entries.keys()
        is_changed = any(low <= key < high for key in changed)
        return not is_changed and self._files.trees[table].is_plain(self._transaction)

    def _found(self, table: Table, low: bytes, high: bytes, count: int) -> Iterator[Found | Elsewhere]:
        """The fast way: no key is looked at, but at the ends."""
        root = root_of(self._transaction, TABLE_NAMES[table].encode())
        yield from Leaves(self._files.pages()).values(root, low, high, count)

    def _unchanged_records(self, table: Table, low: bytes, high: bytes, count: int, shard: int) -> Iterator[Records]:
        for found in self._found(table, low, high, count):
            if isinstance(found, Found):
                yield records_in(found.buffer, found.starts, shard)
            else:
                for block in self._plain_blocks(table, found.low, found.high, count):
                    yield records_of(block, shard)

    def _plain_blocks(self, table: Table, low: bytes, high: bytes, count: int) -> Iterator[list[bytes]]:
        """Value by value: no key is looked at but the last one of each block."""
        cursor = self._transaction.cursor(self._files.trees[table].short)
        if not cursor.set_range(low[:HEAD]):
            return
        values, start = cursor.iternext(keys=False, values=True), low
        while block := next(parts(islice(values, count)), None):
            last = cursor.key()
            if not last or last >= high:
                keys, _ = self._files.trees[table].ascending_keys(self._transaction, start, high, len(block))
                yield block[: len(keys)]
                return
            yield block
            start = last + b"\0"

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Around all that is read: PointGone if LMDB, which may not know of us, can have used its pages again."""
        try:
            yield
        except Exception as error:
            if self._files.is_kept(self._transaction):
                raise
            raise _used_again() from error
        self.check()

    def check(self) -> None:
        """PointGone if something that was read by now may be wrong."""
        if not self._files.is_kept(self._transaction):
            raise _used_again()

    def close(self) -> None:
        """Lets LMDB reuse what this has held."""
        self._transaction.abort()


def parts(records: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Records in lists, each of which ends with the one by which it comes to BLOCK_BYTES."""
    part: list[bytes] = []
    size = 0
    for record in records:
        part.append(record)
        size += len(record)
        if size >= BLOCK_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _holder_gone() -> PointGone:
    return PointGone(
        "whoever held the point has let it go, or has ended: its `metastore.spark.pin` must outlive all reads of it"
    )


def _used_again() -> PointGone:
    return PointGone(
        "the directory was written to while it was read, and is mounted read only here, so that LMDB cannot know of "
        "its readers: mount it writable, or read through the service"
    )


def _held(pages: Pages, state: State, table: Table, key: bytes) -> bytes | None:
    """What a key was in the state that its holder keeps."""
    place = 2 * TABLES.index(table)
    short, long = (Root(*root) for root in state.roots[place : place + 2])
    if not key:
        return pages.get(long, b"\0")
    root, node = short, b""
    *heads, tail = cut(key)
    for head in heads:
        child = pages.get(root, node + head)
        if child is None:
            return None
        root, node = long, child
    return pages.get(root, node + tail)
