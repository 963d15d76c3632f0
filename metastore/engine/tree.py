"""An ordered map from byte keys of any length to values, on LMDB, whose own keys end at 511 bytes.

A tree has two sub-databases. Keys shorter than `HEAD` bytes, which is nearly all of them, are entries of
the short one, as they are. A longer key is cut into heads of `HEAD` bytes and a shorter (maybe empty) tail.
Its first head is an entry of the short sub-database, with a node id for a value; what continues such a head
is in the long sub-database under that id: the tail with the key's value, or again a head with a further
node's id, and so on.

    short:   head 1 -> id 1
    long:    id 1, head 2 -> id 2        id 2, tail -> value

An entry is a head if and only if it is `HEAD` bytes long (behind its id), so the lengths of the keys that
were read from the short sub-database show whether anything is missing between them; short keys pay no more
than that look. A head sorts among its neighbours as every key behind it does, so order is kept at each
level. A node goes with its last entry.

LMDB refuses the empty key; its value lives in the long sub-database under a name shorter than any id.

A tree holds no state of its own: everything happens in the transaction that is passed in. A write
transaction in which anything failed is to be aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice, takewhile
from typing import NamedTuple, TypeAlias

import lmdb

from metastore.engine import limits

HEAD = 500
ID_BYTES = 8

_EMPTY_KEY_NAME = b"\0"

# In quotes: lmdb's classes have parameters for a type checker only.
Transaction: TypeAlias = "lmdb.Transaction[bytes]"
Database: TypeAlias = "lmdb._Database"
Item: TypeAlias = tuple[bytes, bytes]
Stretch: TypeAlias = tuple[list[Item], bytes | None]
"""Items that follow each other, and where to go on: None if nothing can follow."""
Reader: TypeAlias = Callable[[Transaction, Database, bytes, bytes | None], Iterator[Item]]
"""Reads the entries [low, high) of a sub-database in one of the two directions."""


class _Level(NamedTuple):
    """A node that a walk is in the middle of."""

    entries: Iterator[Item]
    id_bytes: int
    low: bytes
    high: bytes | None


class Tree:
    """One ordered map of an environment, by name."""

    def __init__(self, environment: lmdb.Environment, name: str) -> None:
        assert environment.max_key_size() >= ID_BYTES + HEAD, "LMDB was built for shorter keys"
        self.short = environment.open_db(name.encode())
        self.long = environment.open_db(f"{name}/long".encode())

    def get(self, transaction: Transaction, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        if key and len(key) < HEAD:
            return transaction.get(key, None, self.short)
        if not key:
            return transaction.get(_EMPTY_KEY_NAME, None, self.long)
        database, node = self.short, b""
        *heads, tail = cut(key)
        for head in heads:
            child = transaction.get(node + head, None, database)
            if child is None:
                return None
            database, node = self.long, child
        return transaction.get(node + tail, None, database)

    def ascending(self, transaction: Transaction, start: bytes, stop: bytes | None, limit: int) -> Stretch:
        """Up to `limit` first items of [start, stop), in order; fewer if there are no more, or if they are large."""
        found = _stretch(_read_up(transaction, self.short, start[:HEAD], stop), limit)
        if self.is_plain(transaction) or (start and not _has_head(key for key, _ in found[0])):
            return found
        return _stretch(self._walk_up(transaction, start, stop), limit)

    def ascending_keys(
        self, transaction: Transaction, start: bytes, stop: bytes | None, limit: int
    ) -> tuple[list[bytes], bytes | None]:
        """The keys of `ascending`, and where to go on; without reading the values where keys are short."""
        cursor = transaction.cursor(self.short)
        keys = cursor.iternext(True, False) if cursor.set_range(start[:HEAD]) else iter(())
        page = list(islice(keys if stop is None else takewhile(stop.__gt__, keys), limit))
        if self.is_plain(transaction) or (start and not _has_head(page)):
            return page, page[-1] + b"\0" if len(page) == limit else None
        items, following = _stretch(self._walk_up(transaction, start, stop), limit)
        return [key for key, _ in items], following

    def ascending_values(
        self, transaction: Transaction, start: bytes, stop: bytes, limit: int
    ) -> tuple[list[bytes], bytes] | None:
        """The values of `ascending`, without their keys, and where to go on.

        None if nothing can follow, or if there are long keys: `ascending` has them.
        """
        if not self.is_plain(transaction):
            return None
        cursor = transaction.cursor(self.short)
        if not cursor.set_range(start[:HEAD]):
            return None
        values: list[bytes] = []
        size = 0
        for value in islice(cursor.iternext(False, True), limit):
            values.append(value)
            size += len(value)
            if size >= limits.SCAN_CHUNK_BYTES:
                break
        may_go_on = len(values) == limit or size >= limits.SCAN_CHUNK_BYTES
        last = cursor.key() if may_go_on else stop
        return (values, last + b"\0") if last < stop else None

    def descending(self, transaction: Transaction, start: bytes, stop: bytes | None, limit: int) -> list[Item]:
        """Up to `limit` last items of [start, stop), the last one first; fewer only if there are no more."""
        page = list(islice(_read_down(transaction, self.short, start[:HEAD], stop), limit))
        reaches_empty_key = not start and len(page) < limit
        if self.is_plain(transaction) or not (reaches_empty_key or _has_head(key for key, _ in page)):
            return page
        items = self._walk(transaction, _read_down, start, stop)
        return list(islice(chain(items, self._empty_key_item(transaction, start, stop)), limit))

    def put_all(self, transaction: Transaction, items: Sequence[Item]) -> None:
        """Sets keys to values. Fastest if the items are sorted by key."""
        cursor = transaction.cursor(self.short)
        lengths = {len(key) for key, _ in items}
        if 0 not in lengths and max(lengths, default=0) < HEAD:
            cursor.putmulti(items)
            return
        cursor.putmulti([item for item in items if 0 < len(item[0]) < HEAD])
        for key, value in items:
            if not 0 < len(key) < HEAD:
                self._put_unusual(transaction, key, value)

    def delete_all(self, transaction: Transaction, keys: Iterable[bytes]) -> None:
        """Removes keys; those that are not there do no harm. Fastest if the keys are sorted."""
        delete, short = transaction.delete, self.short
        for key in keys:
            if key and len(key) < HEAD:
                delete(key, b"", short)
            else:
                self._delete_unusual(transaction, key)

    def count(self, transaction: Transaction) -> int:
        """The number of keys; all those with a common head of `HEAD` bytes count as one."""
        return transaction.stat(self.short)["entries"]

    def size_bytes(self, transaction: Transaction) -> int:
        """The pages that the tree takes."""
        size = 0
        for database in (self.short, self.long):
            stat = transaction.stat(database)
            size += stat["psize"] * (stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"])
        return size

    def is_plain(self, transaction: Transaction) -> bool:
        """Whether there is nothing but the short sub-database, which most trees never go beyond."""
        return not transaction.cursor(self.long).last()

    def _walk_up(self, transaction: Transaction, start: bytes, stop: bytes | None) -> Iterator[Item]:
        items = self._walk(transaction, _read_up, start, stop)
        return chain(self._empty_key_item(transaction, start, stop), items)

    def _empty_key_item(self, transaction: Transaction, start: bytes, stop: bytes | None) -> tuple[Item, ...]:
        if start or stop == b"":
            return ()
        value = transaction.get(_EMPTY_KEY_NAME, None, self.long)
        return () if value is None else ((b"", value),)

    def _walk(self, transaction: Transaction, read: Reader, start: bytes, stop: bytes | None) -> Iterator[Item]:
        """All items of [start, stop) but the empty key's. Keys may be of any depth, so no recursion."""
        levels = [_Level(read(transaction, self.short, start[:HEAD], stop), 0, start, stop)]
        heads: list[bytes] = []
        while levels:
            entries, id_bytes, low, high = levels[-1]
            for name, value in entries:
                rest = name[id_bytes:]
                if len(rest) == HEAD:
                    heads.append(rest)
                    levels.append(self._enter(transaction, read, value, rest, low, high))
                    break
                yield b"".join((*heads, rest)), value
            else:
                levels.pop()
                del heads[-1:]

    def _enter(
        self, transaction: Transaction, read: Reader, node: bytes, head: bytes, low: bytes, high: bytes | None
    ) -> _Level:
        """The level of the node behind a head; low and high are the bounds of the level with the head."""
        assert len(node) == ID_BYTES, "the value of a head is a node id"
        low = low[HEAD:] if low.startswith(head) else b""
        high = high[HEAD:] if high is not None and high.startswith(head) else None
        end = _next_id(node) if high is None else node + high
        return _Level(read(transaction, self.long, node + low[:HEAD], end), ID_BYTES, low, high)

    def _put_unusual(self, transaction: Transaction, key: bytes, value: bytes) -> None:
        """Sets a long or the empty key."""
        if not key:
            transaction.put(_EMPTY_KEY_NAME, value, db=self.long)
            return
        database, node = self.short, b""
        *heads, tail = cut(key)
        for head in heads:
            child = transaction.get(node + head, None, database)
            if child is None:
                child = self._unused_id(transaction, node)
                transaction.put(node + head, child, db=database)
            database, node = self.long, child
        transaction.put(node + tail, value, db=database)

    def _unused_id(self, transaction: Transaction, parent: bytes) -> bytes:
        """Greater than every id that has entries, and than that of the parent, which may have none yet."""
        cursor = transaction.cursor(self.long)
        greatest = cursor.key()[:ID_BYTES] if cursor.last() else b""
        return _next_id(max(greatest, parent))

    def _delete_unusual(self, transaction: Transaction, key: bytes) -> None:
        """Removes a long or the empty key, and the nodes that it leaves empty."""
        if not key:
            transaction.delete(_EMPTY_KEY_NAME, b"", self.long)
            return
        database, node = self.short, b""
        path = []
        *heads, tail = cut(key)
        for head in heads:
            path.append((database, node + head))
            child = transaction.get(node + head, None, database)
            if child is None:
                return
            database, node = self.long, child
        transaction.delete(node + tail, b"", database)
        while path and self._is_empty(transaction, node):
            database, name = path.pop()
            transaction.delete(name, b"", database)
            node = name[:-HEAD]

    def _is_empty(self, transaction: Transaction, node: bytes) -> bool:
        cursor = transaction.cursor(self.long)
        return not (cursor.set_range(node) and cursor.key().startswith(node))


def cut(key: bytes) -> list[bytes]:
    """The heads of a key and its tail."""
    return [key[place : place + HEAD] for place in range(0, len(key) + 1, HEAD)]


def _has_head(keys: Iterable[bytes]) -> bool:
    return max(map(len, keys), default=0) >= HEAD


def _stretch(items: Iterator[Item], limit: int) -> Stretch:
    assert limit > 0, "whoever reads nothing cannot go on"
    taken: list[Item] = []
    size = 0
    for item in islice(items, limit):
        taken.append(item)
        size += len(item[0]) + len(item[1])
        if size >= limits.SCAN_CHUNK_BYTES:
            break
    may_go_on = len(taken) == limit or size >= limits.SCAN_CHUNK_BYTES
    return taken, taken[-1][0] + b"\0" if may_go_on else None


def _next_id(node: bytes) -> bytes:
    return (int.from_bytes(node, "big") + 1).to_bytes(ID_BYTES, "big")


def _read_up(transaction: Transaction, database: Database, low: bytes, high: bytes | None) -> Iterator[Item]:
    cursor = transaction.cursor(database)
    if not cursor.set_range(low):
        return iter(())
    items = cursor.iternext()
    # `(high,)` compares as an item whose key is `high` and that comes before all others of that key.
    return items if high is None else takewhile((high,).__gt__, items)


def _read_down(transaction: Transaction, database: Database, low: bytes, high: bytes | None) -> Iterator[Item]:
    cursor = transaction.cursor(database)
    if high is not None and cursor.set_range(high) and not cursor.prev():
        return iter(())
    # A cursor that found nothing from `high` on is nowhere, and begins at the end.
    return takewhile((low,).__le__, cursor.iterprev())
