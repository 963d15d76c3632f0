"""What operations do to a round under way: effects on records and all that goes with them, staged over the store.

A put or a delete moves index entries and the shadows of sessions as well, and tells those who watch what was there.
Each effect is noted twice: as bytes for the log entry of its request, and in the generation that the store takes over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from metastore.engine import limits
from metastore.engine.change import CHANGE, DELETED_FROM, FORMAT, HEAD, PUT_INTO, Kind, Table
from metastore.engine.errors import InvalidRequest
from metastore.engine.index_keys import entry_keys
from metastore.engine.keys import KeyOrder
from metastore.engine.operations import Put, PutOptions, PutResult, Status
from metastore.engine.overlay import Generation
from metastore.engine.record import (
    CREATED_START,
    HAS_EXTRAS,
    HEADER,
    HEADER_SIZE,
    NO_EXTRAS,
    Extras,
    encode_entry,
    encode_record,
    encode_times,
    encode_version,
    extras_of,
    fixed64,
    key_of,
    pack_extras,
    pack_index_extras,
    pack_indexes,
    unpack_extras,
    unpack_indexes,
    version_id_of,
)
from metastore.engine.sequence import next_key
from metastore.engine.sessions import SESSION_KEY_BYTES, session_key
from metastore.engine.store import Applied, Store
from metastore.engine.validate import shown

IndexPairs = dict[tuple[bytes, bytes], None]

_UNKNOWN: Any = object()
_RANGE_CHUNK = 1000

_OK_DELETE = int(Status.OK)
_UNEXPECTED: PutResult = (int(Status.UNEXPECTED_VERSION_ID), b"", None)
_NO_SESSION: PutResult = (int(Status.SESSION_DOES_NOT_EXIST), b"", None)
_RECORD_PUT = int(Kind.RECORD_PUT)
_INDEX_PUT, _INDEX_DELETED = int(Kind.INDEX_PUT), int(Kind.INDEX_DELETED)


class Effects:
    """Of one round; requests are made of them in `stage`."""

    def __init__(self, store: Store, order: KeyOrder, time_ms: int) -> None:
        self._store = store
        self._order = order
        self._encode = order.encode
        self.time_ms = time_ms
        self.generation = Generation()
        self.view = store.view_with(self.generation)
        self.entries: list[bytes] = []
        """The log entries, one per request."""
        self.sequences: list[tuple[int, bytes, bytes]] = []
        """(offset, prefix, new key) of each sequence put."""
        self.sessions_begun: list[tuple[int, int]] = []
        """(session id, timeout in ms) of each new session."""
        self.sessions_ended: list[int] = []
        self.puts = self.deletes = self.delete_ranges = 0
        self.last_version_id = store.durable.last_version_id
        self.first_offset = store.durable.next_offset
        self.size_bytes = 0
        self._parts: list[bytes] = []
        self._keeps_previous = store.keeps_previous
        self._previous_bytes = 0
        """What the entry under way holds of records as they were before."""
        self._now = fixed64(time_ms)
        self._bind()

    def _bind(self) -> None:
        """Keeps at hand what every put looks into: the layers of the records table, the youngest first."""
        self._staged = self.generation.layers[Table.RECORDS].entries
        self._active = self._store.active.layers[Table.RECORDS].entries
        frozen = self._store.frozen
        self._frozen = {} if frozen is None else frozen.layers[Table.RECORDS].entries
        self._lookup = self._store.record_lookup()

    @property
    def next_offset(self) -> int:
        """The offset that the next request gets."""
        return self.first_offset + len(self.entries)

    @property
    def durable(self) -> Applied:
        """What the store reaches when this round is durable."""
        return Applied(self.next_offset, self.last_version_id)

    def has_session(self, session_id: int) -> bool:
        """Whether a session is alive at this point of the round."""
        return session_id > 0 and self.view.get(Table.SESSIONS, session_key(session_id)) is not None

    def _end_entry(self) -> None:
        """Closes the request's log entry."""
        head = HEAD.pack(FORMAT, self.time_ms, self.last_version_id)
        payload = head + b"".join(self._parts)
        self._parts.clear()
        self._previous_bytes = 0
        self.entries.append(payload)
        self.size_bytes += len(payload)
        self.generation.size_bytes = self.size_bytes

    def _change(self, kind: Kind, key: bytes, value: bytes = b"") -> None:
        """Notes an effect for the log and applies it to the staged generation."""
        self._parts += (CHANGE.pack(kind, len(key), len(value)), key, value)
        table = PUT_INTO.get(kind)
        if table is not None:
            self.generation.layers[table].entries[key] = value
        elif kind in DELETED_FROM:
            self.generation.layers[DELETED_FROM[kind]].entries[key] = None

    def _get(self, encoded: bytes) -> bytes | None:
        record = self._staged.get(encoded, _UNKNOWN)
        if record is _UNKNOWN:
            record = self._active.get(encoded, _UNKNOWN)
            if record is _UNKNOWN:
                record = self._frozen.get(encoded, _UNKNOWN)
                if record is _UNKNOWN:
                    return self._lookup(encoded)
        return record  # type: ignore[no-any-return]

    def _put_all(self, puts: Iterable[Put]) -> list[PutResult]:
        """Stages puts in their order. The hottest loop there is, so all that it needs is at hand, `_get` included."""
        encode, now, parts, staged = self._encode, self._now, self._parts, self._staged
        in_staged, in_active, in_frozen, lookup = staged.get, self._active.get, self._frozen.get, self._lookup
        pack_change, unpack_header, keeps_previous = CHANGE.pack, HEADER.unpack_from, self._keeps_previous
        version_id = self.last_version_id
        results: list[PutResult] = []
        for key, value, options in puts:
            if options is None:
                packed = b""
            elif options.has_only_indexes:
                packed = pack_index_extras(options.secondary_indexes)
            else:
                self.last_version_id = version_id
                results.append(self._put_with_options(key, value, options))
                version_id = self.last_version_id
                continue
            encoded = encode(key)
            old = in_staged(encoded, _UNKNOWN)
            if old is _UNKNOWN:
                old = in_active(encoded, _UNKNOWN)
                if old is _UNKNOWN:
                    old = in_frozen(encoded, _UNKNOWN)
                    if old is _UNKNOWN:
                        old = lookup(encoded)
            version_id += 1
            if old is None:
                flags, modifications, created = 0, 0, now
            else:
                flags, _, modifications, _ = unpack_header(old)
                modifications += 1
                created = old[CREATED_START:HEADER_SIZE]
            if packed or flags:
                self._renew_extras(encoded, key, old, packed)
            if (keeps_previous or not modifications) and old is not None:
                self._tell_before(encoded, old)
            version, record = encode_record(version_id, modifications, created, now, packed, value, key)
            parts += (pack_change(_RECORD_PUT, len(encoded), len(record)), encoded, record)
            staged[encoded] = record
            results.append((0, version, None))
        self.last_version_id = version_id
        return results

    def _put_with_options(self, key: bytes, value: bytes, options: PutOptions) -> PutResult:
        new_key = None
        if options.sequence_key_deltas:
            if options.partition_key is None:
                raise InvalidRequest(f"put to sequence {shown(key)}: sequential key operation requires partition key")
            if options.expected_version_id is not None:
                return _UNEXPECTED
            new_key = next_key(self.view, self._order, key, options.sequence_key_deltas)
        encoded = self._encode(new_key or key)
        old = self._get(encoded)
        expected = options.expected_version_id
        if expected is not None and expected != (-1 if old is None else version_id_of(old)):
            return _UNEXPECTED
        if options.session_id is not None and not self.has_session(options.session_id):
            return _NO_SESSION
        if new_key is not None:
            self.sequences.append((self.next_offset, key, new_key))
        version = self._store_record(encoded, new_key or key, value, old, options)
        return (0, version, new_key)

    def _store_record(self, encoded: bytes, key: bytes, value: bytes, old: bytes | None, options: PutOptions) -> bytes:
        """Stages a record with everything around it; returns its encoded Version."""
        version_id = options.override_version_id
        if version_id is None:
            self.last_version_id = version_id = self.last_version_id + 1
        flags, modifications, created_ms = 0, 0, self.time_ms
        if old is not None:
            flags, _, modifications, created_ms = HEADER.unpack_from(old)
            modifications += 1
        if options.override_modifications_count is not None:
            modifications = options.override_modifications_count
        times = encode_times(created_ms, self.time_ms)
        version = encode_version(version_id, modifications, times, options.session_id, options.client_identity)
        extras = Extras(options.session_id, options.partition_key, pack_indexes(options.secondary_indexes))
        packed = b"" if extras == NO_EXTRAS else pack_extras(extras)
        if packed or flags:
            self._renew_extras(encoded, key, old, packed)
        if old is None:
            if modifications:
                self._change(Kind.RECORD_NEW, encoded)
        elif self._keeps_previous or not modifications:
            self._tell_before(encoded, old)
        header = HEADER.pack(HAS_EXTRAS if packed else 0, version_id, modifications, created_ms)
        record = header + packed + encode_entry(version, value, key)
        self._parts += (CHANGE.pack(_RECORD_PUT, len(encoded), len(record)), encoded, record)
        self._staged[encoded] = record
        return version

    def _tell_before(self, encoded: bytes, old: bytes) -> None:
        """Tells those who watch what a record was, or at least that it was."""
        if self._keeps_previous and self._previous_bytes + len(old) <= limits.PREVIOUS_BYTES_MAX:
            self._previous_bytes += len(old)
            self._change(Kind.RECORD_BEFORE, encoded, old)
        else:
            self._change(Kind.RECORD_EXISTED, encoded)

    def _renew_extras(self, encoded: bytes, key: bytes, old: bytes | None, packed: bytes) -> None:
        """Gives a record the packed extras; those that stay the same are known by their bytes."""
        before = NO_EXTRAS
        if old is not None and old[0]:
            if packed and old.startswith(packed, HEADER_SIZE):
                return
            before = extras_of(old)
        self._replace_extras(encoded, key, before, unpack_extras(packed) if packed else NO_EXTRAS)

    def _replace_extras(self, encoded: bytes, key: bytes, old: Extras, new: Extras) -> None:
        """Moves the index entries and the session's shadow of a record from what it had to what it gets."""
        if old.indexes != new.indexes:
            self._move_index_entries(key, unpack_indexes(old.indexes), unpack_indexes(new.indexes))
        if old.session_id != new.session_id:
            if old.session_id is not None:
                self._change(Kind.SHADOW_DELETED, session_key(old.session_id) + encoded)
            if new.session_id is not None:
                self._change(Kind.SHADOW_PUT, session_key(new.session_id) + encoded)

    def _move_index_entries(self, key: bytes, before: IndexPairs, after: IndexPairs) -> None:
        entries, parts = self.generation.layers[Table.INDEXES].entries, self._parts
        gone = [pair for pair in before if pair not in after]
        fresh = [pair for pair in after if pair not in before]
        keys = entry_keys(self._order, gone + fresh, key)
        for entry in keys[: len(gone)]:
            parts += (CHANGE.pack(_INDEX_DELETED, len(entry), 0), entry)
            entries[entry] = None
        for entry in keys[len(gone) :]:
            parts += (CHANGE.pack(_INDEX_PUT, len(entry), len(key)), entry, key)
            entries[entry] = key

    def _delete(self, key: bytes, expected: int | None) -> int:
        encoded = self._encode(key)
        old = self._get(encoded)
        if old is None:
            missing_is_expected = expected is None or expected == -1
            return Status.KEY_NOT_FOUND if missing_is_expected else Status.UNEXPECTED_VERSION_ID
        if expected is not None and expected != version_id_of(old):
            return Status.UNEXPECTED_VERSION_ID
        self._remove(encoded, old, Kind.RECORD_DELETED)
        return _OK_DELETE

    def _remove(self, encoded: bytes, record: bytes, kind: Kind) -> None:
        """Removes a record with its index entries and its shadow."""
        if record[0]:
            self._replace_extras(encoded, key_of(record), extras_of(record), NO_EXTRAS)
        if self._keeps_previous:
            self._tell_before(encoded, record)
        self._change(kind, encoded)

    def _delete_range(self, start: bytes, end: bytes) -> None:
        """Removes the user's records of a range. An empty end is the lowest key of all: nothing is below it."""
        if not self._order.is_internal(start):
            self._change(Kind.RANGE_DELETED, start, end)
        low, high = self._encode(start), min(self._encode(end), self._order.user_end)
        following: bytes | None = low
        while following is not None and following < high:
            items, following = self.view.ascending(Table.RECORDS, following, high, _RANGE_CHUNK)
            for encoded, record in items:
                self._remove(encoded, record, Kind.RECORD_DELETED_SILENTLY)

    def _end_session(self, session_id: int) -> None:
        following: bytes | None = session_key(session_id)
        stop = session_key(session_id + 1)
        while following is not None and following < stop:
            items, following = self.view.ascending(Table.SHADOWS, following, stop, _RANGE_CHUNK)
            for shadow, _ in items:
                encoded = shadow[SESSION_KEY_BYTES:]
                record = self._get(encoded)
                assert record is not None, "a session's shadow has no record"
                assert extras_of(record).session_id == session_id, "a shadow belongs to another session"
                self._remove(encoded, record, Kind.RECORD_DELETED)
        self._change(Kind.SESSION_DELETED, session_key(session_id))
        self.sessions_ended.append(session_id)
