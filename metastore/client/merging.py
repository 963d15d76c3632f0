"""The answers of several shards put into one order: the server's, which other clients do not keep."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from metastore.client.errors import InvalidRequest
from metastore.client.values import Comparison, Record
from metastore.client.wire import to_wire
from metastore.engine.index_keys import path_escape
from metastore.engine.keys import key_order

ItemT = TypeVar("ItemT")

DOWNWARD = {Comparison.FLOOR, Comparison.LOWER}
"""The comparisons that look for the nearest record below."""


class ServerOrder:
    """The order of keys in a namespace with this key sorting."""

    def __init__(self, key_sorting: str) -> None:
        try:
            self._encode = key_order(key_sorting).encode
        except ValueError as error:
            raise InvalidRequest(f"key sorting: {error}") from error

    def position(self, key: str) -> bytes:
        """Compares as the server compares the keys."""
        return self._encode(to_wire(key))

    def merged(
        self, shards: Sequence[Iterable[ItemT]], key_of: Callable[[ItemT], str], index: str | None
    ) -> Iterator[ItemT]:
        """All items of all shards, each of which is in order.

        By an index, a shard's items are ordered by their secondary keys, which the answers do not hold:
        there the shards can only follow one another.
        """
        if len(shards) == 1 or index is not None:
            return chain.from_iterable(shards)
        return heapq.merge(*shards, key=lambda item: self.position(key_of(item)))

    def nearest(self, found: Iterable[Record], asked: str, comparison: Comparison) -> Record | None:
        """The one of several shards' records that a single shard with all of them would have answered."""
        records = list(found)
        if not records:
            return None
        if comparison is Comparison.FLOOR:
            # Of several records with just the secondary key asked for, the first is the answer.
            exact = [record for record in records if record.secondary_key == asked]
            if exact:
                return min(exact, key=self._place)
        return (max if comparison in DOWNWARD else min)(records, key=self._place)

    def _place(self, record: Record) -> tuple[bytes, bytes]:
        """By key; by an index, by secondary key, and then as the server orders the records that share one."""
        if record.secondary_key is None:
            return self.position(record.key), b""
        return self.position(record.secondary_key), path_escape(to_wire(record.key))
