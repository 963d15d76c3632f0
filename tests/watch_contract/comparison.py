"""What a watcher was told of some offsets of a shard, and what these were to its range. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from metastore.interface import Change, ChangeKind, Record
from watch_contract.truth import Entry, Held, Lens
from watch_contract.violations import Lie

Lied = tuple[Lie, str]
Place = tuple[int, str]
"""An offset and a key."""


@dataclass(frozen=True)
class Expected:
    """A change as it has to be told."""

    kind: ChangeKind
    before: Held | None
    after: Held | None
    time_ms: int


def expected_changes(entries: Sequence[Entry], lens: Lens) -> dict[Place, Expected]:
    """What these writes are to a range."""
    found = {}
    for entry in entries:
        for key in lens.is_changed(entry.effects):
            before, after = entry.effects[key]
            kind = kind_of(lens.holds(key, before), lens.holds(key, after), before, after)
            found[entry.offset, key] = Expected(kind, before, after, entry.time_ms)
    return found


def kind_of(was_in: bool, is_in: bool, before: Held | None, after: Held | None) -> ChangeKind:
    """What a change is to a range in which the record was or is."""
    if was_in and is_in:
        return ChangeKind.MODIFIED
    if is_in:
        return ChangeKind.CREATED if before is None else ChangeKind.ENTERED
    return ChangeKind.DELETED if after is None else ChangeKind.LEFT


def lies_between(first: int, end: int, entries: Sequence[Entry], told: Sequence[Change], lens: Lens) -> Iterator[Lied]:
    """What is wrong with the changes told of the offsets from `first` to before `end`."""
    expected = expected_changes(entries, lens)
    places = [(change.offset, change.key) for change in told]
    yield from _lies_of_order(places)
    missing = expected.keys() - set(places)
    torn = {offset for offset, _ in places} & {offset for offset, _ in missing}
    for offset, key in sorted(missing):
        lie = Lie.TORN if offset in torn else Lie.MISSING
        yield lie, f"{key!r} at offset {offset}, {expected[offset, key]}"
    for change in told:
        wanted = expected.get((change.offset, change.key))
        if wanted is None:
            yield _lie_of_unexpected(change, first, end), f"between offsets {first} and {end}: {change}"
        else:
            yield from lies_of_change(change, wanted, lens.scope.previous_values)


def _lies_of_order(places: Sequence[Place]) -> Iterator[Lied]:
    for (earlier, _), (later, key) in pairwise(places):
        if later < earlier:
            yield Lie.MISORDERED, f"{key!r} at offset {later} behind offset {earlier}"
    for (offset, key), count in Counter(places).items():
        if count > 1:
            yield Lie.REPEATED, f"{key!r} at offset {offset}, {count} times in a batch"


def _lie_of_unexpected(change: Change, first: int, end: int) -> Lie:
    if change.offset < first:
        return Lie.REPEATED
    return Lie.AHEAD_OF_TOKEN if change.offset >= end else Lie.INVENTED


def lies_of_change(change: Change, wanted: Expected, has_previous: bool) -> Iterator[Lied]:
    """What is wrong with a change that is in its place."""
    if change.kind is not wanted.kind:
        yield Lie.WRONG_KIND, f"{wanted.kind} is told as {change}"
    if not is_same(change.key, change.record, wanted.after):
        yield Lie.WRONG_RECORD, f"{wanted.after} is told as {change}"
    if not is_same(change.key, change.previous, wanted.before if has_previous else None):
        yield Lie.WRONG_PREVIOUS, f"{wanted.before if has_previous else None} is told as {change}"
    if change.time_ms != wanted.time_ms:
        yield Lie.WRONG_TIME, f"{wanted.time_ms} is told as {change}"


def is_same(key: str, record: Record | None, held: Held | None) -> bool:
    """Whether a record is told as it was."""
    if record is None or held is None:
        return record is None and held is None
    return record.key == key and held.is_shown_as(record)
