"""What a log entry did to each record: was it there, what was it, what is it now. Pure.

One write request may touch a record several times; what counts is the state before the request and the one behind
it. All of it follows from the entry. The first change of a record tells whether it was there: a deletion says so, a
put that makes a record new has counted no modification; where that count is not to be trusted the entry says it
itself. In the same way the first change of an index entry tells whether that was there, and the entries that were
not touched are those that the stored record names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from metastore.engine.change import Kind, decode
from metastore.engine.index_keys import entry_key, primary_of
from metastore.engine.keys import KeyOrder
from metastore.engine.record import extras_of, key_of, modifications_of, unpack_indexes

_RECORD_PUT = int(Kind.RECORD_PUT)
_DELETED = (int(Kind.RECORD_DELETED), int(Kind.RECORD_DELETED_SILENTLY))
_INDEX_DELETED = int(Kind.INDEX_DELETED)
_INDEX_KINDS = (int(Kind.INDEX_PUT), _INDEX_DELETED)
_BEFORE, _EXISTED = int(Kind.RECORD_BEFORE), int(Kind.RECORD_EXISTED)
_EXISTENCE_KINDS = (_EXISTED, int(Kind.RECORD_NEW))


class Effect:
    """What a request did to a record."""

    __slots__ = ("after", "before", "encoded", "existed")

    def __init__(self, encoded: bytes, existed: bool, before: bytes | None = None) -> None:
        self.encoded = encoded
        self.existed = existed
        self.before = before
        """The record as it was, where the log keeps that."""
        self.after: bytes | None = None


class Effects(NamedTuple):
    """What a request did."""

    offset: int
    time_ms: int
    records: dict[bytes, Effect]
    """By encoded key; internal ones are left out."""
    index_entries: dict[bytes, bool]
    """Each index entry that was put or deleted, and whether it was there before."""


def effects_of(offset: int, payload: bytes, user_end: bytes) -> Effects:
    """Reads a log entry."""
    entry = decode(payload)
    records: dict[bytes, Effect] = {}
    index_entries: dict[bytes, bool] = {}
    for kind, key, value in entry.changes:
        if kind in _INDEX_KINDS:
            index_entries.setdefault(key, kind == _INDEX_DELETED)
        elif key >= user_end:
            continue
        elif kind == _RECORD_PUT:
            effect = records.get(key)
            if effect is None:
                effect = records[key] = Effect(key, modifications_of(value) != 0)
            effect.after = value
        elif kind in _DELETED:
            records.setdefault(key, Effect(key, True)).after = None
        elif kind == _BEFORE:
            records.setdefault(key, Effect(key, True, value))
        elif kind in _EXISTENCE_KINDS:
            records.setdefault(key, Effect(key, kind == _EXISTED))
    return Effects(offset, entry.time_ms, records, index_entries)


class Move(NamedTuple):
    """A record with index entries: those that it had, and those that it has."""

    effect: Effect
    before: set[bytes]
    after: set[bytes]


def moves_of(effects: Effects, order: KeyOrder) -> Iterator[Move]:
    """The records of a request that had or have index entries."""
    touched: dict[bytes, dict[bytes, bool]] = {}
    for entry, was_there in effects.index_entries.items():
        touched.setdefault(order.encode(primary_of(entry)), {})[entry] = was_there
    for encoded, effect in effects.records.items():
        known = touched.get(encoded)
        after = index_entries_of(effect.after, order)
        if known is None:
            if after:
                yield Move(effect, after, after)
        else:
            before = {entry for entry in after if entry not in known}
            before.update(entry for entry, was_there in known.items() if was_there)
            yield Move(effect, before, after)


def index_entries_of(record: bytes | None, order: KeyOrder) -> set[bytes]:
    """The keys of a record's index entries."""
    if record is None or not record[0]:
        return set()
    key = key_of(record)
    return {entry_key(order, name, secondary, key) for name, secondary in unpack_indexes(extras_of(record).indexes)}
