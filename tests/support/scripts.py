"""Random request scripts for one fresh shard, with the model's answers; the same seed gives the same script.

A script is meant for a server of this project and for a real Oxia alike. So it keeps away, by construction,
from what Oxia is known to do wrong; each place says what that is. The model's clock shows the number of the
write, so that every time in an expected answer names the write that it comes from.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from metastore.pb import oxia_pb2 as pb
from shard_model import ModelInvalid, ShardModel
from shard_model.order import is_internal, path_escaped

LONG = b"long" * 130
KEYS = (
    b"", b"a", b"b", b"c", b"a!", b"a b", b"a%2F", b"a0", b"A", b"~", b"\x00", b"a\x01", "é".encode(),
    "\U0010ffff".encode(), b"/", b"//", b"/a", b"/b", b"/a/", b"/a//", b"/a/b", b"/a/c", b"/b/x", b"a/b",
    b"a/b/",
    b"a/b/c", b"!a", b"%", b"$x", LONG, LONG + b"/", LONG + b"a", LONG + b"a/b", b"__oxia", b"__oxia0",
)  # fmt: skip
INTERNAL_KEYS = (b"__oxia/a-own", b"__oxia/a-own/x")
SEQUENCES = (b"s", b"a/s", b"s.", b"/a/s")
WATCHED_SEQUENCE = b"watched"
INDEX_NAMES = (b"i", b"j", "é".encode())
# Oxia finds wrong neighbours of secondary keys with slashes, and mixes up those with bytes up to 0x01.
SECONDARY_KEYS = (b"", b"a", b"ab", b"a!", b"b", b"%", b"~", b" ", "é".encode(), LONG, LONG + b"a")
COMPARISONS = (pb.EQUAL, pb.EQUAL, pb.FLOOR, pb.CEILING, pb.LOWER, pb.HIGHER)
LIVELY_TIMEOUT_MS = 60_000  # longer than any script runs: no session expires in it
NO_SESSION = 987_654_321
NO_VERSION = 123_456_789

Expected = Message | str
"""An answer, or the name of the status code that refuses the request."""


@dataclass(frozen=True)
class Step:
    """Requests of one method that are sent without waiting in between (only WriteStream has several)."""

    method: str
    requests: Sequence[Message]
    expected: Sequence[Expected]


@dataclass
class Script:
    """What to send, and what a shard has to say during it and at its end."""

    sorting: str
    seed: int
    steps: list[Step] = field(default_factory=list)
    batches: Sequence[pb.NotificationBatch] = ()
    watched_keys: Sequence[bytes] = ()
    highest_keys: dict[bytes, bytes] = field(default_factory=dict)


def random_script(seed: int, sorting: str, length: int = 150) -> Script:
    """A script of so many steps; the last one is a write that marks the end of every stream."""
    return ScriptWriter(seed, sorting).write(length)


class ScriptWriter:
    """Runs the model along, in order to know which versions and sessions are alive."""

    def __init__(self, seed: int, sorting: str) -> None:
        self.random = random.Random(f"{sorting} {seed}")
        self.model = ShardModel(sorting)
        self.script = Script(sorting, seed)
        self.keys = self.random.sample(KEYS, 14)
        self.watched_keys: list[bytes] = []
        self.writes = 0

    def write(self, length: int) -> Script:
        kinds = {
            self.unary_write: 8, self.stream_writes: 6, self.read: 8, self.list: 4, self.range_scan: 3,
            self.create_session: 1, self.keep_alive: 1, self.close_session: 1, self.refused_write: 1,
        }  # fmt: skip
        for _ in range(length):
            (kind,) = self.random.choices([*kinds], [*kinds.values()])
            kind()
        self._send("Write", [pb.WriteRequest(puts=[self._watched_put(delta=1000)])])
        self.script.batches = self.model.notifications(-1)
        self.script.watched_keys = self.watched_keys
        for prefix in SEQUENCES:
            highest = self.model.highest_sequence_key(prefix)
            if highest is not None:
                self.script.highest_keys[prefix] = highest
        return self.script

    def unary_write(self) -> None:
        self._send("Write", [self._write_request()])

    def stream_writes(self) -> None:
        self._send("WriteStream", [self._write_request() for _ in range(self.random.choice([1, 1, 2, 4]))])

    def refused_write(self) -> None:
        """No partition key, no first delta, or (mostly) too few deltas; not on a stream: it would end."""
        bad = self.random.choice(
            [
                pb.PutRequest(sequence_key_delta=[1]),
                pb.PutRequest(sequence_key_delta=[0, 1, 1], partition_key=b"p"),
                pb.PutRequest(sequence_key_delta=[1], partition_key=b"p"),
            ]
        )
        bad.key = self.random.choice(SEQUENCES)
        self._send("Write", [pb.WriteRequest(puts=[pb.PutRequest(key=b"innocent"), bad])])

    def read(self) -> None:
        self._send("Read", [pb.ReadRequest(gets=[self._get() for _ in range(self.random.randint(1, 6))])])

    def list(self) -> None:
        self._send("List", [pb.ListRequest(**self._range())])

    def range_scan(self) -> None:
        self._send("RangeScan", [pb.RangeScanRequest(**self._range())])

    def create_session(self) -> None:
        identity = self.random.choice([b"", b"me"])
        request = pb.CreateSessionRequest(session_timeout_ms=LIVELY_TIMEOUT_MS, client_identity=identity)
        self._send("CreateSession", [request])

    def keep_alive(self) -> None:
        self._send("KeepAlive", [pb.SessionHeartbeat(session_id=self._session())])

    def close_session(self) -> None:
        self._send("CloseSession", [pb.CloseSessionRequest(session_id=self._session())])

    # ---------------------------------------------------------------- answers

    def _send(self, method: str, requests: Sequence[Message]) -> None:
        expected = [self._expected(method, request) for request in requests]
        self.script.steps.append(Step(method, requests, expected))

    def _expected(self, method: str, request: Any) -> Expected:
        try:
            return self._answer(method, request)
        except ModelInvalid as refusal:
            return refusal.code

    def _answer(self, method: str, request: Any) -> Message:
        model = self.model
        if method in ("Write", "WriteStream"):
            response = model.write(request, self._tick())
            for put, answer in zip(request.puts, response.puts, strict=True):
                if put.key == WATCHED_SEQUENCE:
                    self.watched_keys.append(answer.key)
            return response
        if method == "Read":
            return pb.ReadResponse(gets=model.read(request))
        if method == "List":
            return pb.ListResponse(keys=model.list(request))
        if method == "RangeScan":
            return pb.RangeScanResponse(records=model.range_scan(request))
        if method == "CreateSession":
            timeout_ms, identity = request.session_timeout_ms, request.client_identity
            return pb.CreateSessionResponse(session_id=model.create_session(timeout_ms, identity, self._tick()))
        if method == "KeepAlive":
            model.keep_alive(request.session_id, self.writes)
            return pb.KeepAliveResponse()
        assert method == "CloseSession", method
        model.close_session(request.session_id, self._tick())
        return pb.CloseSessionResponse()

    def _tick(self) -> int:
        self.writes += 1
        return self.writes

    # ---------------------------------------------------------------- requests

    def _write_request(self) -> pb.WriteRequest:
        puts = [self._any_put() for _ in range(self.random.choice([0, 1, 1, 2, 3, 5]))]
        deletes = [self._delete() for _ in range(self.random.choice([0, 0, 0, 1, 2]))]
        ranges = [self._delete_range() for _ in range(self.random.choice([0] * 9 + [1, 2]))]
        return pb.WriteRequest(puts=puts, deletes=deletes, delete_ranges=ranges)

    def _any_put(self) -> pb.PutRequest:
        return self.random.choice([self._put, self._put, self._put, self._sequence_put, self._watched_put])()

    def _put(self) -> pb.PutRequest:
        put = pb.PutRequest(key=self._key(), value=self._value())
        if self._one_in(3):
            put.expected_version_id = self._version()
        if self._one_in(4):
            put.client_identity = self.random.choice([b"", b"me", "é".encode()])
        if self._one_in(6):
            put.partition_key = self.random.choice([b"", b"p"])
        if self._one_in(9):
            put.override_version_id = self.random.choice([-1, 0, 5, 2**40])
        if self._one_in(9):
            put.override_modifications_count = self.random.choice([-3, 0, 7])
        self._own(put, put.key)
        return put

    def _sequence_put(self) -> pb.PutRequest:
        prefix = self.random.choice(SEQUENCES)
        deltas = [self.random.randint(1, 3), *self.random.choices([0, 1, 7], k=2)]
        put = pb.PutRequest(key=prefix, value=self._value(), partition_key=b"p", sequence_key_delta=deltas)
        if self._one_in(10):
            put.expected_version_id = -1
        self._own(put, prefix)
        return put

    def _watched_put(self, delta: int = 1) -> pb.PutRequest:
        """It never fails: Oxia tells the watchers of a sequence of failed puts, too."""
        return pb.PutRequest(key=WATCHED_SEQUENCE, partition_key=b"p", sequence_key_delta=[delta])

    def _own(self, put: pb.PutRequest, key: bytes) -> None:
        """Makes a put ephemeral, or gives it indexes."""
        # Oxia never removes an ephemeral record with the key "", and with natural sorting only those whose
        # escaped keys begin below "/". It leaves the index entries of ephemeral records behind. By index it
        # never finds "".
        removed = key != b"" and (self.script.sorting == "hierarchical" or path_escaped(key)[:1] < b"/")
        if self._one_in(4) and removed:
            put.session_id = self._session()
        elif self._one_in(2) and key != b"":
            for _ in range(self.random.randint(1, 3)):
                name, secondary_key = self.random.choice(INDEX_NAMES), self.random.choice(SECONDARY_KEYS)
                put.secondary_indexes.add(index_name=name, secondary_key=secondary_key)

    def _delete(self) -> pb.DeleteRequest:
        delete = pb.DeleteRequest(key=self._key())
        if self._one_in(3):
            delete.expected_version_id = self._version()
        if self._one_in(8):
            delete.partition_key = b"p"
        return delete

    def _delete_range(self) -> pb.DeleteRangeRequest:
        # Oxia deletes internal keys, its own too, when a bound is one; with natural sorting it takes an empty
        # end for the end of all of them.
        start, end = (self.random.choice(self._user_keys()) for _ in range(2))
        return pb.DeleteRangeRequest(start_inclusive=start, end_exclusive=end or b"a")

    def _get(self) -> pb.GetRequest:
        get = pb.GetRequest(include_value=self._one_in(2), comparison_type=self.random.choice(COMPARISONS))
        if self._one_in(3):
            get.secondary_index_name = self.random.choice([*INDEX_NAMES, b"none"])
            get.key = self.random.choice(SECONDARY_KEYS) + self.random.choice([b"", b"", b"!"])
            return get
        if get.comparison_type == pb.EQUAL:
            get.key = self._key()
            return get
        get.key = self._bound()
        # With natural sorting, Oxia finds the last key below "".
        if self.script.sorting == "natural" and get.comparison_type in (pb.FLOOR, pb.LOWER):
            get.key = get.key or b"\x00"
        return get

    def _range(self) -> dict[str, Any]:
        """A range of keys, or of an index."""
        if self._one_in(3):
            start, end = self.random.choice(SECONDARY_KEYS), self.random.choice([*SECONDARY_KEYS, b"z", b"z"])
            name = self.random.choice([*INDEX_NAMES, b"none"])
            return {"start_inclusive": start, "end_exclusive": end, "secondary_index_name": name}
        end = self.random.choice([b"", self._bound()])
        return {"start_inclusive": self._bound(), "end_exclusive": end}

    def _bound(self) -> bytes:
        """At a key or beside it, never an internal one: Oxia finds those by FLOOR."""
        return self.random.choice(self._user_keys()) + self.random.choice([b"", b"", b"!", b"/", b"\x00"])

    def _user_keys(self) -> Sequence[bytes]:
        return [*self.keys, *(key for key in self.model.records if not is_internal(key))]

    def _key(self) -> bytes:
        return self.random.choice([*self._user_keys(), *INTERNAL_KEYS])

    def _version(self) -> int:
        alive = [record.version_id for record in self.model.records.values()]
        return self.random.choice([-1, NO_VERSION, *alive, *alive])

    def _session(self) -> int:
        return self.random.choice([NO_SESSION, *self.model.sessions, *self.model.sessions])

    def _value(self) -> bytes:
        return self.random.choice([b"", b"v%d" % self.random.randrange(1000), b"\x00\xff", b"long value " * 100])

    def _one_in(self, count: int) -> bool:
        return self.random.randrange(count) == 0
