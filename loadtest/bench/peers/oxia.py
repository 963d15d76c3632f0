"""Tidemark and Oxia: the same requests, byte for byte, but for watches, of which Oxia has only notifications."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.bench.peers.delivery import Watching
from loadtest.bench.peers.work import (
    BATCH,
    BATCH_WINDOW,
    CHILDREN,
    READS_PER_WRITE,
    RECORDS,
    SESSION_TIMEOUT_MS,
    WINDOW,
    Work,
    known,
)
from loadtest.bench.servers import Program
from loadtest.bench.workload import (
    ALL_KEYS_END,
    SERVICE,
    STREAM_METADATA,
    Fill,
    Gets,
    Mixed,
    Puts,
    Requests,
    Scan,
    Sessions,
    Workload,
    expect,
    folder_start,
)
from metastore.pb import oxia_pb2 as pb
from metastore.pb import tidemark_pb2 as own

WATCH_ID = 1
WATCH_CREDIT = 100_000
"""More than a turn has events."""
SINGLE_PUT = Puts(1, 1, RECORDS, order="shuffled", is_stream=False)


@dataclass(frozen=True)
class Children:
    """Lists the keys of one folder after the other."""

    window: int = 1
    method: str = f"{SERVICE}/List"
    is_stream: bool = False
    operations: int = CHILDREN

    def requests(self, turn: int) -> Requests:
        folders = range(RECORDS // CHILDREN)
        return itertools.cycle(
            [
                pb.ListRequest(
                    shard=0, start_inclusive=folder_start(each), end_exclusive=folder_start(each + 1)
                ).SerializeToString()
                for each in folders
            ]
        )

    def check(self, answer: Sequence[bytes]) -> None:
        expect("keys listed", sum(len(pb.ListResponse.FromString(message).keys) for message in answer), CHILDREN)


@dataclass(frozen=True)
class RangeWatching(Watching):
    """Our watch of the range of all records."""

    put: Puts = SINGLE_PUT
    watch_method: str = "/tidemark.metastore.v1.Metastore/Watch"

    def watch_request(self) -> bytes:
        create = own.CreateWatch(
            watch_id=WATCH_ID,
            shard=0,
            start_inclusive=folder_start(0),
            end_exclusive=ALL_KEYS_END,
            beginning=own.NOW,
            credit=WATCH_CREDIT,
        )
        return own.WatchRequest(create=create).SerializeToString()

    def events(self, message: bytes) -> int:
        news = own.WatchResponse.FromString(message).news
        return sum(len(write.changes) for each in news for write in each.changes.writes)


@dataclass(frozen=True)
class Notifications(Watching):
    """Oxia's notifications: every change of the shard."""

    put: Puts = SINGLE_PUT
    watch_method: str = f"{SERVICE}/GetNotifications"
    is_one_request: bool = True

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return STREAM_METADATA

    def watch_request(self) -> bytes:
        return pb.NotificationsRequest(shard=0).SerializeToString()

    def events(self, message: bytes) -> int:
        return len(pb.NotificationBatch.FromString(message).notifications)


RANGE_WATCHING = RangeWatching()
NOTIFICATIONS = Notifications()


@dataclass(frozen=True)
class OxiaDialect:
    """A server that speaks Oxia's protocol."""

    program: Program
    watching: Watching

    def fill(self) -> Work:
        return Work(Fill(0, RECORDS))

    def work(self, kind: str) -> Work:
        works: dict[str, Workload] = {
            "put-one": Puts(1, 1, RECORDS, order="shuffled"),
            "put-64": Puts(1, WINDOW, RECORDS, order="shuffled"),
            "put-100": Puts(BATCH, BATCH_WINDOW, RECORDS, order="shuffled"),
            "get-one": Gets(1, 1, RECORDS),
            "get-64": Gets(1, WINDOW, RECORDS),
            "children": Children(),
            "scan": Scan(CHILDREN),
            "mixed": Mixed(
                Gets(1, 1, RECORDS), Puts(1, 1, RECORDS, order="shuffled", is_stream=False), READS_PER_WRITE, WINDOW
            ),
            "delivery": self.watching,
            "session": Sessions(SESSION_TIMEOUT_MS),
        }
        return Work(works[known(kind)], "lean-delivery" if kind == "delivery" else None)
