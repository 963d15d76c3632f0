"""The service beyond Oxia's protocol under test: shards behind a port of this process, a reader of watch streams."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from server_helpers import eventually

from metastore.clock import ManualClock
from metastore.directory import Namespace
from metastore.engine.shard import Shard, ShardOptions
from metastore.engine.store import StoreOptions
from metastore.log import LogOptions
from metastore.pb import oxia_pb2 as pb
from metastore.pb import tidemark_pb2 as tm
from metastore.server.host import Host, ShardHost
from metastore.server.router import OWN_SERVICE_NAME, Router
from metastore.server.security import Authenticator
from metastore.server.tidemark.progress import PROGRESS_INTERVAL_S
from metastore.server.tidemark.watch_stream import WatchCall
from metastore.server.transport import GrpcServer
from support.ports import LOOPBACK
from support.wire import CALL_TIMEOUT_S, Answer, Metadata, Stream, WireClient, methods_of

METHODS = methods_of(tm.DESCRIPTOR.services_by_name["Metastore"])
PLENTY = 1_000_000
IDENTITY = "0" * 32
LITTLE = ShardOptions(
    retention_ms=1_000,
    store=StoreOptions(generation_bytes=1 << 10, lag_bytes_max=8 << 10),
    log=LogOptions(segment_bytes_max=4 << 10, step_bytes_min=4 << 10, step_bytes_max=4 << 10, reserve_bytes=4 << 10),
)
"""A shard whose log rolls all the time, so that it can be trimmed."""


def call(wire: WireClient, method: str, request: Message | bytes, **options: Any) -> Answer:
    """A call of the service, to its end."""
    return wire.call(METHODS[method], request, service=OWN_SERVICE_NAME, **options)


def write(wire: WireClient, *puts: pb.PutRequest, deletes: tuple[bytes, ...] = (), shard: int = 0) -> list[int]:
    """Writes, as one request; returns the version ids."""
    request = pb.WriteRequest(shard=shard, puts=puts, deletes=[pb.DeleteRequest(key=key) for key in deletes])
    answer = wire.call("Write", request).only
    assert [each.status for each in (*answer.puts, *answer.deletes)] == [pb.OK] * (len(puts) + len(deletes))
    return [each.version.version_id for each in answer.puts]


def put(key: bytes, value: bytes = b"", indexes: tuple[tuple[bytes, bytes], ...] = (), **fields: Any) -> pb.PutRequest:
    entries = [pb.SecondaryIndex(index_name=name, secondary_key=secondary) for name, secondary in indexes]
    return pb.PutRequest(key=key, value=value, secondary_indexes=entries, **fields)


@dataclass(frozen=True)
class Told:
    """A change as a watch told it."""

    kind: str
    key: bytes
    value: bytes | None
    previous: bytes | None
    offset: int


def told(news: Any) -> list[Told]:
    """The changes of a WatchNews."""
    assert news.WhichOneof("news") == "changes", news
    return [
        Told(
            tm.ChangeKind.Name(change.kind),
            change.record.key if change.HasField("record") else change.key,
            change.record.value if change.HasField("record") else None,
            change.previous.value if change.HasField("previous") else None,
            each.offset,
        )
        for each in news.changes.writes
        for change in each.changes
    ]


class WatchStream:
    """A watch stream whose news are sorted by watch as they come."""

    def __init__(self, wire: WireClient, metadata: Metadata = ()) -> None:
        self.stream: Stream = wire.open(METHODS["Watch"], service=OWN_SERVICE_NAME, metadata=metadata)
        self.responses = 0
        self.marks: list[tm.WatchProgress] = []
        self._news: dict[int, deque[Any]] = defaultdict(deque)

    def create(self, watch_id: int, *, credit: int = PLENTY, shard: int = 0, **fields: Any) -> None:
        create = tm.CreateWatch(watch_id=watch_id, shard=shard, credit=credit, **fields)
        self.stream.send(tm.WatchRequest(create=create))

    def grant(self, watch_id: int, events: int) -> None:
        self.stream.send(tm.WatchRequest(grant=tm.GrantCredit(watch_id=watch_id, events=events)))

    def cancel(self, watch_id: int) -> None:
        self.stream.send(tm.WatchRequest(cancel=tm.CancelWatch(watch_id=watch_id)))

    def pull(self, timeout_s: float = CALL_TIMEOUT_S) -> Any:
        """Takes in one response."""
        response = self.stream.next(timeout_s)
        self.responses += 1
        for news in response.news:
            self._news[news.watch_id].append(news)
        self.marks += response.progress
        return response

    def next(self, watch_id: int) -> Any:
        """The next news of a watch."""
        while not self._news[watch_id]:
            self.pull()
        return self._news[watch_id].popleft()

    def waiting(self, watch_id: int) -> int:
        """How many news of a watch have come that nobody has looked at."""
        return len(self._news[watch_id])

    def opened(self, watch_id: int) -> int | None:
        """The resume offset of a watch that must be created next."""
        news = self.next(watch_id)
        assert news.WhichOneof("news") == "created", news
        return news.created.resume_offset if news.created.HasField("resume_offset") else None

    def snapshot(self, watch_id: int) -> tuple[dict[bytes, bytes], int]:
        """The records of the snapshot that must come next, and where it ends."""
        assert self.opened(watch_id) is None
        assert self.next(watch_id).WhichOneof("news") == "snapshot_begin"
        records: dict[bytes, bytes] = {}
        while True:
            news = self.next(watch_id)
            if news.WhichOneof("news") == "snapshot_end":
                return records, news.snapshot_end.resume_offset
            found = {record.key: record.value for record in news.snapshot_records.records}
            assert len(found) == len(news.snapshot_records.records)
            assert found.keys().isdisjoint(records)
            records |= found

    def changes(self, watch_id: int, count: int) -> list[Told]:
        """The next changes of a watch, so many at least."""
        found: list[Told] = []
        while len(found) < count:
            found += told(self.next(watch_id))
        return found

    def ended(self, watch_id: int) -> tm.WatchEnded:
        """How a watch ends that must end next."""
        news = self.next(watch_id)
        assert news.WhichOneof("news") == "ended", news
        ended: tm.WatchEnded = news.ended
        return ended

    def mark(self, fits: Callable[[tm.WatchProgress], bool]) -> tm.WatchProgress:
        """The first mark of progress of this kind."""
        looked = 0
        while True:
            for mark in self.marks[looked:]:
                if fits(mark):
                    return mark
            looked = len(self.marks)
            self.pull()


@dataclass
class Serving:
    """Shards behind a port in this process: what handlers hold can be looked at, and time stands still."""

    hosts: dict[int, ShardHost]
    router: Router
    wire: WireClient
    clock: ManualClock
    errors: list[BaseException]

    @property
    def shard(self) -> Shard:
        return self.hosts[0].shard

    def watch_calls(self) -> list[WatchCall]:
        return [each for each in self.router.open_calls() if isinstance(each, WatchCall)]

    def settle(self) -> None:
        """All that was written is told to those who follow the shards."""
        for host in self.hosts.values():
            eventually(lambda host=host: host.told_offset == host.shard.next_offset, "the end of a round")  # type: ignore[misc]

    def tick(self) -> None:
        """Time goes on, so far that progress is due."""
        self.clock.advance_ms(int(PROGRESS_INTERVAL_S * 1000))
        for each in self.watch_calls():
            each.tick(self.clock.monotonic_s())


@contextmanager
def serving(
    directory: Path,
    *,
    shards: int = 1,
    options: ShardOptions = ShardOptions(),  # noqa: B008 - immutable
    notifications: bool = True,
    leaders: dict[int, str] | None = None,
    authenticator: Authenticator | None = None,
) -> Iterator[Serving]:
    """Serves in this process; nothing unforeseen may happen."""
    namespace = Namespace("default", 0, shards, options.key_sorting, notifications)
    clock, errors, hosts = ManualClock(), list[BaseException](), dict[int, ShardHost]()
    with ExitStack() as undo:
        for shard_id in range(shards):
            shard = Shard.open(directory / f"{shard_id}", options, clock)
            hosts[shard_id] = ShardHost(shard_id, namespace, shard)
            undo.callback(hosts[shard_id].close, 60.0)
        host = Host([namespace], hosts, leaders or {}, IDENTITY, options.retention_ms)
        undo.callback(host.turns.close)
        undo.callback(host.bulk_turns.close)
        router = Router(host, authenticator or Authenticator(), lambda _, error: errors.append(error), {})
        server = GrpcServer(router, on_error=lambda _, error: errors.append(error))
        port = server.add_port(f"{LOOPBACK}:0")
        server.start()
        undo.callback(server.stop, 0.0)
        wire = undo.enter_context(WireClient(f"{LOOPBACK}:{port}"))
        yield Serving(hosts, router, wire, clock, errors)
    assert errors == []
