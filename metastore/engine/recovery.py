"""What opening a shard brings back into memory: what LMDB lacks of the log, and the sessions."""

from __future__ import annotations

from metastore.engine.change import DELETED_FROM, PUT_INTO, Table, decode
from metastore.engine.keys import INTERNAL_PREFIX, KeyOrder
from metastore.engine.overlay import Generation
from metastore.engine.record import HEADER, encode_entry, encode_times, encode_version
from metastore.engine.sessions import SESSION_KEY_BYTES, SessionRecord, SessionSchedule
from metastore.engine.store import Applied, Store
from metastore.log import Log

LOAD_CHUNK = 1000
INTERNAL_KEY = INTERNAL_PREFIX + b"term"


def replay(store: Store, log: Log) -> None:
    """Publishes the log entries that LMDB does not hold as one generation."""
    offset, version_id = store.applied.next_offset, store.applied.last_version_id
    generation = Generation()
    while offset < log.next_offset:
        for frame in log.read(offset):
            for payload in frame.entries:
                version_id = _apply(payload, generation)
                generation.size_bytes += len(payload)
            offset = frame.first_offset + len(frame.entries)
    store.publish(generation, Applied(offset, version_id))


def _apply(payload: bytes, generation: Generation) -> int:
    """Applies a log entry's effects to a generation; returns the last version id at its end."""
    entry = decode(payload)
    for kind, key, value in entry.changes:
        table = PUT_INTO.get(kind)
        if table is not None:
            generation.layers[table].entries[key] = value
        elif kind in DELETED_FROM:
            generation.layers[DELETED_FROM[kind]].entries[key] = None
    return entry.last_version_id


def show_internal_record(store: Store, order: KeyOrder) -> None:
    """Puts a record of the store's own behind all users' records: what lists internal keys expects to see one."""
    encoded = order.encode(INTERNAL_KEY)
    if store.view.get(Table.RECORDS, encoded) is None:
        entry = encode_entry(encode_version(0, 0, encode_times(0, 0), None, None), b"1", INTERNAL_KEY)
        store.active.layers[Table.RECORDS].entries[encoded] = HEADER.pack(0, 0, 0, 0) + entry


def resume_sessions(store: Store, sessions: SessionSchedule, now_s: float) -> None:
    """Gives every session its full timeout anew."""
    following: bytes | None = b""
    while following is not None:
        items, following = store.view.ascending(Table.SESSIONS, following, None, LOAD_CHUNK)
        for key, data in items:
            session_id = int.from_bytes(key[:SESSION_KEY_BYTES], "big")
            sessions.add(session_id, SessionRecord.decode(data).timeout_ms, now_s)
