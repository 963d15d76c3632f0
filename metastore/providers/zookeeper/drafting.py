"""Plans made into one transaction of ZooKeeper's: as many attempts at reading as it takes, then what is to be sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import uuid4

from metastore.clock import Clock
from metastore.engine.keys import KeyOrder
from metastore.interface import StoreError, StoreFailed
from metastore.providers.zookeeper.connection import Conflict, Connection
from metastore.providers.zookeeper.head import Head
from metastore.providers.zookeeper.layout import Layout
from metastore.providers.zookeeper.operations import Operation, bytes_of
from metastore.providers.zookeeper.plans import Plan
from metastore.providers.zookeeper.stage import Stage
from metastore.providers.zookeeper.view import Inconsistent, Missing, Node, View
from metastore.providers.zookeeper.write import Write, trim


@dataclass(frozen=True, slots=True)
class Draft:
    """What some plans come to, at one head."""

    writer: str
    """Signs the entries of the log, so that they can be told from those of another draft."""
    head: Head
    """The head that it is good for."""
    head_version: int
    outcomes: tuple[Any, ...]
    """Of each plan its result, or the StoreError that it raised. Plans behind the announcement of a sweep have none:
    they must not see what it removes, and have to wait."""
    operations: tuple[Operation, ...]
    """Empty if nothing is to be changed."""
    size_bytes: int
    """Of what the plans ask for; what trims the log comes on top of it."""
    asking: int
    """How many writers ask for room."""

    @property
    def first_entry(self) -> int:
        return self.head.next


class Drafter:
    """Reads what plans ask for until they are content."""

    def __init__(self, connection: Connection, layout: Layout, order: KeyOrder, clock: Clock) -> None:
        self._connection = connection
        self._layout = layout
        self._order = order
        self._clock = clock
        self.identity = uuid4().hex
        """Of the one who writes; no two have the same."""
        self._drafts = 0

    async def draft(self, plans: Sequence[Plan[Any]]) -> Draft:
        """Carries out the plans on a stage, each upon the one before. Conflict if somebody wrote meanwhile.

        Not all of those who write meanwhile are noticed here: the commit notices them.
        """
        self._drafts += 1
        writer = f"{self.identity}-{self._drafts}"
        known = View()
        while True:
            stage = Stage(known, self._layout.tables)
            try:
                outcomes = self._attempt(stage, plans, writer)
                size_bytes = bytes_of(self._operations(stage))
                if not stage.is_unchanged:
                    trim(stage, self._layout)
                break
            except Missing as error:
                missing = error
            except Inconsistent as error:
                await self._blame(known.nodes[self._layout.head], error)
            nodes = dict.fromkeys(missing.nodes)
            if self._layout.head not in known.nodes:
                # Nothing may be older than the head that the commit will compare.
                nodes = {self._layout.head: None, self._layout.askers: None, **nodes}
            await self._connection.learn(known, list(nodes), list(dict.fromkeys(missing.names)))
        head = known.nodes[self._layout.head]
        assert head is not None, "a store has a head"
        askers = known.nodes[self._layout.askers]
        return Draft(
            writer=writer,
            head=Head.decode(head.data),
            head_version=head.version,
            outcomes=tuple(outcomes),
            operations=self._operations(stage),
            size_bytes=size_bytes,
            asking=0 if askers is None else askers.children,
        )

    def _operations(self, stage: Stage) -> tuple[Operation, ...]:
        return () if stage.is_unchanged else tuple(stage.operations(self._layout.head))

    def _attempt(self, stage: Stage, plans: Sequence[Plan[Any]], writer: str) -> list[Any]:
        """The outcomes of the plans; raises Missing for all that want something."""
        outcomes: list[Any] = []
        missing = Missing()
        time_ms = self._clock.wall_ms()
        for plan in plans:
            mark = stage.mark()
            write = Write(stage, self._layout, self._order, writer, time_ms)
            try:
                outcome = plan(write)
                write.finish()
                outcomes.append(outcome)
                if write.head.sweep is not None:
                    break
            except Missing as more:
                stage.undo(mark)
                missing.nodes += more.nodes
                missing.names += more.names
            except StoreError as error:
                stage.undo(mark)
                outcomes.append(error)
        if missing.nodes or missing.names:
            raise missing
        return outcomes

    async def is_current(self, draft: Draft) -> bool:
        """Whether the head is still the one that the draft is good for."""
        return await self._head_version() == draft.head_version

    async def _blame(self, head: Node | None, error: Inconsistent) -> NoReturn:
        """Finds out why what was read does not fit together."""
        if head is None or await self._head_version() != head.version:
            raise Conflict("somebody wrote between two reads") from error
        raise StoreFailed(f"the znodes of the store are damaged: {error}") from error

    async def _head_version(self) -> int:
        node = await self._connection.node(self._layout.head)
        assert node is not None, "a store has a head"
        return node.version
