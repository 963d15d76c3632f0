"""The calls that stay open: write streams, notifications, sequence updates, shard assignments.

Each has bounds of its own: a write stream stops reading while too much is unanswered; a subscriber is fed from the
log at its own pace, so one that is ten million changes behind costs no more memory than one that is up to date.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from metastore.engine.operations import WriteResult
from metastore.engine.rounds import Chain
from metastore.engine.routing import hash_ranges
from metastore.pb import oxia_pb2
from metastore.server import wire
from metastore.server.calls import AHEAD_MESSAGES_MAX, OneRequest, Report, parse
from metastore.server.errors import invalid, notifications_disabled, unavailable
from metastore.server.host import Host, ShardHost
from metastore.server.transport import Call

UNANSWERED_MAX = 1024
"""Requests of one write stream that may wait for their answers, and answers for their reader; then the server stops
reading it."""
NOTIFICATION_READ_BYTES = 256 << 10
"""Log that a subscriber reads at a time."""
SEQUENCE_KEYS_MAX = 64
"""New keys that wait for the reader of a sequence; beyond that only the latest counts."""
SHARD_DIGITS_MAX = 19


class OpenCall(OneRequest):
    """A call that ends only when the client or the server goes away."""

    def shut_down(self) -> None:
        """The server is about to stop."""
        self.fail(unavailable())

    def on_shard_stopped(self, host: ShardHost, failure: BaseException) -> None:
        """A shard has stopped itself; whoever would wait for its news for ever is let go."""


class WriteStreamCall(OpenCall):
    """WriteStream: pipelined writes, answered in order. A failing one ends the stream and is the last one applied."""

    def __init__(self, call: Call, host: Host, report: Report) -> None:
        super().__init__(call, host, report)
        self._lock = threading.Lock()
        self._chain = Chain()
        self._unanswered = 0
        self._error: BaseException | None = None
        self._is_half_closed = False
        self.is_paused = False
        """Whether the server has stopped reading the stream."""
        self._shard: ShardHost | None = None

    @property
    def backlog(self) -> int:
        """Requests that are not answered yet, and answers that are not passed on yet."""
        return self._unanswered + self.call.unsent_count

    def begin(self) -> None:
        """Judges the headers, before any message."""
        self.guarded(self._read_headers)

    def _read_headers(self) -> None:
        shard_id = _only_header(self.call, "shard-id")
        _only_header(self.call, "namespace")
        digits = shard_id.removeprefix("-")
        if not digits.isascii() or not digits.isdigit():
            raise invalid(f"the header 'shard-id' must be a decimal number, got {shard_id!r}")
        if len(digits) > SHARD_DIGITS_MAX or not -(1 << 63) <= int(shard_id) < 1 << 63:
            raise invalid(f"the header 'shard-id' is out of range: {shard_id!r}")
        self._shard = self.host.shard(int(shard_id))

    def handle(self, message: bytes) -> None:
        if self._shard is None or self._error is not None:
            return
        with self._lock:
            self._unanswered += 1
            if self.backlog >= UNANSWERED_MAX:
                self.is_paused = True
                self.call.pause_receiving()
        try:
            _, batch = wire.decode_write(message)
            self._shard.shard.submit_write(batch, self._done, self._chain)
        except Exception as error:
            self._chain.is_broken = True
            self._done(None, error)

    def _done(self, result: WriteResult | None, error: BaseException | None) -> None:
        if result is not None:
            self.call.send(wire.encode_write_result(result))
        with self._lock:
            self._unanswered -= 1
            if error is not None and self._error is None:
                self._error = error
            is_idle = not self._unanswered
        if is_idle and self._error is not None:
            self.fail(self._error)
        elif is_idle and self._is_half_closed:
            self.call.finish()
        else:
            self._resume()

    def _resume(self) -> None:
        """Reads on if the backlog has shrunk."""
        with self._lock:
            if not self.is_paused or self.backlog >= UNANSWERED_MAX // 2:
                return
            self.is_paused = False
        self.call.resume_receiving()

    def on_drained(self) -> None:
        self._resume()

    def on_half_close(self) -> None:
        with self._lock:
            self._is_half_closed = True
            is_idle = not self._unanswered
        if is_idle:
            self.call.finish()


def _only_header(call: Call, name: str) -> str:
    values = [value for key, value in call.metadata if key == name]
    if not values:
        raise invalid(f"Request must include '{name}' metadata field")
    if len(values) > 1:
        raise invalid(f"Request must include '{name}' metadata field only once")
    value = values[0]
    return value if isinstance(value, str) else value.decode("latin-1")


class Pump(OpenCall):
    """A stream that is fed whenever there is news and its reader has room; by one thread at a time."""

    def __init__(self, call: Call, host: Host, report: Report) -> None:
        super().__init__(call, host, report)
        self._state = threading.Lock()
        self._is_running = False
        self._is_wanted = False

    def wake(self) -> None:
        """There may be news. Whoever is feeding already looks again."""
        with self._state:
            self._is_wanted = True
            if self._is_running:
                return
            self._is_running = True
        self.guarded(self._run)

    def on_drained(self) -> None:
        self.wake()

    def _run(self) -> None:
        while True:
            with self._state:
                if not self._is_wanted or self.call.is_finished:
                    self._is_running = False
                    return
                self._is_wanted = False
            while self.call.unsent_count < AHEAD_MESSAGES_MAX and self.feed():
                pass

    def feed(self) -> bool:
        """Sends the next news; False if there are none."""
        raise NotImplementedError

    def follows(self, host: ShardHost) -> bool:
        """Whether its news come from this shard."""
        raise NotImplementedError

    def on_shard_stopped(self, host: ShardHost, failure: BaseException) -> None:
        if self.follows(host):
            self.fail(unavailable(f"the shard stopped: {failure}"))


class NotificationsCall(Pump):
    """GetNotifications: from an offset on, or from now on."""

    def __init__(self, call: Call, host: Host, report: Report) -> None:
        super().__init__(call, host, report)
        self._shard: ShardHost | None = None
        self._next_offset = 0

    def handle(self, message: bytes) -> None:
        request = parse(oxia_pb2.NotificationsRequest, message)
        host = self.host.shard(request.shard)
        if not host.namespace.notifications_enabled:
            raise notifications_disabled()
        if request.HasField("start_offset_exclusive"):
            greeting = request.start_offset_exclusive
        else:
            greeting = host.shard.next_offset - 1
        self._next_offset = max(greeting, -1) + 1
        self._shard = host
        first = oxia_pb2.NotificationBatch(shard=host.shard_id, offset=greeting)
        self.call.send(first.SerializeToString())
        host.follow(self.wake)
        self.wake()

    def feed(self) -> bool:
        assert self._shard is not None
        batches = self._shard.shard.notifications(self._next_offset, NOTIFICATION_READ_BYTES)
        for batch in batches:
            self.call.send(wire.encode_notifications(self._shard.shard_id, batch))
            self._next_offset = batch.offset + 1
        return bool(batches)

    def follows(self, host: ShardHost) -> bool:
        return host is self._shard

    @property
    def lag(self) -> int:
        """How many write requests this subscriber is behind."""
        return 0 if self._shard is None else max(0, self._shard.shard.next_offset - self._next_offset)

    def on_over(self) -> None:
        if self._shard is not None:
            self._shard.unfollow(self.wake)


class SequenceUpdatesCall(Pump):
    """GetSequenceUpdates: the newest key of a sequence, then each new one."""

    def __init__(self, call: Call, host: Host, report: Report) -> None:
        super().__init__(call, host, report)
        self._prefix = b""
        self._followed: list[ShardHost] = []
        self._keys: deque[bytes] = deque()
        self._sent = b""

    def handle(self, message: bytes) -> None:
        request = parse(oxia_pb2.GetSequenceUpdatesRequest, message)
        shard = self.host.shard(request.shard)
        self._prefix = request.key
        # Some clients never say which shard they mean: what asks for shard 0 gets the news of its neighbours too.
        self._followed = self.host.neighbours(shard) if request.shard == 0 else [shard]
        shard.shard.highest_sequence_key(self._prefix)  # refuses what can be no key
        for host in self._followed:
            host.sequences.follow(self._prefix, self._on_key)
        highest = [host.shard.highest_sequence_key(self._prefix) for host in self._followed]
        newest = max((key for key in highest if key is not None), default=None)
        if newest is not None and (not self._keys or newest < self._keys[0]):
            self._keys.appendleft(newest)
        self.wake()

    def _on_key(self, key: bytes) -> None:
        if len(self._keys) >= SEQUENCE_KEYS_MAX:
            self._keys.clear()
        self._keys.append(key)
        self.wake()

    def feed(self) -> bool:
        if not self._keys:
            return False
        key = self._keys.popleft()
        if key == self._sent:
            return True
        self._sent = key
        self.call.send(oxia_pb2.GetSequenceUpdatesResponse(highest_sequence_key=key).SerializeToString())
        return True

    def follows(self, host: ShardHost) -> bool:
        return host in self._followed

    def on_over(self) -> None:
        for host in self._followed:
            host.sequences.unfollow(self._prefix, self._on_key)


class ShardAssignmentsCall(OpenCall):
    """GetShardAssignments: one message, and then silence for as long as nothing changes."""

    def handle(self, message: bytes) -> None:
        request = parse(oxia_pb2.ShardAssignmentsRequest, message)
        namespace = self.host.namespace(request.namespace)
        assignments = [
            oxia_pb2.ShardAssignment(
                shard=shard_id,
                leader=self.leader(shard_id).encode(),
                int32_hash_range=oxia_pb2.Int32HashRange(min_hash_inclusive=low, max_hash_inclusive=high),
            )
            for shard_id, (low, high) in zip(namespace.shard_ids, hash_ranges(namespace.shards), strict=True)
        ]
        answer: Any = oxia_pb2.ShardAssignments()
        answer.namespaces[namespace.name].assignments.extend(assignments)
        answer.namespaces[namespace.name].shard_key_router = oxia_pb2.XXHASH3
        self.call.send(answer.SerializeToString())

    def leader(self, shard_id: int) -> str:
        """Where a client finds a shard: where it has come to itself, unless that is configured otherwise."""
        return self.host.leaders.get(shard_id, self.call.authority)

    def shut_down(self) -> None:
        self.call.finish()
