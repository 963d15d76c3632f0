"""What the entries of the change log mean to somebody who watches a selection."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from metastore.interface import Change, ChangeKind
from metastore.providers.zookeeper.changes import Effect, LogEntry
from metastore.providers.zookeeper.layout import Identity
from metastore.providers.zookeeper.limits import WATCH_WRITES_MAX
from metastore.providers.zookeeper.reader import Reader
from metastore.providers.zookeeper.records import Header, Stored
from metastore.providers.zookeeper.selection import Selection

Moment = tuple[Identity, int]
"""A record at one of its versions."""


@dataclass(frozen=True, slots=True)
class Relevant:
    """An effect that concerns a selection, and what it is to it."""

    kind: ChangeKind
    entry: LogEntry
    effect: Effect


def relevant(selection: Selection, entries: Iterable[LogEntry]) -> list[Relevant]:
    """What of these writes concerns a selection. Pure."""
    found = []
    for entry in entries:
        for effect in entry.effects:
            kind = _kind(selection, effect)
            if kind is not None:
                found.append(Relevant(kind, entry, effect))
    return found


def _kind(selection: Selection, effect: Effect) -> ChangeKind | None:
    was_in = effect.before is not None and bool(selection.rows_of(effect.before.header))
    is_in = bool(selection.rows_of(effect.after))
    if was_in and is_in:
        return ChangeKind.MODIFIED
    if is_in:
        return ChangeKind.CREATED if effect.before is None else ChangeKind.ENTERED
    if was_in:
        return ChangeKind.DELETED if effect.after is None else ChangeKind.LEFT
    return None


def replaced_values(entries: Iterable[LogEntry]) -> dict[Moment, bytes]:
    """The values that these writes replaced: those of earlier writes. Pure."""
    replaced = [effect.before for entry in entries for effect in entry.effects if effect.before is not None]
    return {(stored.identity, stored.version_id): stored.value for stored in replaced}


async def changes_of(
    reader: Reader, selection: Selection, entries: Sequence[LogEntry], has_previous: bool
) -> tuple[Change, ...]:
    """What these writes, which follow each other, were to the selection; values included."""
    found = relevant(selection, entries)
    headers = [each.effect.after for each in found if each.effect.after is not None]
    values = await _values(reader, headers, entries)
    changes = []
    for kind, entry, effect in ((each.kind, each.entry, each.effect) for each in found):
        before, after = effect.before, effect.after
        record = None if after is None else selection.show(after, values[after.identity, after.version.version_id])
        previous = None if before is None or not has_previous else selection.show(before.header, before.value)
        key = effect.identity.key
        changes.append(Change(kind, key, record, previous, 0, entry.number, entry.time_ms))
    return tuple(changes)


async def _values(reader: Reader, headers: Sequence[Header], entries: Sequence[LogEntry]) -> dict[Moment, bytes]:
    """What each of these writes stored: found in what replaced it, or in the record where nothing has."""
    moments = {(header.identity, header.version.version_id) for header in headers}
    values = replaced_values(entries)
    wanted = [moment for moment in moments if moment not in values]
    nodes = await reader.connection.nodes([reader.layout.record(identity).path for identity, _ in wanted])
    for (identity, version_id), node in zip(wanted, nodes, strict=True):
        stored = None if node is None else Stored.decode(node.data)
        if stored is not None and stored.version_id == version_id:
            values[identity, version_id] = stored.value
    wanted = [moment for moment in wanted if moment not in values]
    if wanted:
        await _find_later(reader, wanted, values, entries[-1].number + 1)
    return values


async def _find_later(reader: Reader, wanted: Sequence[Moment], values: dict[Moment, bytes], position: int) -> None:
    """Looks for values in what was written later: the records have been replaced since, so they are there."""
    head = await reader.tail.head()
    while not all(moment in values for moment in wanted):
        assert position < head.next, "a record was replaced, and the log does not say by what"
        end = min(head.next, position + WATCH_WRITES_MAX)
        values.update(replaced_values(await reader.tail.entries(position, end)))
        position = end
