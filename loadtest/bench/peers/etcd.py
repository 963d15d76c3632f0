"""etcd: a unary call each, transactions for batches, reads as they come (linearizable)."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from loadtest.bench.model import BenchError
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
    SEED,
    STARTING_PLACES,
    VALUE_BYTES,
    Mixed,
    Requests,
    Workload,
    expect,
    folder_start,
    record_key,
    record_numbers,
)
from loadtest.pb import etcd_pb2 as pb

RANGE = "/etcdserverpb.KV/Range"
PUT = "/etcdserverpb.KV/Put"
TXN = "/etcdserverpb.KV/Txn"
FOLDERS = RECORDS // CHILDREN


@dataclass(frozen=True)
class EtcdWork:
    """One kind of unary calls."""

    kind: str
    method: str
    window: int = 1
    operations: int = 1
    is_stream: bool = False

    def requests(self, turn: int) -> Requests:
        if self.kind in ("put", "txn"):
            return from_place(_puts(self.operations), turn)
        if self.kind == "get":
            return from_place(_gets(), turn)
        if self.kind == "fill":
            return (_txn(range(first, first + BATCH), first) for first in range(0, RECORDS, BATCH))
        if self.kind == "lease":
            return itertools.repeat(pb.LeaseGrantRequest(TTL=SESSION_TIMEOUT_MS // 1000).SerializeToString())
        return itertools.cycle([self._folder(number) for number in range(FOLDERS)])

    def _folder(self, number: int) -> bytes:
        request = pb.RangeRequest(key=folder_start(number), range_end=folder_start(number + 1))
        request.keys_only = self.kind == "children"
        return request.SerializeToString()

    def check(self, answer: Sequence[bytes]) -> None:
        expect("answers", len(answer), 1)
        if self.kind == "put":
            if pb.PutResponse.FromString(answer[0]).header.revision < 1:
                raise BenchError("wrong answer: a put without a revision")
        elif self.kind in ("txn", "fill"):
            txn = pb.TxnResponse.FromString(answer[0])
            puts = sum(each.HasField("response_put") for each in txn.responses)
            expect("puts done", puts if txn.succeeded else 0, self.operations)
        elif self.kind == "lease":
            if pb.LeaseGrantResponse.FromString(answer[0]).ID == 0:
                raise BenchError("wrong answer: a lease without an id")
        else:
            size = 0 if self.kind == "children" else VALUE_BYTES
            found = pb.RangeResponse.FromString(answer[0]).kvs
            expect("records found", sum(len(each.value) == size for each in found), self.operations)


SINGLE_PUT = EtcdWork("put", PUT)


@dataclass(frozen=True)
class EtcdWatching(Watching):
    """The watch of the range of all records."""

    put: EtcdWork = SINGLE_PUT
    watch_method: str = "/etcdserverpb.Watch/Watch"

    def watch_request(self) -> bytes:
        # To the end of all folders: puts go to any of them.
        create = pb.WatchCreateRequest(key=folder_start(0), range_end=folder_start(FOLDERS))
        return pb.WatchRequest(create_request=create).SerializeToString()

    def events(self, message: bytes) -> int:
        return len(pb.WatchResponse.FromString(message).events)


@dataclass(frozen=True)
class EtcdDialect:
    """An etcd, one member."""

    program: Program

    def fill(self) -> Work:
        return Work(EtcdWork("fill", TXN, window=4, operations=BATCH))

    def work(self, kind: str) -> Work:
        get, put = EtcdWork("get", RANGE), EtcdWork("put", PUT)
        works: dict[str, Workload] = {
            "put-one": put,
            "put-64": EtcdWork("put", PUT, WINDOW),
            "put-100": EtcdWork("txn", TXN, BATCH_WINDOW, BATCH),
            "get-one": get,
            "get-64": EtcdWork("get", RANGE, WINDOW),
            "children": EtcdWork("children", RANGE, operations=CHILDREN),
            "scan": EtcdWork("scan", RANGE, operations=CHILDREN),
            "mixed": Mixed(get, put, READS_PER_WRITE, WINDOW),
            "delivery": EtcdWatching(),
            "session": EtcdWork("lease", "/etcdserverpb.Lease/LeaseGrant"),
        }
        return Work(works[known(kind)], "lean-delivery" if kind == "delivery" else None)


def from_place(pool: Sequence[bytes], turn: int) -> Requests:
    """Round and round a pool; every turn starts at another place."""
    start = turn % STARTING_PLACES * len(pool) // STARTING_PLACES
    return itertools.cycle([*pool[start:], *pool[:start]])


@lru_cache(maxsize=2)
def _puts(batch: int) -> tuple[bytes, ...]:
    """Requests of so many puts; within one no record comes twice, which an etcd would refuse."""
    numbers = record_numbers(RECORDS, "shuffled")
    parts = [numbers[first : first + batch] for first in range(0, len(numbers) - batch + 1, batch)]
    if batch > 1:
        return tuple(_txn(part, place) for place, part in enumerate(parts))
    source = random.Random(SEED + 1)
    return tuple(
        pb.PutRequest(key=record_key(number), value=source.randbytes(VALUE_BYTES)).SerializeToString()
        for number in numbers
    )


def _txn(numbers: Sequence[int], seed: int) -> bytes:
    source = random.Random(SEED + seed)
    puts = [pb.PutRequest(key=record_key(number), value=source.randbytes(VALUE_BYTES)) for number in numbers]
    return pb.TxnRequest(success=[pb.RequestOp(request_put=put) for put in puts]).SerializeToString()


@lru_cache(maxsize=1)
def _gets() -> tuple[bytes, ...]:
    numbers = record_numbers(RECORDS, "random")
    return tuple(pb.RangeRequest(key=record_key(number)).SerializeToString() for number in numbers)
