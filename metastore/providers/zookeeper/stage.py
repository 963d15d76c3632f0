"""Changes to the tree that are not made yet: seen by what is planned on them, and then committed all together."""

from __future__ import annotations

from collections.abc import Iterable

from metastore.providers.zookeeper.layout import Spot
from metastore.providers.zookeeper.operations import Kind, Operation
from metastore.providers.zookeeper.view import Inconsistent, Node, View

Mark = tuple[dict[str, "Node | None"], frozenset[str]]


class Stage(View):
    """A view with changes laid over it."""

    def __init__(self, known: View, tables: Iterable[str]) -> None:
        super().__init__(known.nodes, known.lists)
        self._tables = frozenset(tables)
        self._changed: dict[str, Node | None] = {}
        self._checked: frozenset[str] = frozenset()

    # -- looking

    def node(self, path: str) -> Node | None:
        if path in self._changed:
            return self._changed[path]
        return super().node(path)

    def names(self, path: str) -> tuple[str, ...]:
        changes = {
            changed.removeprefix(path + "/"): node
            for changed, node in self._changed.items()
            if _parent(changed) == path
        }
        kept = [name for name in super().names(path) if name not in changes]
        return (*kept, *[name for name, node in changes.items() if node is not None])

    @property
    def is_unchanged(self) -> bool:
        return not self._changed

    # -- changing

    def put(self, spot: Spot, data: bytes) -> None:
        """Creates a znode, or sets its data; the directories above it are made where they lack."""
        for directory in spot.directories:
            if self.node(directory.path) is None:
                self._create(directory.path, directory.meaning)
        existing = self.node(spot.path)
        if existing is None:
            self._create(spot.path, data)
        else:
            self._changed[spot.path] = existing._replace(data=data)

    def create(self, path: str, data: bytes) -> None:
        """Creates a znode of which something else says that it is not there."""
        if self.nodes.setdefault(path, None) is not None:
            raise Inconsistent(f"{path} should not be there")
        self._create(path, data)

    def remove(self, path: str) -> None:
        """Removes a znode, and the directories above it that it leaves empty."""
        node = self.node(path)
        if node is None or node.children > 0:
            raise Inconsistent(f"{path} should be there, without children")
        self._changed[path] = None
        parent = _parent(path)
        if parent in self._tables:
            return
        above = self.node(parent)
        if above is None or above.children < 1:
            raise Inconsistent(f"{parent} should be there, with a child")
        self._changed[parent] = above._replace(children=above.children - 1)
        if above.children == 1:
            self.remove(parent)

    def check(self, path: str) -> None:
        """Commits only if this znode still exists; for those that go by themselves."""
        self._checked |= {path}

    def _create(self, path: str, data: bytes) -> None:
        parent = _parent(path)
        if parent not in self._tables:
            above = self.node(parent)
            if above is None:
                raise Inconsistent(f"{parent} should be there")
            self._changed[parent] = above._replace(children=above.children + 1)
        self._changed[path] = Node(data)

    # -- trying

    def mark(self) -> Mark:
        """The changes so far, to go back to."""
        return dict(self._changed), self._checked

    def undo(self, mark: Mark) -> None:
        """Goes back to a mark, which is used up by this."""
        self._changed, self._checked = mark

    # -- committing

    def operations(self, head: str) -> list[Operation]:
        """What makes the changes, in an order that ZooKeeper accepts, if the head is still at its known version."""
        head_known = self.nodes[head]
        assert head_known is not None
        first = Operation(Kind.CHECK, head, version=head_known.version)
        checks = [Operation(Kind.CHECK, path) for path in sorted(self._checked)]
        creations, settings, deletions = [], [], []
        for path, node in self._changed.items():
            was = self.nodes[path]
            if node is None:
                if was is not None:
                    deletions.append(Operation(Kind.DELETE, path))
            elif was is None:
                creations.append(Operation(Kind.CREATE, path, node.data))
            elif path == head:
                first = Operation(Kind.SET, head, node.data, was.version)
            elif node.data != was.data:
                settings.append(Operation(Kind.SET, path, node.data))
        creations.sort(key=_depth)
        deletions.sort(key=_depth, reverse=True)
        return [first, *checks, *creations, *settings, *deletions]


def _parent(path: str) -> str:
    return path[: path.rfind("/")]


def _depth(operation: Operation) -> int:
    return operation.path.count("/")
