"""ZooKeeper: a node per record below its folder, multis for batches, children instead of ranges."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from loadtest.bench.model import BenchError
from loadtest.bench.peers import jute
from loadtest.bench.peers.etcd import FOLDERS, from_place
from loadtest.bench.peers.work import BATCH, BATCH_WINDOW, CHILDREN, READS_PER_WRITE, RECORDS, WINDOW, Work, known
from loadtest.bench.servers import Program
from loadtest.bench.workload import (
    KEY_ROOT,
    SEED,
    VALUE_BYTES,
    Mixed,
    Requests,
    Workload,
    expect,
    folder_start,
    record_key,
    record_numbers,
)

CLIENT = "jute"


@dataclass(frozen=True)
class ZookeeperWork:
    """One kind of requests over one connection; `method` is for messages only."""

    method: str
    window: int = 1
    operations: int = 1
    is_stream: bool = False

    def requests(self, turn: int) -> Requests:
        if self.method == "fill":
            return _fill()
        if self.method == "session":
            return itertools.repeat(b"a session, please")
        if self.method == "children":
            fields = (jute.read_fields(folder_start(number)[:-1]) for number in range(FOLDERS))
            return itertools.cycle([jute.request(jute.CHILDREN, each) for each in fields])
        pool = {"get": _gets, "scan": _scans, "set": _sets, "delivery": _sets, "multi": _multis}[self.method]
        return from_place(pool(), turn)

    def check(self, answer: Sequence[bytes]) -> None:
        expect("answers", len(answer), 1)
        (body,) = answer
        if self.method == "get":
            expect("bytes read", len(jute.value_of(body)), VALUE_BYTES)
        elif self.method == "set":
            expect("bytes about a node", len(body), jute.STAT_BYTES)
        elif self.method == "children":
            expect("names listed", len(jute.names_of(body)), CHILDREN)
        elif self.method == "scan":
            expect("values read", sum(len(value) == VALUE_BYTES for _, value in jute.results_of(body)), CHILDREN)
        elif self.method == "multi":
            expect("nodes set", sum(kind == jute.SET for kind, _ in jute.results_of(body)), self.operations)
        elif self.method == "session" and jute.session_of(body) == 0:
            raise BenchError("wrong answer: no session")


@dataclass(frozen=True)
class ZookeeperDialect:
    """A ZooKeeper, standalone."""

    program: Program

    def fill(self) -> Work:
        return Work(ZookeeperWork("fill", window=4), CLIENT)

    def work(self, kind: str) -> Work:
        get, put = ZookeeperWork("get"), ZookeeperWork("set")
        works: dict[str, Workload] = {
            "put-one": put,
            "put-64": ZookeeperWork("set", WINDOW),
            "put-100": ZookeeperWork("multi", BATCH_WINDOW, BATCH),
            "get-one": get,
            "get-64": ZookeeperWork("get", WINDOW),
            "children": ZookeeperWork("children", operations=CHILDREN),
            "scan": ZookeeperWork("scan", operations=CHILDREN),
            "mixed": Mixed(get, put, READS_PER_WRITE, WINDOW),
            "delivery": ZookeeperWork("delivery"),
            "session": ZookeeperWork("session"),
        }
        special = {"delivery": "jute-delivery", "session": "jute-session"}
        return Work(works[known(kind)], special.get(kind, CLIENT))


def _fill() -> Iterator[bytes]:
    """The nodes above, folder by folder, and the records by multis."""
    for parent in (KEY_ROOT.rpartition(b"/")[0], KEY_ROOT):
        yield jute.request(jute.CREATE, jute.create_fields(parent, b""))
    source = random.Random(SEED + 2)
    for folder in range(FOLDERS):
        yield jute.request(jute.CREATE, jute.create_fields(folder_start(folder)[:-1], b""))
        for first in range(folder * CHILDREN, (folder + 1) * CHILDREN, BATCH):
            numbers = range(first, first + BATCH)
            nodes = [jute.create_fields(record_key(each), source.randbytes(VALUE_BYTES)) for each in numbers]
            yield jute.multi_request(jute.MULTI, jute.CREATE, nodes)


@lru_cache(maxsize=1)
def _set_fields() -> tuple[bytes, ...]:
    source = random.Random(SEED + 1)
    numbers = record_numbers(RECORDS, "shuffled")
    return tuple(jute.set_fields(record_key(number), source.randbytes(VALUE_BYTES)) for number in numbers)


@lru_cache(maxsize=1)
def _sets() -> tuple[bytes, ...]:
    return tuple(jute.request(jute.SET, fields) for fields in _set_fields())


@lru_cache(maxsize=1)
def _multis() -> tuple[bytes, ...]:
    fields = _set_fields()
    parts = (fields[first : first + BATCH] for first in range(0, RECORDS, BATCH))
    return tuple(jute.multi_request(jute.MULTI, jute.SET, part) for part in parts)


@lru_cache(maxsize=1)
def _gets() -> tuple[bytes, ...]:
    numbers = record_numbers(RECORDS, "random")
    return tuple(jute.request(jute.GET, jute.read_fields(record_key(number))) for number in numbers)


@lru_cache(maxsize=1)
def _scans() -> tuple[bytes, ...]:
    """The records of a folder by their names, which a program would have to ask for before."""
    folders = (range(folder * CHILDREN, (folder + 1) * CHILDREN) for folder in range(FOLDERS))
    names = ([jute.read_fields(record_key(number)) for number in numbers] for numbers in folders)
    return tuple(jute.multi_request(jute.MULTI_READ, jute.GET, each) for each in names)
