"""A shard as a plain dict that remembers every state it had, and what a watch of a range must have told of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from metastore.engine.keys import KeyOrder
from metastore.engine.record import extras_of, unpack_indexes, value_of, version_of
from metastore.watch.news import Change, ChangeKind
from metastore.watch.spec import WatchSpec


class ModelRecord(NamedTuple):
    """What matters of a record."""

    value: bytes
    version: bytes
    """The encoded Version, as the answer to the put has it."""
    indexes: frozenset[tuple[bytes, bytes]]
    session_id: int | None


def parsed(record: bytes | None) -> ModelRecord | None:
    """A stored record."""
    if record is None:
        return None
    extras = extras_of(record)
    return ModelRecord(
        value_of(record), version_of(record), frozenset(unpack_indexes(extras.indexes)), extras.session_id
    )


State = Mapping[bytes, ModelRecord]


class Told(NamedTuple):
    """A change, in the model's words; the order within one request is nobody's business."""

    offset: int
    key: bytes
    kind: ChangeKind
    record: ModelRecord | None
    previous: ModelRecord | None


def told_of(change: Change) -> Told:
    """What a feed told."""
    return Told(change.offset, change.key, change.kind, parsed(change.record), parsed(change.previous))


class Request(NamedTuple):
    """A log entry: the states around it, and the keys that it put."""

    before: State
    after: State
    put: frozenset[bytes]


class ShardModel:
    """Every state a shard had; requests[offset] led from one to the next."""

    def __init__(self, order: KeyOrder) -> None:
        self._order = order
        self.state: dict[bytes, ModelRecord] = {}
        self.requests: list[Request] = []

    @property
    def next_offset(self) -> int:
        return len(self.requests)

    def apply(self, puts: Iterable[tuple[bytes, ModelRecord]] = (), deletes: Iterable[bytes] = ()) -> None:
        """The next request: what it put, and then what it deleted."""
        before, stored = dict(self.state), list(puts)
        self.state.update(stored)
        for key in deletes:
            self.state.pop(key, None)
        self.requests.append(Request(before, dict(self.state), frozenset(key for key, _ in stored)))

    def keys_in(self, start: bytes, end: bytes) -> list[bytes]:
        """What a range delete removes: user keys only, and nothing below an empty end."""
        encode = self._order.encode
        return [
            key for key in self.state if not self._order.is_internal(key) and encode(start) <= encode(key) < encode(end)
        ]

    def keys_of_session(self, session_id: int) -> list[bytes]:
        return [key for key, record in self.state.items() if record.session_id == session_id]

    def state_at(self, offset: int) -> State:
        """The state that the requests below an offset made."""
        return self.requests[offset].before if offset < len(self.requests) else self.state

    # -- what a watch must see

    def selected(self, spec: WatchSpec, state: State) -> dict[bytes, ModelRecord]:
        """The records of a state that are in the range."""
        return {key: record for key, record in state.items() if self._is_in(spec, key, record)}

    def _is_in(self, spec: WatchSpec, key: bytes, record: ModelRecord) -> bool:
        if self._order.is_internal(key):
            return False
        if spec.index_name is None:
            return self._holds(spec, key)
        return any(name == spec.index_name and self._holds(spec, secondary) for name, secondary in record.indexes)

    def _holds(self, spec: WatchSpec, key: bytes) -> bool:
        encode = self._order.encode
        return (not spec.start or encode(spec.start) <= encode(key)) and (
            not spec.end or encode(key) < encode(spec.end)
        )

    def changes(self, spec: WatchSpec, first: int, end: int) -> list[Told]:
        """What a watch tells of the requests [first, end)."""
        return sorted(
            told for offset in range(first, end) for told in self._changes_of(spec, offset, self.requests[offset])
        )

    def _changes_of(self, spec: WatchSpec, offset: int, request: Request) -> Iterable[Told]:
        was, now = self.selected(spec, request.before), self.selected(spec, request.after)
        for key in was.keys() | now.keys():
            kind = self._kind(request, key, key in was, key in now)
            if kind is not None:
                previous = request.before.get(key) if spec.previous_values else None
                yield Told(offset, key, kind, request.after.get(key), previous)

    def _kind(self, request: Request, key: bytes, was: bool, is_now: bool) -> ChangeKind | None:
        if was and is_now:
            return ChangeKind.MODIFIED if key in request.put else None
        if was:
            return ChangeKind.LEFT if key in request.after else ChangeKind.DELETED
        return ChangeKind.ENTERED if key in request.before else ChangeKind.CREATED
