"""What is known of the tree of znodes, and how pure functions ask for more of it.

A function that decides something looks at a view as if all of it were there. Where it is not, `Missing` says what has
to be read; whoever called the function reads that, and calls it again. So all decisions are functions of the tree,
without any waiting in the middle, and whoever runs them decides how reads are put together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple


class Node(NamedTuple):
    """A znode as it was read."""

    data: bytes
    children: int = 0
    """How many it has."""
    version: int = 0
    """ZooKeeper's own count of its changes."""


class Missing(Exception):
    """The view does not have this; read it, and try again."""

    def __init__(self, nodes: Iterable[str] = (), names: Iterable[str] = ()) -> None:
        super().__init__("more of the tree is needed")
        self.nodes = list(nodes)
        """Paths whose data is needed, or to know that there is nothing."""
        self.names = list(names)
        """Paths whose children's names are needed."""


class Inconsistent(Exception):
    """What was read does not fit together: it is of several moments, or the tree is damaged."""


@dataclass(slots=True)
class View:
    """A part of the tree."""

    nodes: dict[str, Node | None] = field(default_factory=dict)
    """By their paths; None where there is no znode."""
    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the children, by the paths of their parents."""

    def need(self, nodes: Iterable[str] = (), names: Iterable[str] = ()) -> None:
        """Asks for all of this at once, if any of it is not there."""
        unknown = [path for path in nodes if path not in self.nodes]
        unlisted = [path for path in names if path not in self.lists]
        if unknown or unlisted:
            raise Missing(unknown, unlisted)

    def node(self, path: str) -> Node | None:
        """The znode at a path; None if there is none."""
        self.need([path])
        return self.nodes[path]

    def names(self, path: str) -> tuple[str, ...]:
        """The names of the children of a znode; empty if there is no such znode."""
        self.need(names=[path])
        return self.lists[path]
