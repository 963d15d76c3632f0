"""A tree of znodes in memory, with ZooKeeper's rules for transactions, and a connection to it that tests can disturb.

The tests that need no server run on this; the same store is run on a real ZooKeeper by the tests marked `peers`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from metastore.clock import ManualClock
from metastore.interface import Environment, StoreClosed
from metastore.providers.zookeeper.batching import Cut, Read
from metastore.providers.zookeeper.connection import Conflict, Connection
from metastore.providers.zookeeper.layout import Layout
from metastore.providers.zookeeper.opening import new_store
from metastore.providers.zookeeper.operations import Kind, Operation, bytes_of
from metastore.providers.zookeeper.settings import Settings
from metastore.providers.zookeeper.store import ZookeeperStore
from metastore.providers.zookeeper.view import Missing, Node, View

ROOT = "/tidemark"
JUTE_MAX_BUFFER = 0xFFFFF

T = TypeVar("T")


@dataclass
class Tree:
    """What a ZooKeeper holds."""

    nodes: dict[str, tuple[bytes, int]] = field(default_factory=lambda: {"": (b"", 0)})
    """Data and version by path; the root is empty."""
    watches: list[tuple[Read, Callable[[object], None]]] = field(default_factory=list)
    commits: int = 0
    reads: int = 0
    sessions: int = 0
    after_commit: Callable[[], None] | None = None

    def children(self, path: str) -> list[str]:
        return [other.rpartition("/")[2] for other in self.nodes if other and other.rpartition("/")[0] == path]

    def node(self, path: str) -> Node | None:
        if path not in self.nodes:
            return None
        data, version = self.nodes[path]
        return Node(data, len(self.children(path)), version)

    def answer(self, read: Read) -> Any:
        self.reads += 1
        if read.watch is not None:
            self.watches.append((read, read.watch))
        if read.path not in self.nodes:
            return None
        return tuple(self.children(read.path)) if read.is_list else self.node(read.path)

    def apply(self, operations: Iterable[Operation]) -> None:
        """All or nothing; Conflict if ZooKeeper would refuse one of them."""
        operations = list(operations)
        assert bytes_of(operations) <= JUTE_MAX_BUFFER, "ZooKeeper would cut the connection"
        before = dict(self.nodes)
        touched: set[str] = set()
        try:
            for operation in operations:
                self._apply_one(operation)
                touched.add(operation.path)
        except Conflict:
            self.nodes = before
            raise
        self.commits += 1
        if self.after_commit is not None:
            self.after_commit()
        self._ring({path for path in touched if self.nodes.get(path) != before.get(path)}, before)

    def _apply_one(self, operation: Operation) -> None:
        path = operation.path
        if operation.kind in (Kind.CREATE, Kind.CREATE_EPHEMERAL):
            if path in self.nodes or path.rpartition("/")[0] not in self.nodes:
                raise Conflict(f"{path} cannot be created")
            self.nodes[path] = (operation.data, 0)
            return
        if path not in self.nodes:
            raise Conflict(f"{path} is not there")
        _, version = self.nodes[path]
        if operation.version not in (-1, version):
            raise Conflict(f"{path} is at version {version}")
        if operation.kind is Kind.SET:
            self.nodes[path] = (operation.data, version + 1)
        elif operation.kind is Kind.DELETE:
            if self.children(path):
                raise Conflict(f"{path} has children")
            del self.nodes[path]

    def _ring(self, changed: set[str], before: dict[str, tuple[bytes, int]]) -> None:
        parents = {path.rpartition("/")[0] for path in changed if (path in before) != (path in self.nodes)}
        ringing = [pair for pair in self.watches if pair[0].path in (parents if pair[0].is_list else changed)]
        self.watches = [pair for pair in self.watches if pair not in ringing]
        for _, ring in ringing:
            ring(None)


class TreeConnection(Connection):
    """A way to a tree, on which tests lay stones."""

    def __init__(self, tree: Tree, timeout_ms: int = 10_000) -> None:
        tree.sessions += 1
        self.tree = tree
        self.number = tree.sessions
        self.granted = timeout_ms
        self.ephemerals: set[str] = set()
        self.heartbeats = 0
        self.is_touching = False
        self.accidents: deque[str] = deque()
        """What becomes of the next commits: `lost` on the way there, or `unanswered`; then all is well again."""
        self.before_commit: Callable[[], None] | None = None
        """Called when a commit is on its way."""
        self.turns = 1
        """How many turns of the event loop a commit is on its way."""
        self.is_up = asyncio.Event()
        self.is_up.set()
        self.may_close = asyncio.Event()
        self.may_close.set()
        self.is_over = False

    @property
    def session_id(self) -> int | None:
        return self.number

    @property
    def granted_ms(self) -> int:
        return self.granted

    def start(self) -> None:
        """It is connected from the beginning."""

    def expire(self) -> None:
        """ZooKeeper has not heard of the session for too long."""
        gone = [Operation(Kind.DELETE, path) for path in self.ephemerals & set(self.tree.nodes)]
        self.ephemerals.clear()
        self.tree.apply(gone)

    async def until_connected(self) -> None:
        await self.is_up.wait()
        if self.is_over:
            raise StoreClosed("closed")

    async def read(self, reads: Sequence[Read]) -> list[Any]:
        await self.until_connected()
        answers = []
        for read in reads:
            await asyncio.sleep(0)
            answers.append(self.tree.answer(read))
        return answers

    async def commit(self, operations: Iterable[Operation]) -> None:
        if self.before_commit is not None:
            self.before_commit()
        for _ in range(self.turns):
            await asyncio.sleep(0)
        accident = self.accidents.popleft() if self.accidents else None
        if accident != "lost":
            operations = list(operations)
            self.tree.apply(operations)
            self.ephemerals |= {each.path for each in operations if each.kind is Kind.CREATE_EPHEMERAL}
        if accident is not None:
            raise Cut(accident)

    async def touch(self, path: str) -> None:
        self.is_touching = True
        await self.until_connected()
        self.is_touching = False
        if self.accidents:
            raise Cut(self.accidents.popleft())
        self.tree.apply([Operation(Kind.SET, path)])
        self.heartbeats += 1

    async def close(self) -> None:
        await self.may_close.wait()
        self.expire()
        await self.drop()

    async def drop(self) -> None:
        self.is_over = True
        self.is_up.set()


def evaluate(tree: Tree, function: Callable[[View], T]) -> T:
    """What a pure function says of a tree."""
    view = View()
    while True:
        try:
            return function(view)
        except Missing as missing:
            view.nodes.update({path: tree.node(path) for path in missing.nodes})
            view.lists.update({path: tuple(tree.children(path)) for path in missing.names})


def new_tree(key_sorting: str = "hierarchical") -> Tree:
    """A tree with an empty store."""
    tree = Tree()
    tree.apply([Operation(Kind.CREATE, ROOT)])
    tree.apply(new_store(Layout(ROOT), key_sorting))
    return tree


@asynccontextmanager
async def store_on(
    tree: Tree, key_sorting: str = "hierarchical", clock: ManualClock | None = None, patience_s: float = 30.0
) -> AsyncIterator[tuple[ZookeeperStore, TreeConnection]]:
    """A store on a tree, and its connection."""
    connection = TreeConnection(tree)
    settings = Settings(("nowhere:1",), ROOT, None, patience_s)
    environment = Environment(clock or ManualClock(), random=Random(1))
    async with ZookeeperStore(settings, key_sorting, "identity", connection, environment) as store:
        yield store, connection
