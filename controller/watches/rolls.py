"""The topics of a namespace that have certain properties: the set as it was told last, and how it changed last.

A roll is shared by all sessions that ask for the same properties. It numbers what it tells: a session is a number, and
finds what comes behind it, as long as that is kept. There is no I/O here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller.watches.lives import is_same_life
from controller.watches.names import hash_of, in_order, paged
from metastore.interface import Version
from txn.segment.bell import Bell

DIFFS_KEPT_MAX = 64
"""Of one roll: who is further behind is given the whole set again."""


@dataclass(frozen=True, slots=True)
class SnapshotPage:
    """A part of the whole set. With the first one all that was told before is forgotten."""

    topics: tuple[str, ...]
    is_first: bool
    is_last: bool


@dataclass(frozen=True, slots=True)
class Diff:
    """How the set has changed: take the removed ones out first, for a name that is in both is of another topic now."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def diffs_of(added: Iterable[str], removed: Iterable[str]) -> list[Diff]:
    """A change in as many messages as it takes: all removals before all additions, over the parts as within one."""
    gone = in_order(removed)
    found, left = [], len(gone)
    for page in paged([*gone, *in_order(added)]):
        found.append(Diff(page[left:], page[:left]))
        left = max(0, left - len(page))
    return found


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one topic."""

    version: Version
    properties: Mapping[str, str]


class Roll:
    """The topics that have all these properties. `next` numbers what it will tell next."""

    def __init__(self, filters: Mapping[str, str], entries: Mapping[str, Entry]) -> None:
        self._filters = dict(filters)
        self._members: dict[str, Version] = {}
        self._diffs: deque[Diff] = deque(maxlen=DIFFS_KEPT_MAX)
        self.next = 0
        self.bell = Bell()
        """Rung when there is something to tell."""
        self._hash: str | None = None
        self._pages: tuple[SnapshotPage, ...] | None = None
        self._enrol(entries, entries)

    @property
    def hash(self) -> str:
        """The hash of the set."""
        if self._hash is None:
            self._hash = hash_of(self._members)
        return self._hash

    @property
    def pages(self) -> tuple[SnapshotPage, ...]:
        """The whole set."""
        if self._pages is None:
            pages = paged(in_order(self._members))
            self._pages = tuple(
                SnapshotPage(page, number == 0, number == len(pages) - 1) for number, page in enumerate(pages)
            )
        return self._pages

    def is_kept(self, number: int) -> bool:
        """Whether all that was told from that number on is still there."""
        return number >= self.next - len(self._diffs)

    def diff(self, number: int) -> Diff:
        """What was told under a number that is kept."""
        return self._diffs[number - self.next]

    def update(self, names: Iterable[str], entries: Mapping[str, Entry]) -> None:
        """These names may have changed, all at once: what of that concerns the set is told."""
        added, removed = self._enrol(names, entries)
        if not added and not removed:
            return
        self._hash = self._pages = None
        told = diffs_of(added, removed)
        self._diffs.extend(told)
        self.next += len(told)
        self.bell.ring()

    def _enrol(self, names: Iterable[str], entries: Mapping[str, Entry]) -> tuple[list[str], list[str]]:
        """Brings the members up to date; who has come and who has gone, or both."""
        added, removed = [], []
        for name in names:
            before, entry = self._members.get(name), entries.get(name)
            after = entry.version if entry is not None and self._selects(entry) else None
            if before is not None and (after is None or not is_same_life(before, after)):
                removed.append(name)
                del self._members[name]
                before = None
            if after is not None:
                self._members[name] = after
                if before is None:
                    added.append(name)
        return added, removed

    def _selects(self, entry: Entry) -> bool:
        return all(entry.properties.get(name) == value for name, value in self._filters.items())
