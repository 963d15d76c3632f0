"""Which watches a request concerns, and what it is to each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from metastore.engine.keys import KeyOrder
from metastore.watch.effects import Effect, Effects, moves_of
from metastore.watch.errors import PreviousValuesMissing
from metastore.watch.news import Change, ChangeKind
from metastore.watch.ranges import RangeIndex
from metastore.watch.spec import Selector

Watcher = TypeVar("Watcher")


class Match(NamedTuple, Generic[Watcher]):
    """A request changed a record in a watcher's range."""

    watcher: Watcher
    kind: ChangeKind
    effect: Effect


class Watchers(Generic[Watcher]):
    """Who watches what."""

    def __init__(self, order: KeyOrder) -> None:
        self._order = order
        self._keys: RangeIndex[Watcher] = RangeIndex()
        self._indexes: RangeIndex[Watcher] = RangeIndex()

    def __len__(self) -> int:
        return len(self._keys) + len(self._indexes)

    def add(self, selector: Selector, watcher: Watcher) -> None:
        """Somebody begins to watch."""
        self._ranges(selector).add(selector.low, selector.high, watcher)

    def remove(self, selector: Selector, watcher: Watcher) -> None:
        """Undoes `add`."""
        self._ranges(selector).remove(selector.low, selector.high, watcher)

    def _ranges(self, selector: Selector) -> RangeIndex[Watcher]:
        return self._indexes if selector.by_index else self._keys

    def matches(self, effects: Effects) -> Iterator[Match[Watcher]]:
        """Whom a request concerns, each once for a record."""
        if self._keys:
            for encoded, effect in effects.records.items():
                watchers = self._keys.at(encoded)
                kind = key_kind(effect) if watchers else None
                if kind is not None:
                    for watcher in watchers:
                        yield Match(watcher, kind, effect)
        if self._indexes:
            yield from self._index_matches(effects)

    def _index_matches(self, effects: Effects) -> Iterator[Match[Watcher]]:
        for effect, before, after in moves_of(effects, self._order):
            was = {watcher: None for entry in before for watcher in self._indexes.at(entry)}
            is_now = was if before == after else {each: None for entry in after for each in self._indexes.at(entry)}
            for watcher in was | is_now:
                kind = index_kind(effect, watcher in was, watcher in is_now)
                assert kind is not None, "a record that was nowhere and is nowhere matched"
                yield Match(watcher, kind, effect)


def matches_of(selector: Selector, effects: Effects, order: KeyOrder) -> Iterator[tuple[ChangeKind, Effect]]:
    """What a request is to one range: what `Watchers` say, without having to build any."""
    low, high = selector.low, selector.high
    if selector.by_index:
        for effect, before, after in moves_of(effects, order):
            was, is_now = (any(low <= entry < high for entry in entries) for entries in (before, after))
            kind = index_kind(effect, was, is_now)
            if kind is not None:
                yield kind, effect
    else:
        for encoded, effect in effects.records.items():
            kind = key_kind(effect) if low <= encoded < high else None
            if kind is not None:
                yield kind, effect


def key_kind(effect: Effect) -> ChangeKind | None:
    """What a request is to a range that holds the record's key."""
    if effect.after is None:
        return ChangeKind.DELETED if effect.existed else None
    return ChangeKind.MODIFIED if effect.existed else ChangeKind.CREATED


def index_kind(effect: Effect, was: bool, is_now: bool) -> ChangeKind | None:
    """What a request is to a range in which the record was or was not, and is or is not."""
    if is_now:
        if was:
            return ChangeKind.MODIFIED
        return ChangeKind.ENTERED if effect.existed else ChangeKind.CREATED
    if was:
        return ChangeKind.DELETED if effect.after is None else ChangeKind.LEFT
    return None


def change_of(kind: ChangeKind, effect: Effect, effects: Effects, selector: Selector, order: KeyOrder) -> Change:
    """What a watch tells of it. PreviousValuesMissing if it asks for more than the log has."""
    before = None
    if selector.previous_values:
        before = effect.before
        if before is None and effect.existed:
            raise PreviousValuesMissing(effects.offset, effects.offset + 1)
    return Change(kind, order.decode(effect.encoded), effect.after, before, effects.offset, effects.time_ms)
