"""What is asked of a server, as bytes made before the clock starts, and how its answers are checked.

Serialized messages concatenate: a request of 100 puts is 100 requests of one put, joined. So every kind of
work keeps a pool of single operations, and a request of any size is a join.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from loadtest.bench.model import BenchError
from metastore.pb import oxia_pb2 as pb

SERVICE = "/io.oxia.proto.v1.OxiaClient"
ECHO_SERVICE = "/tidemark.bench.Echo"
STREAM_METADATA = (("shard-id", "0"), ("namespace", "default"))
SHARD = pb.WriteRequest(shard=0).SerializeToString()
VALUE_BYTES = 128
RECORDS_PER_FOLDER = 1_000
RECORDS_MAX = 99_999 * RECORDS_PER_FOLDER
POOL_OPERATIONS = 200_000
POOL_BYTES = 64 * 1024 * 1024
STARTING_PLACES = 8
FILL_BATCH = 1_000
INDEX_NAME = b"by-state"
STATES = 16
SEED = 20_240_229
KEY_ROOT = b"/bench/public"

Requests = Iterator[bytes]


@dataclass(frozen=True)
class Probe:
    """A small request that a server answers once it serves; without a method, bytes over a plain connection."""

    method: str
    request: bytes
    answer: bytes = b""
    """What it begins with, over a plain connection."""


STORE_PROBE = Probe(
    f"{SERVICE}/Read", pb.ReadRequest(shard=0, gets=[pb.GetRequest(key=b"/bench/probe")]).SerializeToString()
)
ECHO_PROBE = Probe(f"{ECHO_SERVICE}/Unary", b"probe")


class Workload(Protocol):
    """One kind of work. It crosses a process boundary, so it is a plain value."""

    @property
    def method(self) -> str:
        """The full name of the gRPC method."""

    @property
    def is_stream(self) -> bool:
        """Requests go over one bidirectional stream, not by a call each."""

    @property
    def window(self) -> int:
        """How many requests may be unanswered."""

    @property
    def operations(self) -> int:
        """How many operations, or records, one request is worth."""

    def requests(self, turn: int) -> Requests:
        """The requests of a turn, in order; they may end, or go on for ever."""

    def check(self, answer: Sequence[bytes]) -> None:
        """Raises BenchError unless the messages that answer one request are right."""


def record_key(number: int) -> bytes:
    """The key of a record; keys keep the order of their numbers, in both sortings."""
    assert number < RECORDS_MAX
    return b"%b/ns-%05d/topic-%08d" % (KEY_ROOT, number // RECORDS_PER_FOLDER, number)


def folder_start(number: int) -> bytes:
    """The lower bound of a folder's keys."""
    return b"%b/ns-%05d/" % (KEY_ROOT, number)


ALL_KEYS_END = KEY_ROOT + b"/ns-~/"


def record_numbers(records: int, order: str) -> Sequence[int]:
    """The numbers of a pool's records, a sample if they are many: in order, shuffled, or drawn at random."""
    if order == "sorted":
        return range(min(records, POOL_OPERATIONS))
    if order == "shuffled":
        return random.Random(SEED).sample(range(records), k=min(records, POOL_OPERATIONS))
    assert order == "random", order
    return random.Random(SEED).choices(range(records), k=POOL_OPERATIONS)


def put_request(number: int, value: bytes, state: int | None) -> bytes:
    """A write request of one put, without its shard; with a state it has an entry in the index."""
    put = pb.PutRequest(key=record_key(number), value=value)
    if state is not None:
        put.secondary_indexes.add(index_name=INDEX_NAME, secondary_key=b"state-%02d/%08d" % (state, number))
    return pb.WriteRequest(puts=[put]).SerializeToString()


@lru_cache(maxsize=2)
def put_pool(records: int, order: str, index: str, value_bytes: int = VALUE_BYTES) -> tuple[bytes, ...]:
    """Single puts. `index` is "none", "same" (a record keeps its entry) or "moving" (it gets another).

    Of large values the pool has fewer: it is kept in memory.
    """
    assert index in ("none", "same", "moving"), index
    source = random.Random(SEED + 1)

    def state_of(number: int) -> int | None:
        if index == "none":
            return None
        return number % STATES if index == "same" else source.randrange(STATES)

    return tuple(
        put_request(number, source.randbytes(value_bytes), state_of(number))
        for number in record_numbers(records, order)[: max(1, POOL_BYTES // value_bytes)]
    )


@lru_cache(maxsize=2)
def get_pool(records: int) -> tuple[bytes, ...]:
    """Single gets of random records, with their values."""
    return tuple(
        pb.ReadRequest(gets=[pb.GetRequest(key=record_key(number), include_value=True)]).SerializeToString()
        for number in record_numbers(records, "random")
    )


def batches(pool: Sequence[bytes], batch: int, turn: int) -> Requests:
    """Requests of `batch` operations, round and round the pool; every turn starts at another place."""
    usable = len(pool) - len(pool) % batch
    assert usable > 0
    start = turn % STARTING_PLACES * usable // STARTING_PLACES // batch * batch
    places = [*range(start, usable, batch), *range(0, start, batch)]
    return itertools.cycle([SHARD + b"".join(pool[place : place + batch]) for place in places])


@dataclass(frozen=True)
class Puts:
    """Overwrites records, by batches, pipelined on one stream or as unary calls."""

    batch: int
    window: int
    records: int
    order: str = "random"
    index: str = "none"
    is_stream: bool = True
    value_bytes: int = VALUE_BYTES

    @property
    def method(self) -> str:
        return f"{SERVICE}/WriteStream" if self.is_stream else f"{SERVICE}/Write"

    @property
    def operations(self) -> int:
        return self.batch

    def requests(self, turn: int) -> Requests:
        return batches(put_pool(self.records, self.order, self.index, self.value_bytes), self.batch, turn)

    def check(self, answer: Sequence[bytes]) -> None:
        check_puts(answer, self.batch)


@dataclass(frozen=True)
class Fill:
    """Writes the records from one number up to another, once, in order."""

    first: int
    end: int
    window: int = 4
    is_stream: bool = True
    method: str = f"{SERVICE}/WriteStream"
    operations: int = FILL_BATCH

    def __post_init__(self) -> None:
        assert self.first % FILL_BATCH == 0
        assert self.end % FILL_BATCH == 0

    def requests(self, turn: int) -> Requests:
        source = random.Random(SEED + 2)
        for first in range(self.first, self.end, FILL_BATCH):
            numbers = range(first, first + FILL_BATCH)
            puts = (put_request(number, source.randbytes(VALUE_BYTES), None) for number in numbers)
            yield SHARD + b"".join(puts)

    def check(self, answer: Sequence[bytes]) -> None:
        check_puts(answer, FILL_BATCH)


@dataclass(frozen=True)
class Gets:
    """Reads records that exist, by batches, a call each."""

    batch: int
    window: int
    records: int
    method: str = f"{SERVICE}/Read"
    is_stream: bool = False

    @property
    def operations(self) -> int:
        return self.batch

    def requests(self, turn: int) -> Requests:
        return batches(get_pool(self.records), self.batch, turn)

    def check(self, answer: Sequence[bytes]) -> None:
        gets = [get for message in answer for get in pb.ReadResponse.FromString(message).gets]
        found = sum(get.status == pb.OK and len(get.value) == VALUE_BYTES for get in gets)
        expect("records found", found, self.batch)


@dataclass(frozen=True)
class Scan:
    """Drains a range scan of the first records, key order, values and versions included."""

    operations: int
    window: int = 1
    method: str = f"{SERVICE}/RangeScan"
    is_stream: bool = False

    def __post_init__(self) -> None:
        assert self.operations % RECORDS_PER_FOLDER == 0

    def requests(self, turn: int) -> Requests:
        end = folder_start(self.operations // RECORDS_PER_FOLDER)
        request = pb.RangeScanRequest(shard=0, start_inclusive=folder_start(0), end_exclusive=end)
        return itertools.repeat(request.SerializeToString())

    def check(self, answer: Sequence[bytes]) -> None:
        records = [record for message in answer for record in pb.RangeScanResponse.FromString(message).records]
        expect("records scanned", len(records), self.operations)
        expect_keys((record.key for record in records), self.operations)


@dataclass(frozen=True)
class Listing:
    """Drains a list of all keys."""

    operations: int
    window: int = 1
    method: str = f"{SERVICE}/List"
    is_stream: bool = False

    def requests(self, turn: int) -> Requests:
        request = pb.ListRequest(shard=0, start_inclusive=folder_start(0), end_exclusive=ALL_KEYS_END)
        return itertools.repeat(request.SerializeToString())

    def check(self, answer: Sequence[bytes]) -> None:
        keys = [key for message in answer for key in pb.ListResponse.FromString(message).keys]
        expect("keys listed", len(keys), self.operations)
        expect_keys(keys, self.operations)


@dataclass(frozen=True)
class Mixed:
    """Reads and writes by turns, a call each: `reads` of the first for every write."""

    read: Workload
    write: Workload
    reads: int
    window: int
    is_stream: bool = False
    operations: int = 1

    def __post_init__(self) -> None:
        assert not self.read.is_stream
        assert not self.write.is_stream
        assert self.read.operations == self.write.operations == 1

    @property
    def methods(self) -> tuple[str, ...]:
        """Of the requests, round and round."""
        return (*[self.read.method] * self.reads, self.write.method)

    @property
    def method(self) -> str:
        return self.read.method

    def requests(self, turn: int) -> Requests:
        reads, writes = self.read.requests(turn), self.write.requests(turn)
        while True:
            yield from itertools.islice(reads, self.reads)
            yield next(writes)

    def check(self, answer: Sequence[bytes]) -> None:
        """A turn ends with either."""
        try:
            self.read.check(answer)
        except (BenchError, ValueError):
            self.write.check(answer)


@dataclass(frozen=True)
class Sessions:
    """Creates so many sessions, or one after the other for as long as it lasts."""

    timeout_ms: int
    window: int = 1
    count: int | None = None
    method: str = f"{SERVICE}/CreateSession"
    is_stream: bool = False
    operations: int = 1

    def requests(self, turn: int) -> Requests:
        request = pb.CreateSessionRequest(
            shard=0, session_timeout_ms=self.timeout_ms, client_identity=b"loadtest"
        ).SerializeToString()
        return itertools.repeat(request) if self.count is None else itertools.repeat(request, self.count)

    def check(self, answer: Sequence[bytes]) -> None:
        expect("answers", len(answer), 1)
        if pb.CreateSessionResponse.FromString(answer[0]).session_id < 0:
            raise BenchError("wrong answer: a session with a negative id")


@dataclass(frozen=True)
class Offered:
    """Work that arrives by a schedule, whether the server keeps up or not."""

    work: Workload
    per_second: float

    @property
    def method(self) -> str:
        return self.work.method

    @property
    def is_stream(self) -> bool:
        return self.work.is_stream

    @property
    def window(self) -> int:
        return self.work.window

    @property
    def operations(self) -> int:
        return self.work.operations

    def requests(self, turn: int) -> Requests:
        return self.work.requests(turn)

    def check(self, answer: Sequence[bytes]) -> None:
        self.work.check(answer)


@dataclass(frozen=True)
class Echo:
    """Sends a put's worth of bytes to the echo server, one at a time."""

    is_stream: bool
    window: int = 1
    operations: int = 1

    @property
    def method(self) -> str:
        return f"{ECHO_SERVICE}/{'Stream' if self.is_stream else 'Unary'}"

    def requests(self, turn: int) -> Requests:
        return itertools.repeat(SHARD + put_request(turn, bytes(VALUE_BYTES), None))

    def check(self, answer: Sequence[bytes]) -> None:
        expect("answers", len(answer), 1)
        expect("bytes echoed", len(answer[0]), len(next(self.requests(0))))


def check_puts(answer: Sequence[bytes], batch: int) -> None:
    """All puts of a request are answered, well, and with their versions."""
    puts = [put for message in answer for put in pb.WriteResponse.FromString(message).puts]
    expect("puts done", sum(put.status == pb.OK and put.HasField("version") for put in puts), batch)


def expect(what: str, got: int, wanted: int) -> None:
    """Raises BenchError unless two counts are equal."""
    if got != wanted:
        raise BenchError(f"wrong answer: {got} {what}, expected {wanted}")


def expect_keys(keys: Iterable[bytes], count: int) -> None:
    """Raises BenchError unless the keys are those of the first records, in order."""
    for number, key in zip(range(count), keys, strict=True):
        if key != record_key(number):
            raise BenchError(f"wrong answer: key {key!r} at place {number}, expected {record_key(number)!r}")
