"""What goes on: the changes of all shards with their offsets, and the newest keys of a sequence."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from metastore.client import wire
from metastore.client.answers import notification_batch
from metastore.client.channel import AnswerStream, Connection
from metastore.client.errors import ClientError, Unavailable
from metastore.client.failures import Action
from metastore.client.values import NotificationBatch
from metastore.pb import oxia_pb2 as pb

WAITING_BATCHES_MAX = 1_000
"""Batches held for a slow reader; beyond that the servers have to wait for it."""


class Mailbox:
    """Hands batches from the shards' threads to the reader: bounded, in order, an error last."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batches: deque[NotificationBatch] = deque()
        self._error: ClientError | None = None
        self._closed = False

    def put(self, batch: NotificationBatch) -> bool:
        """Waits for room; False if nobody will take the batch any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._batches) < WAITING_BATCHES_MAX)
            if self._closed:
                return False
            self._batches.append(batch)
            self._changed.notify_all()
            return True

    def fail(self, error: ClientError) -> None:
        """The first error is the last thing that the reader gets."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def take(self) -> NotificationBatch | None:
        """The next batch, waited for; None when closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._batches or self._error)
            if self._closed:
                return None
            if self._batches:
                self._changed.notify_all()
                return self._batches.popleft()
            assert self._error is not None
            raise self._error

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._batches.clear()
            self._changed.notify_all()


class NotificationStream:
    """The changes of all shards, as batches; each shard's in order, the shards interleaved as they come.

    It begins with what happens after it was made, or after an offset for each shard. When it fails,
    `offsets` is where to go on: nothing that was not delivered is before it.
    """

    def __init__(self, connection: Connection, after: Mapping[int, int]) -> None:
        self.offsets: dict[int, int] = dict(after)
        self._mailbox = Mailbox()
        self._streams: dict[int, AnswerStream[pb.NotificationBatch]] = {}
        try:
            for shard in connection.shards():
                self._streams[shard.shard_id] = self._subscribe(connection, shard.shard_id)
            for shard_id in self._streams.keys() - after.keys():
                self.offsets[shard_id] = self._first_offset(shard_id)
        except BaseException:
            self.close()
            raise
        self._threads = [
            threading.Thread(
                target=self._forward, args=(shard_id,), name=f"notifications {shard_id}", daemon=True
            )
            for shard_id in self._streams
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> NotificationBatch:
        batch = self._mailbox.take()
        if batch is None:
            raise StopIteration
        self.offsets[batch.shard_id] = batch.offset
        return batch

    def close(self) -> None:
        """Ends the subscriptions; what was not read yet is dropped. Any thread may do it."""
        self._mailbox.close()
        for stream in self._streams.values():
            stream.close()

    def _subscribe(self, connection: Connection, shard_id: int) -> AnswerStream[pb.NotificationBatch]:
        start = self.offsets.get(shard_id)
        return connection.stream(
            shard_id,
            wire.NOTIFICATIONS,
            pb.NotificationsRequest(shard=shard_id, start_offset_exclusive=start),
            Action(f"notifications of shard {shard_id}"),
            # Only a subscription that starts now is confirmed at once.
            first_within_s=connection.request_timeout_s if start is None else None,
        )

    def _first_offset(self, shard_id: int) -> int:
        """The first batch tells where a subscription without an offset begins, whatever else it may hold."""
        for message in self._streams[shard_id]:
            return message.offset
        raise ended(f"notifications of shard {shard_id}")

    def _forward(self, shard_id: int) -> None:
        start = self.offsets[shard_id]
        try:
            for message in self._streams[shard_id]:
                batch = notification_batch(message)
                confirmation = batch.offset == start and not batch.notifications
                if not confirmation and not self._mailbox.put(batch):
                    return
            raise ended(f"notifications of shard {shard_id}")
        except ClientError as error:
            self._mailbox.fail(error)


class SequenceUpdates:
    """The greatest key of a sequence, if there is one, and then each new one.

    Some are left out when the reader is slow, never the last.
    """

    def __init__(self, connection: Connection, prefix: str, partition_key: str) -> None:
        shard_id = connection.owner(partition_key)
        self._what = f"updates of sequence {prefix!r}"
        request = pb.GetSequenceUpdatesRequest(shard=shard_id, key=wire.to_wire(prefix))
        self._stream = connection.stream(shard_id, wire.SEQUENCE_UPDATES, request, Action(self._what))
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        for message in self._stream:
            if message.highest_sequence_key:
                return wire.from_wire(message.highest_sequence_key)
        if self._closed:
            raise StopIteration
        raise ended(self._what)

    def close(self) -> None:
        """Ends the subscription. Any thread may do it."""
        self._closed = True
        self._stream.close()


def ended(what: str) -> Unavailable:
    """A stream that never ends was ended by the server."""
    return Unavailable(f"{what}: the server ended the stream: subscribe again")
