"""What a server shows after a crash, held against the ledgers of its writers and against what it showed before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import grpc
from crash_ledger import INDEX_NAME, Ledger, News

from metastore.pb import oxia_pb2 as pb
from support.wire import Ended, Status, Stream, WireClient

SHOWN_WITHIN_S = 30.0


class ServerGone(Exception):
    """The server died under the audit, which has changed nothing: it may be begun again."""


class Chronicle:
    """All notifications that anybody has ever seen. What was seen once stays so."""

    def __init__(self, is_trimmed: bool) -> None:
        self.is_trimmed = is_trimmed
        """The server gives up old notifications while the test runs."""
        self.batches: dict[int, pb.NotificationBatch] = {}
        self.last_offset = -1

    def add(self, batches: Iterable[pb.NotificationBatch]) -> None:
        """Takes what a subscriber saw, from its second message on."""
        for batch in batches:
            known = self.batches.setdefault(batch.offset, batch)
            assert known == batch, f"offset {batch.offset} was used twice: {known} {batch}"
            self.last_offset = max(self.last_offset, batch.offset)

    def add_all(self, batches: Sequence[pb.NotificationBatch], start: int, last_offset: int) -> None:
        """Takes all behind an offset that is retained after a crash: without gaps, and not less than before."""
        assert last_offset >= self.last_offset, f"offsets went back from {self.last_offset} to {last_offset}"
        offsets = [batch.offset for batch in batches]
        first = offsets[0] if offsets and self.is_trimmed else start + 1
        assert offsets == list(range(first, last_offset + 1)), "notifications are missing"
        self.add(batches)
        versions = [sorted(versions_of(batch)) for batch in batches]
        for earlier, later in pairwise(filter(None, versions)):
            assert earlier[-1] < later[0], f"version ids went back from {earlier[-1]} to {later[0]}"


def versions_of(batch: pb.NotificationBatch) -> list[int]:
    return [entry.value.version_id for entry in batch.notifications if entry.value.HasField("version_id")]


def audit(address: str, ledgers: Sequence[Ledger], chronicle: Chronicle, start: int) -> int:
    """Settles the ledgers and checks everything that a client can see of them. Raises ServerGone.

    The notifications are those behind the offset `start`; returns the first of them that is retained.
    """
    with WireClient(address) as wire:
        records = scan(wire, pb.RangeScanRequest(shard=0))
        last_offset = offset_of_last_write(wire)
        retained = notifications_up_to(wire, start, last_offset)
        if chronicle.is_trimmed and retained:  # while it was read, more may have been trimmed: a gap
            oldest = oldest_retained(wire)
            retained = [batch for batch in retained if batch.offset >= oldest]
        by_index = pb.RangeScanRequest(shard=0, end_exclusive=b"~", secondary_index_name=INDEX_NAME)
        indexed = scan(wire, by_index)
        heartbeats = {
            session_id: keep_alive(wire, session_id) for ledger in ledgers for session_id in sessions_of(ledger)
        }
    for ledger in ledgers:
        own = {record.key: record for record in records if record.key.startswith(ledger.prefix)}
        ledger.settle(own)
    assert len(records) == sum(record.key.startswith(ledger.prefix) for record in records for ledger in ledgers)
    assert len({record.version.version_id for record in records}) == len(records), "a version id was used twice"
    check_index(indexed, records, ledgers)
    chronicle.add_all(retained, start, last_offset)
    is_all = start == -1 and not chronicle.is_trimmed
    for ledger in ledgers:
        check_news(ledger, retained, is_all)
    check_last_news(retained, records)
    for ledger in ledgers:
        for session_id, code in sessions_of(ledger).items():
            assert heartbeats[session_id] is code, f"session {session_id} has died, or come back"
    return retained[0].offset if retained else last_offset + 1


# -- reading


def lost_or_wrong(status: Status) -> Exception:
    """A call may fail because the server is gone; any other failure is wrong."""
    return ServerGone() if status.code is grpc.StatusCode.UNAVAILABLE else AssertionError(status)


def scan(wire: WireClient, request: pb.RangeScanRequest) -> list[pb.GetResponse]:
    answer = wire.call("RangeScan", request)
    if answer.status.code is not grpc.StatusCode.OK:
        raise lost_or_wrong(answer.status)
    return [record for message in answer.messages for record in message.records]


def next_batch(stream: Stream) -> pb.NotificationBatch:
    try:
        batch: pb.NotificationBatch = stream.next(SHOWN_WITHIN_S)
    except Ended as end:
        raise lost_or_wrong(end.status) from end
    return batch


def offset_of_last_write(wire: WireClient) -> int:
    """A subscriber who names no offset is told first after which one he begins."""
    stream = wire.open("GetNotifications", pb.NotificationsRequest(shard=0))
    try:
        return next_batch(stream).offset
    finally:
        stream.cancel()


def notifications_up_to(wire: WireClient, start: int, last_offset: int) -> list[pb.NotificationBatch]:
    """What is retained behind an offset."""
    stream = wire.open("GetNotifications", pb.NotificationsRequest(shard=0, start_offset_exclusive=start))
    batches: list[pb.NotificationBatch] = []
    try:
        next_batch(stream)  # it only says where the stream begins
        while (batches[-1].offset if batches else start) < last_offset:
            batches.append(next_batch(stream))
    finally:
        stream.cancel()
    return batches


def oldest_retained(wire: WireClient) -> int:
    stream = wire.open("GetNotifications", pb.NotificationsRequest(shard=0, start_offset_exclusive=-1))
    try:
        next_batch(stream)  # it only says where the stream begins
        return next_batch(stream).offset
    finally:
        stream.cancel()


def sessions_of(ledger: Ledger) -> dict[int, grpc.StatusCode]:
    """Sessions, and what a heartbeat must be answered."""
    sessions = dict.fromkeys(ledger.ended_sessions, grpc.StatusCode.NOT_FOUND)
    return sessions if ledger.session_id is None else {**sessions, ledger.session_id: grpc.StatusCode.OK}


def keep_alive(wire: WireClient, session_id: int) -> grpc.StatusCode:
    status = wire.call("KeepAlive", pb.SessionHeartbeat(shard=0, session_id=session_id)).status
    if status.code not in (grpc.StatusCode.OK, grpc.StatusCode.NOT_FOUND):
        raise lost_or_wrong(status)
    return status.code


# -- judging


def check_index(
    indexed: Sequence[pb.GetResponse], records: Sequence[pb.GetResponse], ledgers: Sequence[Ledger]
) -> None:
    """The index has the entries of the records, no others, and shows the records as they are."""
    by_key = {record.key: record for record in records}
    for entry in indexed:
        record = by_key[entry.key]
        assert (entry.value, entry.version) == (record.value, record.version), (entry, record)
    wanted = sorted(key for ledger in ledgers for _, key in ledger.index_entries())
    assert sorted(entry.key for entry in indexed) == wanted


def check_news(ledger: Ledger, retained: Sequence[pb.NotificationBatch], is_all: bool) -> None:
    """Each of the writer's writes has its notification, whole and in its place; the oldest may be trimmed."""
    told = [
        {entry.key: entry.value for entry in batch.notifications}
        for batch in retained
        if batch.notifications and batch.notifications[0].key.startswith(ledger.prefix)
    ]
    assert not is_all or len(told) == len(ledger.history), "notifications are missing or too many"
    assert len(told) <= len(ledger.history)
    for found, wanted in zip(reversed(told), reversed(ledger.history), strict=False):
        assert found.keys() == wanted.keys(), (found, wanted)
        for key, news in wanted.items():
            check_notification(found[key], news)


def check_notification(found: pb.Notification, news: News) -> None:
    range_end = found.key_range_last if found.HasField("key_range_last") else None
    assert (found.type, range_end) == (news.type, news.range_end), (found, news)
    assert found.HasField("version_id") == (news.type in (pb.KEY_CREATED, pb.KEY_MODIFIED)), found
    assert news.version is None or found.version_id == news.version, (found, news)


def check_last_news(retained: Sequence[pb.NotificationBatch], records: Sequence[pb.GetResponse]) -> None:
    """Who follows the notifications knows the version of every record, and which are gone."""
    known: dict[bytes, int | None] = {}
    for batch in retained:
        for entry in batch.notifications:
            if entry.value.type == pb.KEY_RANGE_DELETED:
                start, end = entry.key, entry.value.key_range_last
                known.update({key: None for key in known if start <= key < end})
            else:
                known[entry.key] = entry.value.version_id if entry.value.HasField("version_id") else None
    versions = {record.key: record.version.version_id for record in records}
    assert {key: versions.get(key) for key in known} == known
