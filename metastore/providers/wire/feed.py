"""One shard of one watch: what has come from it, where it stands, and how much more may come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from metastore.interface.errors import InvalidToken, StoreError, StoreFailed, TokenExpired
from metastore.interface.values import Change, ChangeKind, Record
from metastore.pb import tidemark_pb2 as pb
from metastore.providers.wire.answers import record_of
from metastore.providers.wire.failures import Failure, judged
from metastore.providers.wire.protocol import from_wire

CREDIT_EVENTS = 1_024
"""Records and changes of a feed that may be on their way or wait for their reader."""

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_KINDS = {
    pb.CREATED: ChangeKind.CREATED,
    pb.MODIFIED: ChangeKind.MODIFIED,
    pb.DELETED: ChangeKind.DELETED,
    pb.ENTERED: ChangeKind.ENTERED,
    pb.LEFT: ChangeKind.LEFT,
}


@dataclass(frozen=True, slots=True)
class Records:
    """A part of the snapshot."""

    records: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """Whole writes; `next_offset` is right behind the last of them."""

    changes: tuple[Change, ...]
    next_offset: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Everything before this offset has been told: the end of a snapshot, a beginning, or progress."""

    next_offset: int


News = Records | Changes | Mark


class Feed:
    """What a watch gets from one shard. It is bounded by its credit, so a slow reader costs no more than that."""

    def __init__(
        self, shard_id: int, template: pb.CreateWatch, resume_offset: int | None, credit: int, wake: Callable[[], None]
    ) -> None:
        self.shard_id = shard_id
        self.watch_id = 0
        """On the stream that carries the feed now."""
        self.grant: Callable[[int, int], None] | None = None
        """How that stream is told of more credit for a watch id."""
        self.error: StoreError | None = None
        """Why nothing more comes. What has arrived is still there to be taken."""
        self.is_torn = False
        """Whether the connection broke within the snapshot: what has come of it is worth nothing."""
        self._template = template
        self._arrived = resume_offset
        """The next offset that has not arrived; where to go on after a break. None before there is one."""
        self._credit = credit
        self._consumed = 0
        self._inbox: deque[News] = deque()
        self._waiting_events = 0
        self._partial: list[Change] = []
        """The changes that have arrived of a write that has not arrived as a whole."""
        self._has_snapshot_begun = False
        self._was_created = False
        self._is_known = False
        """Whether the server has taken it up on the stream that carries it now."""
        self._wake = wake

    # -- for the stream that carries it

    def create_request(self, watch_id: int) -> bytes:
        """Begins the feed on a stream, or goes on with it there."""
        self.watch_id = watch_id
        self._is_known = False
        self._consumed = 0
        create = pb.CreateWatch()
        create.CopyFrom(self._template)
        create.watch_id = watch_id
        create.shard = self.shard_id
        create.credit = max(self._credit - self._waiting_events, 1)
        if self._arrived is None:
            create.ClearField("store_id")
        else:
            create.beginning = pb.OFFSET
            create.from_offset = self._arrived
        return pb.WatchRequest(create=create).SerializeToString()

    def arrive(self, news: pb.WatchNews) -> Failure | None:
        """Takes in what the server says; a failure that may pass by itself is returned."""
        what = news.WhichOneof("news")
        if what == "changes":
            self._take_changes(news.changes)
        elif what == "snapshot_records":
            records = tuple([record_of(record) for record in news.snapshot_records.records])
            self._put(Records(records), len(records))
        elif what == "snapshot_begin":
            self._has_snapshot_begun = True
        elif what == "snapshot_end":
            self._mark(news.snapshot_end.resume_offset)
        elif what == "created":
            self._was_created = self._is_known = True
            if news.created.HasField("resume_offset") and self._arrived is None:
                self._mark(news.created.resume_offset)
        elif what == "ended":
            return self._end(news.ended)
        return None

    def progress(self, next_offset: int) -> None:
        """Nothing has happened up to here, says a mark for all watches that the server knows of.

        If it does not know of this one yet, the mark has crossed with the request, and says nothing of it.
        """
        if not self._is_known or self._arrived is None or self._partial:
            return
        if next_offset > self._arrived:
            if self._inbox and isinstance(self._inbox[-1], Mark):
                self._inbox.pop()  # the new mark says all that it said
            self._mark(next_offset)

    def tear(self) -> None:
        """The stream broke."""
        self.grant = None
        self._partial.clear()
        if self._arrived is None and self._has_snapshot_begun:
            self.is_torn = True
            self._wake()

    def fail(self, error: StoreError) -> None:
        """Nothing more comes."""
        self.error = error
        self._wake()

    def _take_changes(self, message: pb.WatchChanges) -> None:
        whole: list[Change] = []
        next_offset = 0
        for write in message.writes:
            self._partial += [decode_change(each, self.shard_id, write) for each in write.changes]
            if not write.is_continued:
                whole += self._partial
                self._partial.clear()
                next_offset = write.offset + 1
        if next_offset:
            self._arrived = next_offset
            self._put(Changes(tuple(whole), next_offset), len(whole))

    def _end(self, ended: pb.WatchEnded) -> Failure | None:
        code = _CODES.get(ended.code, grpc.StatusCode.UNKNOWN)
        failure = judged(code, ended.message, ended.reason, ended.metadata)
        if failure.is_passing or code is grpc.StatusCode.OK:
            return failure
        what = f"watch on shard {self.shard_id}"
        if failure.kind is TokenExpired:
            oldest = ended.oldest_offset if ended.HasField("oldest_offset") else None
            self.fail(TokenExpired(f"{what}: {ended.message}: begin with a snapshot", oldest))
        elif failure.kind is InvalidToken and self._was_created:
            # The watch was in order once; it is the store that has become another one.
            self.fail(TokenExpired(f"{what}: {ended.message}: begin with a snapshot"))
        else:
            self.fail(failure.refusal(what))
        return None

    def _mark(self, next_offset: int) -> None:
        self._arrived = next_offset
        self._put(Mark(next_offset), 0)

    def _put(self, news: News, events: int) -> None:
        self._inbox.append(news)
        self._waiting_events += events
        self._wake()

    # -- for the reader

    def take(self) -> News | None:
        """The next news, if there is any; raises why there will be none."""
        if not self._inbox:
            if self.error is not None:
                raise self.error
            return None
        news = self._inbox.popleft()
        events = 0 if isinstance(news, Mark) else len(news.records if isinstance(news, Records) else news.changes)
        self._waiting_events -= events
        self._consumed += events
        if self._consumed >= self._credit // 2 and self.grant is not None:
            self.grant(self.watch_id, self._consumed)
            self._consumed = 0
        return news


def decode_change(message: pb.WatchChange, shard_id: int, write: pb.WatchedWrite) -> Change:
    """One change of a write."""
    kind = _KINDS.get(message.kind)
    if kind is None:
        raise StoreFailed(
            f"shard {shard_id} tells a change of unknown kind {message.kind} at offset {write.offset}: "
            "to skip it would be to lose a change: use a newer version of this library"
        )
    record = record_of(message.record) if message.HasField("record") else None
    previous = record_of(message.previous) if message.HasField("previous") else None
    key = record.key if record is not None else from_wire(message.key)
    return Change(kind, key, record, previous, shard_id, write.offset, write.timestamp)
