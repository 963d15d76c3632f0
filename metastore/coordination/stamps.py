"""What coordination writes around values: one line of JSON that says whose the record is, then the value as it is.

    {"holder":"9f…"}               a grant, a place in a line, a member: the mark of whoever put it
    {"holder":"9f…","term":17}     a grant whose value was changed since: the term stays that of the first put
    {"fence":17}                   a guarded record: the term of its last writer
    {"fence":17,"deleted":true}    a guarded record that was deleted, whose fence must stay

A line, so that anybody's client shows it; in front, so that the value needs no escape.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from metastore.coordination.errors import ForeignRecord
from metastore.interface import Index, Record
from metastore.interface.checks import shown


@dataclass(frozen=True, slots=True)
class HolderStamp:
    """Whose a record is."""

    holder: str
    """The mark of one attempt by one process; nobody else has it."""
    term: int | None = None
    """None on the first put of a grant, whose term is then the record's version."""

    def on(self, value: bytes) -> bytes:
        """The value with this stamp."""
        header: dict[str, object] = {"holder": self.holder}
        if self.term is not None:
            header["term"] = self.term
        return _join(header, value)


@dataclass(frozen=True, slots=True)
class FenceStamp:
    """Under which term a guarded record was written last."""

    term: int
    is_deleted: bool = False
    indexes: tuple[Index, ...] = ()
    """The record's index entries, for a successor that must put the record as it was: a store does not tell them."""

    def on(self, value: bytes) -> bytes:
        """The value with this stamp."""
        header: dict[str, object] = {"fence": self.term}
        if self.is_deleted:
            header["deleted"] = True
        if self.indexes:
            header["indexes"] = [list(index) for index in self.indexes]
        return _join(header, value)


def read_holder(record: Record) -> tuple[HolderStamp, bytes]:
    """The stamp and the value of a grant, a place or a member. ForeignRecord if it is none of these."""
    header, value = _split(record)
    match header:
        case {"holder": str(holder), **rest}:
            term = rest.get("term")
            if term is None or isinstance(term, int):
                return HolderStamp(holder, term), value
    raise _foreign(record)


def read_fence(record: Record) -> tuple[FenceStamp, bytes]:
    """The stamp and the value of a guarded record. ForeignRecord if it was not written under a guard."""
    header, value = _split(record)
    match header:
        case {"fence": int(term), **rest}:
            return FenceStamp(term, bool(rest.get("deleted")), _read_indexes(record, rest.get("indexes", []))), value
    raise _foreign(record)


def _read_indexes(record: Record, pairs: object) -> tuple[Index, ...]:
    indexes = []
    for pair in pairs if isinstance(pairs, list) else [pairs]:
        match pair:
            case [str(name), str(secondary_key)]:
                indexes.append((name, secondary_key))
            case _:
                raise _foreign(record)
    return tuple(indexes)


def is_held_by(record: Record | None, mark: str) -> bool:
    """Whether this is the record that was put with that mark."""
    if record is None:
        return False
    try:
        return read_holder(record)[0].holder == mark
    except ForeignRecord:
        return False


def _join(header: dict[str, object], value: bytes) -> bytes:
    return json.dumps(header, separators=(",", ":")).encode() + b"\n" + value


def _split(record: Record) -> tuple[object, bytes]:
    assert record.value is not None, "a stamp is in the value: read it with the value"
    line, separator, value = record.value.partition(b"\n")
    if not separator or not line.startswith(b"{"):
        raise _foreign(record)
    try:
        return json.loads(line), value
    except (ValueError, RecursionError):
        raise _foreign(record) from None


def _foreign(record: Record) -> ForeignRecord:
    return ForeignRecord(
        f"the record at {shown(record.key)} was not written by coordination: use another key, or delete the record"
    )
