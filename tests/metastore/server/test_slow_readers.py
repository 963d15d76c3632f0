"""Clients that do not read: they hold up nobody else, and what waits for them is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import grpc
import pytest
from server_helpers import eventually

from metastore.directory import Namespace
from metastore.engine.shard import Shard
from metastore.pb import oxia_pb2 as pb
from metastore.server.calls import AHEAD_MESSAGES_MAX, StreamedAnswer
from metastore.server.host import Host, ShardHost
from metastore.server.router import Router
from metastore.server.security import Authenticator
from metastore.server.streams import UNANSWERED_MAX, NotificationsCall, WriteStreamCall
from metastore.server.transport import GrpcServer
from support.ports import LOOPBACK
from support.wire import CALL_TIMEOUT_S, CURRENT_SERVICE, METHODS, WireClient

UNDER_WAY_MAX = 4
"""Messages that have left the server but not reached the reader: one being sent, and what the connection holds."""


@dataclass
class Serving:
    """A server in this process: what its handlers hold can be looked at."""

    shard: Shard
    router: Router
    wire: WireClient
    errors: list[BaseException]

    def open_unread(self, method: str, request: Any, metadata: Any = ()) -> Any:
        """Begins a call and reads nothing of it; a queue as the request is what the client streams."""
        channel: Any = self.wire.channel()
        path = f"/{CURRENT_SERVICE}/{method}"
        if isinstance(request, SimpleQueue):
            return channel.stream_stream(path)(iter(request.get, None), CALL_TIMEOUT_S * 4, metadata)
        return channel.unary_stream(path)(request.SerializeToString(), CALL_TIMEOUT_S * 4, metadata)

    def handler(self, kind: type[Any]) -> Any:
        """The handler of the one open call of this kind, as soon as there is one."""
        eventually(lambda: any(isinstance(each, kind) for each in self.router.open_calls()), f"a {kind.__name__}")
        (found,) = [each for each in self.router.open_calls() if isinstance(each, kind)]
        return found

    def put(self, key: bytes, value: bytes = b"") -> None:
        request = pb.WriteRequest(shard=0, puts=[pb.PutRequest(key=key, value=value)])
        assert self.wire.call("Write", request).only.puts[0].status == pb.OK

    def use(self) -> None:
        """Other calls, each of which must come to its end."""
        self.put(b"other", b"value")
        read = pb.ReadRequest(shard=0, gets=[pb.GetRequest(key=b"other")])
        assert self.wire.call("Read", read).only.gets[0].status == pb.OK
        scan = pb.RangeScanRequest(shard=0, start_inclusive=b"other", end_exclusive=b"other0")
        assert len(self.wire.call("RangeScan", scan).only.records) == 1


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    namespace = Namespace("default", 0, 1, "hierarchical", True)
    errors: list[BaseException] = []
    with Shard.open(tmp_path) as shard:
        host = Host([namespace], {0: ShardHost(0, namespace, shard)}, {})
        router = Router(host, Authenticator(), lambda _, error: errors.append(error), {})
        server = GrpcServer(router, on_error=lambda _, error: errors.append(error))
        port = server.add_port(f"{LOOPBACK}:0")
        server.start()
        try:
            with WireClient(f"{LOOPBACK}:{port}") as wire:
                yield Serving(shard, router, wire, errors)
        finally:
            server.stop(0.0)
    assert errors == []


def rest(call: Any, method: str) -> list[Any]:
    """What a reader gets that reads at last."""
    return [METHODS[method].response.FromString(data) for data in call]


def test_a_scan_that_is_not_read(serving: Serving) -> None:
    values = {b"scanned-%03d" % place: bytes([place]) * (1 << 20) for place in range(48)}
    for key, value in values.items():
        serving.put(key, value)
    request = pb.RangeScanRequest(shard=0, start_inclusive=b"scanned-", end_exclusive=b"scanned0")
    call = serving.open_unread("RangeScan", request)
    handler = serving.handler(StreamedAnswer)
    eventually(lambda: handler.produced >= AHEAD_MESSAGES_MAX, "the first messages")
    for _ in range(20):
        serving.use()
        assert 1 <= handler.call.unsent_count <= AHEAD_MESSAGES_MAX
    assert handler.produced <= AHEAD_MESSAGES_MAX + UNDER_WAY_MAX
    messages = rest(call, "RangeScan")
    assert len(messages) > 2 * (AHEAD_MESSAGES_MAX + UNDER_WAY_MAX), "else nothing had to wait"
    assert {record.key: record.value for message in messages for record in message.records} == values


def test_a_subscriber_that_does_not_read(serving: Serving) -> None:
    call = serving.open_unread("GetNotifications", pb.NotificationsRequest(shard=0, start_offset_exclusive=-1))
    handler = serving.handler(NotificationsCall)
    keys = [b"%03d-" % place + b"k" * (100 << 10) for place in range(200)]
    for key in keys:
        serving.put(key)
        assert handler.call.unsent_count <= AHEAD_MESSAGES_MAX + UNDER_WAY_MAX
    for _ in range(20):
        serving.use()
        assert 1 <= handler.call.unsent_count <= AHEAD_MESSAGES_MAX + UNDER_WAY_MAX
    assert handler.lag > len(keys) // 2
    received = []
    for data in call:
        batch = pb.NotificationBatch.FromString(data)
        received += [entry.key for entry in batch.notifications]
        if batch.offset == serving.shard.next_offset - 1:
            break
    assert received == [*keys, *[b"other"] * 20]
    assert handler.lag == 0
    call.cancel()


def test_a_write_stream_whose_answers_are_not_read(serving: Serving) -> None:
    requests: SimpleQueue[bytes | None] = SimpleQueue()
    count = 4 * UNANSWERED_MAX
    identity = b"i" * 8000  # comes back in every answer
    for place in range(count):
        put = pb.PutRequest(key=b"key-%d" % (place % 100), client_identity=identity)
        requests.put(pb.WriteRequest(puts=[put]).SerializeToString())
    requests.put(None)
    call = serving.open_unread("WriteStream", requests, (("shard-id", "0"), ("namespace", "default")))
    handler = serving.handler(WriteStreamCall)
    # All that was read is answered, and still the backlog is full: only the reader can change that.
    eventually(lambda: handler.is_paused and handler.backlog == handler.call.unsent_count, "answers that wait")
    assert UNANSWERED_MAX // 2 <= handler.backlog <= UNANSWERED_MAX
    written = serving.shard.next_offset
    assert written < count // 2
    for _ in range(20):
        serving.use()
    assert serving.shard.next_offset == written + 20, "the server reads on although its answers are not read"
    assert handler.backlog <= UNANSWERED_MAX
    answers = rest(call, "WriteStream")
    assert len(answers) == count
    versions = [answer.puts[0].version.version_id for answer in answers]
    assert versions == sorted(versions)
    assert call.code() is grpc.StatusCode.OK
