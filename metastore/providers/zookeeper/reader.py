"""Reads that take more than one look at the tree, and yet see one state of it.

ZooKeeper has no such reads. But the change log holds what each write replaced. So a snapshot notes the head, reads
what it wants in its own time, and then takes back whatever the log says was written behind that head.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from metastore.engine.keys import KeyOrder
from metastore.interface import TokenExpired, Unavailable
from metastore.providers.zookeeper.changes import LogEntry
from metastore.providers.zookeeper.connection import Connection
from metastore.providers.zookeeper.head import Head
from metastore.providers.zookeeper.layout import Identity, Layout
from metastore.providers.zookeeper.listing import rows_of
from metastore.providers.zookeeper.records import Stored
from metastore.providers.zookeeper.selection import Row, Selection, select
from metastore.providers.zookeeper.tail import Tail
from metastore.providers.zookeeper.view import Missing, View

T = TypeVar("T")


class Reader:
    """Reads one store."""

    def __init__(
        self,
        connection: Connection,
        layout: Layout,
        order: KeyOrder,
        tail: Tail,
        finish_sweep: Callable[[], Awaitable[None]],
    ) -> None:
        self.connection = connection
        self.layout = layout
        self.order = order
        self.tail = tail
        self._finish_sweep = finish_sweep

    async def find(self, identity: Identity) -> Stored | None:
        """One record."""
        head_node, node = await self.connection.nodes([self.layout.head, self.layout.record(identity).path])
        assert head_node is not None, "a store has a head"
        if node is None or self._is_swept(identity, Head.decode(head_node.data)):
            return None
        return Stored.decode(node.data)

    def _is_swept(self, identity: Identity, head: Head) -> bool:
        sweep = head.sweep
        if sweep is None:
            return False
        return select(self.order, sweep.range, None, sweep.partition_key).row_of_key(identity) is not None

    async def snapshot(self, selection: Selection) -> Snapshot:
        """One state of a selection, as it is now."""
        while True:
            head = await self.tail.head()
            if head.sweep is None:
                return Snapshot(self, selection, head.next)
            await self._finish_sweep()

    async def evaluate(self, function: Callable[[View], T]) -> T:
        """What a pure function says of the tree. It may see different parts of it at different times."""
        view = View()
        while True:
            try:
                return function(view)
            except Missing as missing:
                await self.connection.learn(view, missing.nodes, missing.names)


class Snapshot:
    """A selection at one point of the log. The log must reach back to there for as long as the snapshot is read."""

    def __init__(self, reader: Reader, selection: Selection, position: int) -> None:
        self.position = position
        """The number of the first write that is not in it."""
        self._reader = reader
        self._selection = selection
        self._read_up_to = position
        self._replaced: dict[Identity, Stored | None] = {}
        """What was written since, as it was at the snapshot's time; only what the selection has, or had."""

    async def rows(self) -> list[Row]:
        """All rows, in order."""
        layout, selection = self._reader.layout, self._selection
        found = await self._reader.evaluate(lambda view: rows_of(view, layout, selection))
        await self._catch_up()
        rows = [row for row in found if row.identity not in self._replaced]
        for stored in self._replaced.values():
            rows += selection.rows_of(None if stored is None else stored.header)
        return sorted(rows, key=Row.rank)

    async def records(self, rows: Sequence[Row]) -> list[Stored]:
        """The records of some of the rows."""
        paths = [self._reader.layout.record(row.identity).path for row in rows]
        nodes = await self._reader.connection.nodes(paths)
        await self._catch_up()
        found = []
        for row, node in zip(rows, nodes, strict=True):
            if row.identity in self._replaced:
                stored = self._replaced[row.identity]
            else:
                stored = None if node is None else Stored.decode(node.data)
            assert stored is not None, f"{row.identity} was in the snapshot, and nothing is known to have removed it"
            found.append(stored)
        return found

    async def _catch_up(self) -> None:
        """Learns what was written since, so that it can be taken back."""
        head = await self._reader.tail.head()
        try:
            self._take_back(await self._reader.tail.entries(self._read_up_to, head.next))
        except TokenExpired:
            raise Unavailable(
                f"a read saw {head.next - self.position} writes go by, more than the change log keeps: begin it again"
            ) from None
        self._read_up_to = head.next

    def _take_back(self, entries: Iterable[LogEntry]) -> None:
        for entry in entries:
            for effect in entry.effects:
                before = None if effect.before is None else effect.before.header
                if self._selection.rows_of(before) or self._selection.rows_of(effect.after):
                    self._replaced.setdefault(effect.identity, effect.before)
