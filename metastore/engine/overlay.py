"""What is newer than LMDB: layers of changes in memory, and the merged view of layers and trees.

A `Layer` maps keys to values, or to None where a key was deleted, and can be read in order. A `Generation` is one
layer per table. A `View` stacks generations on the trees and reads as if it were all one ordered map.

The order of a layer is kept lazily: most workloads read by key, and sorting at every put would cost them more than
the put itself. A layer's dict never forgets a key (a deleted one becomes None), so the keys that are not sorted yet
are exactly the youngest of its insertion order. A layer that no longer changes may be read by several threads, each of
which may be the first to want its order: one sorts it, and the others wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from itertools import islice

from sortedcontainers import SortedList

from metastore.engine import limits
from metastore.engine.change import Table
from metastore.engine.tree import Item, Stretch, Transaction, Tree

DELETED_STEP_MAX = 32
"""Items that are looked at together, beyond those asked for, on the way through what was deleted."""

Read = Callable[[Transaction, bytes, "bytes | None", int], Stretch]


class Layer:
    """Changes of one table: key -> value, or None for deleted."""

    __slots__ = ("_sorted", "_sorting", "entries")

    def __init__(self, entries: dict[bytes, bytes | None] | None = None) -> None:
        self.entries: dict[bytes, bytes | None] = {} if entries is None else entries
        self._sorted: SortedList[bytes] = SortedList()
        self._sorting = threading.Lock()

    def keys(self, start: bytes, stop: bytes | None, limit: int, reverse: bool) -> list[bytes]:
        """Up to `limit` keys of [start, stop) in order, from the low or the high end."""
        with self._sorting:
            missing = len(self.entries) - len(self._sorted)
            if missing:
                self._sorted.update(islice(reversed(self.entries), missing))
                assert len(self._sorted) == len(self.entries), "a layer lost a key"
        if not self._sorted:
            return []
        return list(islice(self._sorted.irange(start, stop, (True, False), reverse), limit))

    def copy(self) -> Layer:
        """A layer that later changes of this one do not reach."""
        twin = Layer(self.entries.copy())
        twin._sorted = self._sorted.copy()
        return twin


class Generation:
    """One layer per table: the changes of some stretch of the log."""

    __slots__ = ("layers", "size_bytes")

    def __init__(self, layers: tuple[Layer, ...] | None = None) -> None:
        self.layers = layers or tuple(Layer() for _ in Table)
        self.size_bytes = 0
        """How many bytes of log made this generation: an upper bound of what it holds."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was changed."""
        return not any(layer.entries for layer in self.layers)

    @property
    def entry_count(self) -> int:
        """The changed keys of all tables."""
        return sum(len(layer.entries) for layer in self.layers)

    def absorb(self, younger: Generation) -> None:
        """Takes over the changes of a younger generation."""
        for mine, theirs in zip(self.layers, younger.layers, strict=True):
            if theirs.entries:
                mine.entries.update(theirs.entries)
        self.size_bytes += younger.size_bytes

    def copy(self) -> Generation:
        """A generation that later changes of this one do not reach."""
        twin = Generation(tuple(layer.copy() for layer in self.layers))
        twin.size_bytes = self.size_bytes
        return twin


class View:
    """Generations (the oldest first) over the trees as one transaction sees them."""

    __slots__ = ("_generations", "_records", "_transaction", "_trees")

    def __init__(self, trees: Sequence[Tree], transaction: Transaction, generations: Sequence[Generation]) -> None:
        self._trees = trees
        self._transaction = transaction
        self._generations = generations
        self._records = [each.layers[Table.RECORDS].entries for each in reversed(generations)]

    def record(self, key: bytes) -> bytes | None:
        """The record of an encoded key, or None: what `get` says, in less time."""
        for entries in self._records:
            if key in entries:
                return entries[key]
        return self._trees[Table.RECORDS].get(self._transaction, key)

    def records(self, keys: list[bytes]) -> list[bytes | None]:
        """What `record` says of many keys, in less time; of fewer if the records are large, of one in any case."""
        layers = [entries for entries in self._records if entries]
        read, transaction = self._trees[Table.RECORDS].get, self._transaction
        found: list[bytes | None] = []
        size = 0
        for key in keys:
            for entries in layers:
                if key in entries:
                    record = entries[key]
                    break
            else:
                record = read(transaction, key)
            found.append(record)
            if record is not None:
                size += len(record)
                if size >= limits.SCAN_CHUNK_BYTES:
                    break
        return found

    def get(self, table: Table, key: bytes) -> bytes | None:
        """The value of a key, or None."""
        for generation in reversed(self._generations):
            entries = generation.layers[table].entries
            if key in entries:
                return entries[key]
        return self._trees[table].get(self._transaction, key)

    def ascending(self, table: Table, start: bytes, stop: bytes | None, limit: int) -> Stretch:
        """Up to `limit` first items of [start, stop), and where to go on; fewer if there are no more, or if they are
        large."""
        read = self._trees[table].ascending
        if not self._changed(table, start, stop, 1, reverse=False):
            return read(self._transaction, start, stop, limit)
        return self._ascend(read, table, start, stop, limit)

    def values(self, table: Table, start: bytes, stop: bytes, limit: int) -> tuple[list[bytes], bytes | None]:
        """The values of `ascending`, and where to go on; in less time where nothing is changed."""
        if not self._changed(table, start, stop, 1, reverse=False):
            found = self._trees[table].ascending_values(self._transaction, start, stop, limit)
            if found is not None:
                return found
        items, following = self.ascending(table, start, stop, limit)
        return [value for _, value in items], following

    def _ascend(self, read: Read, table: Table, start: bytes, stop: bytes | None, limit: int) -> Stretch:
        found: list[Item] = []
        step = 0
        while True:
            wanted = max(limit - len(found), step)
            step = min(2 * wanted, DELETED_STEP_MAX)
            base, following = read(self._transaction, start, stop, wanted)
            changed = self._changed(table, start, stop, wanted, reverse=False)
            full = [keys[-1] for _, keys in changed if len(keys) == wanted]
            if following is not None:
                full.append(base[-1][0])
            bound = min(full, default=None)
            found += (item for item in _merge(base, changed) if bound is None or item[0] <= bound)
            if bound is None:
                return _first(found, None, limit)
            start = bound + b"\0"
            is_large = following is not None and len(base) < wanted
            if len(found) >= limit or (is_large and found):
                return _first(found, start, limit)

    def descending(self, table: Table, start: bytes, stop: bytes | None, limit: int) -> list[Item]:
        """Up to `limit` last items of [start, stop), the last one first."""
        found: list[Item] = []
        step = 0
        while True:
            wanted = max(limit - len(found), step)
            step = min(2 * wanted, DELETED_STEP_MAX)
            base = self._trees[table].descending(self._transaction, start, stop, wanted)
            changed = self._changed(table, start, stop, wanted, reverse=True)
            if not changed:
                return (found + base)[:limit]
            full = [keys[-1] for _, keys in changed if len(keys) == wanted]
            if len(base) == wanted:
                full.append(base[-1][0])
            bound = max(full, default=None)
            merged = _merge(base, changed)
            merged.reverse()
            found += (item for item in merged if bound is None or item[0] >= bound)
            if bound is None or len(found) >= limit:
                return found[:limit]
            stop = bound

    def keys(self, table: Table, start: bytes, stop: bytes | None, limit: int) -> tuple[list[bytes], bytes | None]:
        """The keys of `ascending`, and where to go on; in less time."""
        tree = self._trees[table]
        if not self._changed(table, start, stop, 1, reverse=False):
            return tree.ascending_keys(self._transaction, start, stop, limit)

        def read(transaction: Transaction, start: bytes, stop: bytes | None, limit: int) -> Stretch:
            keys, following = tree.ascending_keys(transaction, start, stop, limit)
            return [(key, b"") for key in keys], following

        items, following = self._ascend(read, table, start, stop, limit)
        return [key for key, _ in items], following

    def unchanged_until(self, table: Table, start: bytes, stop: bytes) -> bytes:
        """The first key of [start, stop) of which the trees do not know all; `stop` if there is none."""
        return min((keys[0] for _, keys in self._changed(table, start, stop, 1, reverse=False)), default=stop)

    def _changed(
        self, table: Table, start: bytes, stop: bytes | None, limit: int, reverse: bool
    ) -> list[tuple[Layer, list[bytes]]]:
        """The layers that changed anything in the range, the oldest first, with those keys."""
        pairs = []
        for generation in self._generations:
            layer = generation.layers[table]
            if layer.entries:
                keys = layer.keys(start, stop, limit, reverse)
                if keys:
                    pairs.append((layer, keys))
        return pairs


def _first(items: list[Item], following: bytes | None, limit: int) -> Stretch:
    """Those that may be read in one go, and where to go on."""
    size = 0
    for count, (key, value) in enumerate(items, 1):
        size += len(key) + len(value)
        if (size >= limits.SCAN_CHUNK_BYTES or count == limit) and count < len(items):
            return items[:count], key + b"\0"
    return items, following


def _merge(base: list[Item], changed: list[tuple[Layer, list[bytes]]]) -> list[Item]:
    """The live items in ascending order; younger layers win."""
    merged: dict[bytes, bytes | None] = dict(base)
    for layer, keys in changed:
        entries = layer.entries
        for key in keys:
            merged[key] = entries[key]
    return [(key, value) for key, value in sorted(merged.items()) if value is not None]
