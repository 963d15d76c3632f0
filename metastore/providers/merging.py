"""The answers of several shards put into one order: the store's, which other clients do not keep."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from metastore.engine.index_keys import path_escape
from metastore.engine.keys import key_order
from metastore.interface.values import Comparison, Record

T = TypeVar("T")
Place = tuple[bytes, bytes]
"""Where something stands among others, so that it can be compared."""

DOWNWARD = {Comparison.FLOOR, Comparison.LOWER}
"""The comparisons that look for the nearest record below."""


class StoreOrder:
    """The order of keys in a store with this key sorting."""

    def __init__(self, key_sorting: str) -> None:
        self._encode = key_order(key_sorting).encode

    def position(self, key: str) -> bytes:
        """Compares as the store compares the keys."""
        return self._encode(_raw(key))

    def place_of_key(self, key: str) -> Place:
        """Where a key stands among keys."""
        return self._encode(_raw(key)), b""

    def place_in_index(self, secondary_key: str, key: str) -> Place:
        """Where a record stands in an index: by secondary key, then as the store orders those who share one."""
        return self._encode(_raw(secondary_key)), path_escape(_raw(key))

    def place_of_record(self, record: Record) -> Place:
        """By key; where an index led to it, in that index."""
        if record.secondary_key is None:
            return self.place_of_key(record.key)
        return self.place_in_index(record.secondary_key, record.key)

    def nearest(self, found: Iterable[Record], asked: str, comparison: Comparison) -> Record | None:
        """The one of several shards' records that a single shard with all of them would have answered."""
        records = list(found)
        if not records:
            return None
        if comparison is Comparison.FLOOR:
            # Of several records with just the secondary key asked for, the first is the answer.
            exact = [record for record in records if record.secondary_key == asked]
            if exact:
                return min(exact, key=self.place_of_record)
        return (max if comparison in DOWNWARD else min)(records, key=self.place_of_record)


class Merge(Generic[T]):
    """Sorted sequences that arrive in portions, put together as far as what is there allows.

    What may be handed out at any time is everything up to the least of the last places that have arrived: nothing
    that is still to come precedes it. So the sources are merged a portion at a time, by one sort, not item by item.
    """

    def __init__(self, sources: int, place: Callable[[T], Place]) -> None:
        self._place = place
        self._arrived: list[deque[tuple[Place, T]]] = [deque() for _ in range(sources)]
        self._is_ended = [False] * sources

    def feed(self, source: int, items: Sequence[T]) -> None:
        """The next portion of a source."""
        assert not self._is_ended[source]
        place = self._place
        self._arrived[source].extend([(place(item), item) for item in items])

    def end(self, source: int) -> None:
        """A source has no more."""
        self._is_ended[source] = True

    def wanted(self) -> list[int]:
        """The sources that must be fed (or ended) before anything more can be handed out."""
        return [source for source, arrived in enumerate(self._arrived) if not arrived and not self._is_ended[source]]

    def take(self) -> list[T]:
        """Everything that can be handed out now, in order; empty at the end."""
        assert not self.wanted()
        open_ends = [arrived[-1][0] for source, arrived in enumerate(self._arrived) if not self._is_ended[source]]
        limit = min(open_ends, default=None)
        taken: list[tuple[Place, T]] = []
        for arrived in self._arrived:
            if limit is None:
                taken += arrived
                arrived.clear()
            else:
                while arrived and arrived[0][0] <= limit:
                    taken.append(arrived.popleft())
        taken.sort(key=_first)
        return [item for _, item in taken]


def _first(pair: tuple[Place, object]) -> Place:
    return pair[0]


def _raw(key: str) -> bytes:
    """A key as stores have it. Those that are not UTF-8, which a real Oxia lets other clients make, are escaped."""
    return key.encode("utf-8", "surrogateescape")
