"""Notifications and sequence updates: on a real server, and where one breaks off."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import grpc
import pytest
from scripted_store import ScriptedStore, assignments, refuse

from metastore.client import streams
from metastore.client.client import Client
from metastore.client.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    NotificationsDisabled,
    Unavailable,
)
from metastore.client.streams import Mailbox, NotificationStream
from metastore.client.values import Notification, NotificationBatch, NotificationKind
from metastore.pb import oxia_pb2 as pb
from support.server import ServerProcess

WAIT_S = 30.0

CREATED, MODIFIED = NotificationKind.CREATED, NotificationKind.MODIFIED
DELETED, RANGE_DELETED = NotificationKind.DELETED, NotificationKind.RANGE_DELETED


def changes(stream: NotificationStream, prefix: str) -> Iterator[Notification]:
    """The changes below a path."""
    return (each for batch in stream for each in batch.notifications if each.key.startswith(prefix))


def test_every_change_is_told_with_its_version(client: Client, root: str) -> None:
    with client.notifications() as stream:
        created = client.put(root, b"1").version
        modified = client.put(root, b"2").version
        client.delete(root)
        assert list(islice(changes(stream, root), 3)) == [
            Notification(CREATED, root, created.version_id),
            Notification(MODIFIED, root, modified.version_id),
            Notification(DELETED, root),
        ]


def test_a_deleted_range_is_told_by_every_shard(client: Client, root: str) -> None:
    with client.notifications() as stream:
        client.delete_range(f"{root}/", f"{root}//")
        told = list(islice(changes(stream, root), len(client.shard_ids())))
        assert told == [Notification(RANGE_DELETED, f"{root}/", None, f"{root}//")] * 3


def test_a_new_subscription_tells_only_what_comes_after_it(client: Client, root: str) -> None:
    client.put(f"{root}/before", b"")
    with client.notifications() as stream:
        client.put(f"{root}/after", b"")
        assert next(changes(stream, root)).key == f"{root}/after"


def test_a_subscription_goes_on_where_another_ended(client: Client, root: str) -> None:
    keys = [f"{root}/{number:02}" for number in range(20)]
    with client.notifications() as stream:
        assert set(stream.offsets) == set(client.shard_ids())
        for key in keys[:10]:
            client.put(key, b"")
        seen = [change.key for change in islice(changes(stream, root), 5)]
        offsets = dict(stream.offsets)
    for key in keys[10:]:
        client.put(key, b"")
    with client.notifications(after=offsets) as stream:
        seen += [change.key for change in islice(changes(stream, root), 15)]
    assert sorted(seen) == keys


def test_history_is_told_from_its_beginning(client: Client, root: str) -> None:
    version = client.put(root, b"").version
    with client.notifications(after=dict.fromkeys(client.shard_ids(), -1)) as stream:
        assert next(changes(stream, root)) == Notification(CREATED, root, version.version_id)


def test_the_times_and_offsets_of_batches(client: Client, root: str) -> None:
    with client.notifications() as stream:
        before = dict(stream.offsets)
        version = client.put(root, b"").version
        batch = next(batch for batch in stream if batch.notifications)
    assert batch.timestamp_ms == version.modified_ms
    assert batch.offset > before[batch.shard_id]
    assert stream.offsets[batch.shard_id] == batch.offset


def test_a_closed_subscription_ends_its_reader(client: Client) -> None:
    stream = client.notifications()
    read: list[NotificationBatch] = []
    reader = threading.Thread(target=lambda: read.extend(stream))
    reader.start()
    stream.close()
    reader.join(WAIT_S)
    assert not reader.is_alive()


def test_a_namespace_without_notifications() -> None:
    server = ServerProcess(notifications=False)
    with server, Client(server.address) as client, pytest.raises(NotificationsDisabled):
        client.notifications()


def test_what_was_told_before_a_server_died_is_delivered_before_the_failure() -> None:
    with ServerProcess() as server, Client(server.address) as client:
        with client.notifications() as stream:
            client.put("a", b"")
            assert next(changes(stream, "")).key == "a"
            server.kill()
            with pytest.raises((ConnectionFailed, Unavailable)):
                next(stream)
            offsets = stream.offsets
        server.start()
        client.put("b", b"")
        with client.notifications(after=offsets) as stream:
            assert next(changes(stream, "")).key == "b"


def test_a_sequence_tells_its_greatest_key_and_each_new_one(client: Client, root: str) -> None:
    def append() -> str:
        return client.put(root, b"", partition_key=root, sequence_deltas=[1]).key

    append()
    second = append()
    with client.sequence_updates(root, partition_key=root) as updates:
        assert next(updates) == second
        assert [(append(), next(updates)) for _ in range(3)] == [
            (f"{root}-{number:020}", f"{root}-{number:020}") for number in (3, 4, 5)
        ]


def test_closed_sequence_updates_end_their_reader(client: Client, root: str) -> None:
    updates = client.sequence_updates(root, partition_key=root)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.extend(updates))
    reader.start()
    updates.close()
    reader.join(WAIT_S)
    assert not reader.is_alive()
    assert read == []


def entry(key: bytes) -> pb.NotificationEntry:
    return pb.NotificationEntry(key=key, value=pb.Notification(type=pb.KEY_CREATED, version_id=1))


def batches(*offsets: int) -> Callable[[Any, Any], Iterator[pb.NotificationBatch]]:
    """A stream that begins with an empty batch, tells a change at each offset, and ends."""

    def answer(request: Any, _context: grpc.ServicerContext) -> Iterator[pb.NotificationBatch]:
        yield pb.NotificationBatch(shard=request.shard, offset=offsets[0] - 1)
        for offset in offsets:
            yield pb.NotificationBatch(shard=request.shard, offset=offset, notifications=[entry(b"k")])

    return answer


def test_a_stream_that_the_server_ends_is_a_failure_behind_its_last_batch() -> None:
    with ScriptedStore() as store, Client(store.address) as client:
        store.answers["GetNotifications"] = batches(5, 6)
        with client.notifications() as stream:
            assert [next(stream).offset, next(stream).offset] == [5, 6]
            with pytest.raises(Unavailable, match="subscribe again"):
                next(stream)
            assert stream.offsets == {0: 6}
        store.answers["GetSequenceUpdates"] = lambda _request, _context: iter(
            [pb.GetSequenceUpdatesResponse(), pb.GetSequenceUpdatesResponse(highest_sequence_key=b"s-1")]
        )
        with client.sequence_updates("s", partition_key="p") as updates:
            assert next(updates) == "s-1"
            with pytest.raises(Unavailable, match="subscribe again"):
                next(updates)


def test_the_confirmation_of_an_offset_is_no_change() -> None:
    with ScriptedStore() as store, Client(store.address) as client:
        store.answers["GetNotifications"] = batches(5)
        with client.notifications(after={0: 4}) as stream:
            assert next(stream).offset == 5
    assert store.requests[-1][1].start_offset_exclusive == 4


def test_a_failure_of_one_shard_ends_the_subscription() -> None:
    with ScriptedStore() as store, Client(store.address) as client:
        store.answers["GetShardAssignments"] = lambda _request, _context: iter(
            [assignments(store.address, store.address)]
        )
        hold = threading.Event()

        def answer(request: Any, context: grpc.ServicerContext) -> Iterator[pb.NotificationBatch]:
            yield pb.NotificationBatch(shard=request.shard, offset=0)
            if request.shard == 1:
                refuse(context, grpc.StatusCode.UNAVAILABLE, "oxia: resource", "RESOURCE_UNAVAILABLE")
            context.add_callback(hold.set)
            hold.wait(WAIT_S)

        store.answers["GetNotifications"] = answer
        with client.notifications() as stream, pytest.raises(Unavailable, match="shard 1"):
            next(stream)
        assert hold.wait(WAIT_S), "the other shard's stream was not cancelled"


def test_a_subscription_that_is_not_confirmed_fails_in_time() -> None:
    released = threading.Event()

    def silent(_request: Any, _context: grpc.ServicerContext) -> Iterator[pb.NotificationBatch]:
        released.wait(WAIT_S)
        return iter(())

    with ScriptedStore() as store, Client(store.address, request_timeout_s=0.3) as client:
        store.answers["GetNotifications"] = silent
        with pytest.raises(DeadlineExceeded):
            client.notifications()
        released.set()


def batch(offset: int) -> NotificationBatch:
    return NotificationBatch(0, offset, 0, ())


def test_a_full_mailbox_makes_the_sender_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "WAITING_BATCHES_MAX", 2)
    mailbox = Mailbox()
    sent: list[int] = []

    def send() -> None:
        for offset in range(5):
            assert mailbox.put(batch(offset))
            sent.append(offset)

    sender = threading.Thread(target=send)
    sender.start()
    taken = []
    for _ in range(5):
        next_batch = mailbox.take()
        assert next_batch is not None
        taken.append(next_batch.offset)
        assert len(sent) <= len(taken) + 2
    sender.join(WAIT_S)
    assert taken == sent == [0, 1, 2, 3, 4]


def test_closing_a_mailbox_frees_a_waiting_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "WAITING_BATCHES_MAX", 1)
    mailbox = Mailbox()
    mailbox.put(batch(0))
    outcomes: list[bool] = []
    sender = threading.Thread(target=lambda: outcomes.append(mailbox.put(batch(1))))
    sender.start()
    mailbox.close()
    sender.join(WAIT_S)
    assert outcomes == [False]
    assert mailbox.take() is None


def test_a_mailbox_delivers_its_first_error_last() -> None:
    mailbox = Mailbox()
    mailbox.put(batch(0))
    mailbox.fail(Unavailable("first"))
    mailbox.fail(Unavailable("second"))
    assert mailbox.take() == batch(0)
    with pytest.raises(Unavailable, match="first"):
        mailbox.take()
