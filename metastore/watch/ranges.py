"""Many ranges of byte keys, and the question which of them hold a key.

A treap: a search tree by (start, end), kept flat by random priorities, in which every node knows the highest end
below it. A key is looked for among the ranges that start at or before it; a subtree whose highest end is not beyond
the key has none of them, and is passed over. So asking costs a logarithm, and another for each range that is found,
however many there are and however they overlap. Equal ranges share a node.
"""

from __future__ import annotations

from random import Random
from typing import Generic, TypeVar

Member = TypeVar("Member")

_PRIORITY_BITS = 62


class _Node(Generic[Member]):
    __slots__ = ("end", "highest", "left", "members", "priority", "right", "start")

    def __init__(self, start: bytes, end: bytes, priority: int) -> None:
        self.start = start
        self.end = end
        self.priority = priority
        self.members: dict[Member, None] = {}
        self.left: _Node[Member] | None = None
        self.right: _Node[Member] | None = None
        self.highest = end

    def update(self) -> None:
        """Knows the highest end anew, after one below has changed."""
        highest = self.end
        if self.left is not None and self.left.highest > highest:
            highest = self.left.highest
        if self.right is not None and self.right.highest > highest:
            highest = self.right.highest
        self.highest = highest


class RangeIndex(Generic[Member]):
    """Members by their ranges [start, end); an empty range holds no key, and its member is not kept."""

    def __init__(self) -> None:
        self._root: _Node[Member] | None = None
        self._random = Random(0)
        """For the shape alone: what is in the tree does not depend on it."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, start: bytes, end: bytes, member: Member) -> None:
        """Each member once for a range."""
        if start >= end:
            return
        node = self._find(start, end)
        if node is None:
            node = _Node(start, end, self._random.getrandbits(_PRIORITY_BITS))
            self._root = _insert(self._root, node)
        assert member not in node.members, "the member is there already"
        node.members[member] = None
        self._count += 1

    def remove(self, start: bytes, end: bytes, member: Member) -> None:
        """Undoes `add`."""
        if start >= end:
            return
        node = self._find(start, end)
        assert node is not None, "there is no such range"
        del node.members[member]
        self._count -= 1
        if not node.members:
            self._root = _remove(self._root, node)

    def at(self, key: bytes) -> list[Member]:
        """The members whose ranges hold the key."""
        found: list[Member] = []
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            if node is None or node.highest <= key:
                continue
            waiting.append(node.left)
            if node.start <= key:
                waiting.append(node.right)
                if key < node.end:
                    found += node.members
        return found

    def _find(self, start: bytes, end: bytes) -> _Node[Member] | None:
        wanted, node = (start, end), self._root
        while node is not None and (node.start, node.end) != wanted:
            node = node.left if wanted < (node.start, node.end) else node.right
        return node


def _insert(node: _Node[Member] | None, new: _Node[Member]) -> _Node[Member]:
    """The subtree with the new node in it."""
    if node is None:
        return new
    if new.priority > node.priority:
        new.left, new.right = _split(node, (new.start, new.end))
        new.update()
        return new
    if (new.start, new.end) < (node.start, node.end):
        node.left = _insert(node.left, new)
    else:
        node.right = _insert(node.right, new)
    node.update()
    return node


def _split(node: _Node[Member] | None, place: tuple[bytes, bytes]) -> tuple[_Node[Member] | None, _Node[Member] | None]:
    """The parts of a subtree below and above a place."""
    if node is None:
        return None, None
    if place < (node.start, node.end):
        below, node.left = _split(node.left, place)
        node.update()
        return below, node
    node.right, above = _split(node.right, place)
    node.update()
    return node, above


def _remove(node: _Node[Member] | None, gone: _Node[Member]) -> _Node[Member] | None:
    """The subtree without one of its nodes."""
    assert node is not None, "there is no such node"
    if node is gone:
        return _join(node.left, node.right)
    if (gone.start, gone.end) < (node.start, node.end):
        node.left = _remove(node.left, gone)
    else:
        node.right = _remove(node.right, gone)
    node.update()
    return node


def _join(below: _Node[Member] | None, above: _Node[Member] | None) -> _Node[Member] | None:
    """One subtree of two, all of the one before all of the other."""
    if below is None or above is None:
        return above if below is None else below
    if below.priority > above.priority:
        below.right = _join(below.right, above)
        below.update()
        return below
    above.left = _join(below, above.left)
    above.update()
    return above
