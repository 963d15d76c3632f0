"""The calls by which others read very much: points, cuts, bulk scans, the change log from an offset to an offset.

They share the interpreter with the writes. So one thread produces all that is long, message by message, and goes on
with a scan only when the message before is on its way: whoever takes calls in waits for none of it. And it stands back.
"""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from metastore.engine.change import Table
from metastore.engine.cutting import cuts
from metastore.engine.operations import Range
from metastore.engine.scan import open_bounds
from metastore.log import Frame, LogTrimmed
from metastore.pb import tidemark_pb2
from metastore.server.calls import OneRequest, StreamedAnswer
from metastore.server.errors import OWN_DOMAIN, RpcError, invalid
from metastore.server.host import Host, ShardHost
from metastore.server.tidemark.messages import decode
from metastore.server.tidemark.news import encode_writes
from metastore.server.tidemark.portions import portion_messages, record_messages
from metastore.watch.effects import effects_of
from metastore.watch.errors import OffsetTrimmed
from metastore.watch.matching import matches_of
from metastore.watch.news import Change
from metastore.watch.spec import Selector

ROWS_MAX = 10_000
PARTS_MAX = 10_000
LOG_BYTES = 256 << 10
"""Of the log, read and told in one go."""
REACH_WRITES_MAX = 100_000
"""Writes that are counted for one answer: whoever wants more asks again."""


class HoldPointCall(OneRequest):
    """HoldPoint."""

    def handle(self, message: bytes) -> None:
        request = decode(tidemark_pb2.HoldPointRequest, message)
        host = _host(self.host, request)
        host.shard.check_open()
        point, next_offset = host.shard.points.hold(request.hold_ms, is_passing=request.passing)
        self.call.reply(tidemark_pb2.HoldPointResponse(point=point, next_offset=next_offset).SerializeToString())


class ReleasePointCall(OneRequest):
    """ReleasePoint."""

    def handle(self, message: bytes) -> None:
        request = decode(tidemark_pb2.ReleasePointRequest, message)
        _host(self.host, request).shard.points.release(request.point)
        self.call.reply(b"")


class CutRangeCall(OneRequest):
    """CutRange."""

    def handle(self, message: bytes) -> None:
        request = decode(tidemark_pb2.CutRangeRequest, message)
        shard = _host(self.host, request).shard
        if not 1 <= request.parts <= PARTS_MAX:
            raise invalid(f"a range in {request.parts} parts: 1 to {PARTS_MAX}")
        shard.check_open()
        found = cuts(shard.store.environment, shard.order, _range(request.range), request.parts)
        self.call.reply(tidemark_pb2.CutRangeResponse(keys=found.keys, entries=found.entries).SerializeToString())


class BulkAnswer(StreamedAnswer):
    """An answer that is very long. It is produced by one thread for all of them, a message each in turn: the threads
    that take in calls have writes to see to."""

    def produce(self) -> None:
        self.host.bulk_turns.ask(self)

    def take_turn(self) -> bool:
        """Produces a message; whether there is room for another."""
        return bool(self.host.courtesy.after(lambda: self.guarded(self._take)))

    def _take(self) -> bool:
        if self.call.is_finished:
            self.stop()
        return self.has_room and self.produce_one() and self.has_room

    def let_go(self) -> None:
        self.host.bulk_turns.ask(self)  # which may be at it


class BulkScanCall(BulkAnswer):
    """BulkScan: a range at a point."""

    def messages(self, message: bytes) -> Iterator[bytes]:
        request = decode(tidemark_pb2.BulkScanRequest, message)
        shard = _host(self.host, request).shard
        if not 1 <= request.rows <= ROWS_MAX:
            raise invalid(f"{request.rows} records in a message: 1 to {ROWS_MAX}")
        wanted = _range(request.range)
        low, high = open_bounds(shard.order, wanted)
        table = Table.RECORDS if wanted.index_name is None else Table.INDEXES
        if table is Table.RECORDS and request.pages:
            return portion_messages(shard.points.leaves(request.point, low, high), request.rows)
        pages = shard.points.pages(request.point, table, low, high)
        return record_messages(pages, shard.order if table is Table.INDEXES else None, request.rows)


class ReachCall(OneRequest):
    """Reach: the ends of the log, and how far so many changes go."""

    def handle(self, message: bytes) -> None:
        request = decode(tidemark_pb2.ReachRequest, message)
        host = _host(self.host, request)
        host.shard.check_open()
        first, end = host.shard.first_offset, host.shard.next_offset
        found, to_offset = 0, end
        if request.HasField("from_offset") and request.HasField("changes_max"):
            to_offset = request.from_offset
            for at, changes in _changes(host, _range(request.range), request.from_offset, end):
                is_full = found and found + len(changes) > request.changes_max
                if is_full or at >= request.from_offset + REACH_WRITES_MAX:
                    break
                found, to_offset = found + len(changes), at + 1
                if found >= request.changes_max:
                    break
        response = tidemark_pb2.ReachResponse(first_offset=first, next_offset=end, to_offset=to_offset, changes=found)
        self.call.reply(response.SerializeToString())


class ChangesCall(BulkAnswer):
    """Changes: the change log of a range from an offset to an offset."""

    def messages(self, message: bytes) -> Iterator[bytes]:
        request = decode(tidemark_pb2.ChangesRequest, message)
        host = _host(self.host, request)
        host.shard.check_open()
        end = host.shard.next_offset
        if request.to_offset > end:
            raise RpcError(
                grpc.StatusCode.OUT_OF_RANGE,
                f"offset {request.to_offset} has not been reached: the next write gets {end}",
                "OFFSET_AHEAD",
                OWN_DOMAIN,
            )
        return _change_messages(_changes(host, _range(request.range), request.from_offset, request.to_offset))


def _change_messages(writes: Iterator[tuple[int, list[Change]]]) -> Iterator[bytes]:
    pending: list[bytes] = []
    size = 0
    for _, changes in writes:
        for encoded in encode_writes(changes):
            pending.append(encoded)
            size += len(encoded)
        if size >= LOG_BYTES:
            yield b"".join(pending)
            pending, size = [], 0
    if pending:
        yield b"".join(pending)


def _changes(host: ShardHost, wanted: Range, offset: int, end: int) -> Iterator[tuple[int, list[Change]]]:
    """The writes from an offset to before another, and what each changed in a range."""
    order = host.shard.order
    selector = Selector(*open_bounds(order, wanted), wanted.index_name is not None, False)
    while offset < end:
        for frame in _frames(host, offset):
            for at, payload in enumerate(frame.entries, frame.first_offset):
                if at >= end:
                    return
                effects = effects_of(at, payload, order.user_end)
                yield (
                    at,
                    [
                        Change(kind, order.decode(effect.encoded), effect.after, None, at, effects.time_ms)
                        for kind, effect in matches_of(selector, effects, order)
                    ],
                )
            offset = frame.end_offset


def _frames(host: ShardHost, offset: int) -> list[Frame]:
    try:
        return host.shard.read_log(offset, LOG_BYTES)
    except LogTrimmed as error:
        raise OffsetTrimmed(offset, error.oldest) from None


def _range(message: tidemark_pb2.BulkRange) -> Range:
    index_name = message.index_name if message.HasField("index_name") else None
    if index_name == b"":
        raise invalid("an index needs a name")
    return Range(message.start_inclusive, message.end_exclusive, index_name)


def _host(
    host: Host,
    request: tidemark_pb2.HoldPointRequest
    | tidemark_pb2.ReleasePointRequest
    | tidemark_pb2.CutRangeRequest
    | tidemark_pb2.BulkScanRequest
    | tidemark_pb2.ReachRequest
    | tidemark_pb2.ChangesRequest,
) -> ShardHost:
    return host.shard(request.shard if request.HasField("shard") else None)
