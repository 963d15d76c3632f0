"""What a watch tells, as messages of bounded size. Pure functions, and hot ones when much is written.

Each function yields WatchNews messages, encoded; the stream puts as many of them into one response as fit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from metastore.engine.record import entry_of, signed_varint, varint
from metastore.pb import tidemark_pb2
from metastore.server.errors import RpcError
from metastore.watch.news import Change, ChangeKind, FeedBatch, FeedBatchKind

NEWS_BYTES = 256 << 10
"""Responses of a watch stream are cut at this size; only single records and changes may be larger. Small, because a
reader of many watches should not wait for the parse of megabytes."""

KIND_NUMBERS = {
    ChangeKind.CREATED: tidemark_pb2.CREATED,
    ChangeKind.MODIFIED: tidemark_pb2.MODIFIED,
    ChangeKind.DELETED: tidemark_pb2.DELETED,
    ChangeKind.ENTERED: tidemark_pb2.ENTERED,
    ChangeKind.LEFT: tidemark_pb2.LEFT,
}
_KINDS = {kind: b"\x10" + varint(number) for kind, number in KIND_NUMBERS.items()}
_FIXED64 = struct.Struct("<Q")
_BEGIN, _RECORDS, _END, _CHANGES = b'"', b"*", b"2", b":"
"""The tags of WatchNews."""
_offset_of = attrgetter("offset")


def created(watch_id: int, resume_offset: int | None) -> bytes:
    """The watch exists, and where it begins."""
    news = tidemark_pb2.WatchCreated(resume_offset=resume_offset)
    return tidemark_pb2.WatchNews(watch_id=watch_id, created=news).SerializeToString()


def ended(watch_id: int, error: RpcError | None, oldest_offset: int | None = None) -> bytes:
    """The watch was refused or failed; without an error it was cancelled."""
    news = tidemark_pb2.WatchEnded(oldest_offset=oldest_offset)
    if error is not None:
        news.code, news.message, news.reason = error.code.value[0], error.message, error.reason or ""
        news.domain = error.domain if error.reason else ""
        for name, value in error.metadata.items():
            news.metadata[name] = value
    return tidemark_pb2.WatchNews(watch_id=watch_id, ended=news).SerializeToString()


def encode(watch_id: int, batch: FeedBatch) -> Iterator[bytes]:
    """The news of a batch; a mere progress is none, the stream tells it for all watches of a shard together."""
    head = b"\x08" + signed_varint(watch_id) if watch_id else b""
    if batch.kind is FeedBatchKind.SNAPSHOT_BEGIN:
        yield _news(head, _BEGIN, b"")
    elif batch.kind is FeedBatchKind.SNAPSHOT:
        yield from (_news(head, _RECORDS, body) for body in _joined(map(entry_of, batch.records)))
    elif batch.kind is FeedBatchKind.SNAPSHOT_END:
        assert batch.next_offset is not None, "a complete snapshot has an offset"
        yield _news(head, _END, tidemark_pb2.SnapshotEnd(resume_offset=batch.next_offset).SerializeToString())
    elif batch.kind is FeedBatchKind.CHANGES:
        yield from (_news(head, _CHANGES, body) for body in _joined(encode_writes(batch.changes)))


def _news(head: bytes, tag: bytes, body: bytes) -> bytes:
    return head + tag + varint(len(body)) + body


def _joined(items: Iterable[bytes]) -> Iterator[bytes]:
    """Joins items, each with its tag and length, up to the size of a response."""
    pending: list[bytes] = []
    size = 0
    for item in items:
        if pending and size + len(item) > NEWS_BYTES:
            yield b"".join(pending)
            pending, size = [], 0
        pending.append(item)
        size += len(item)
    if pending:
        yield b"".join(pending)


def encode_writes(changes: Iterable[Change]) -> Iterator[bytes]:
    """The entries of WatchChanges.writes; a write that is too large becomes several, all but the last marked."""
    for offset, group in groupby(changes, key=_offset_of):
        of_write = list(group)
        head = (b"\x08" + varint(offset) if offset else b"") + b"\x11" + _FIXED64.pack(of_write[0].time_ms)
        bodies = list(_joined(map(_change, of_write)))
        for body in bodies[:-1]:
            yield _field(b"\n", head + body + b"\x20\x01")
        yield _field(b"\n", head + bodies[-1])


def _change(change: Change) -> bytes:
    """An entry of WatchedWrite.changes."""
    parts = [_KINDS[change.kind]]
    if change.record is not None:
        parts.append(entry_of(change.record))  # its tag is that of the record
    else:
        parts.append(_field(b'"', change.key))
    if change.previous is not None:
        parts += (b"\x1a", entry_of(change.previous)[1:])
    return _field(b"\x1a", b"".join(parts))


def _field(tag: bytes, body: bytes) -> bytes:
    return tag + varint(len(body)) + body


def response(news: Iterable[bytes], progress: Iterable[tidemark_pb2.WatchProgress] = ()) -> bytes:
    """A WatchResponse."""
    parts = [_field(b"\n", each) for each in news]
    parts += [_field(b"\x12", each.SerializeToString()) for each in progress]
    return b"".join(parts)
