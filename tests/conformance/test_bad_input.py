"""Bad input gets its status, is named in the message, and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.message import Message
from grpc import StatusCode

from metastore.engine import limits
from metastore.pb import oxia_pb2 as pb
from support.server import ServerProcess, own_server
from support.wire import MEBIBYTE, METHODS, SERVICES, Answer, ErrorDetail, WireClient
from support.witness import Witness

pytestmark = pytest.mark.skipif(not own_server(), reason="asks what only this project's server promises")

SHARDS = 2
INDEX = b"bad-input-index"
NOT_UTF8 = b"caf\xe9"
LONG_KEY = b"k" * (limits.KEY_BYTES_MAX + 1)
REQUEST_BYTES_MAX = 256 * MEBIBYTE
"""What the transport takes."""


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(shards=SHARDS) as started:
        yield started


@pytest.fixture(scope="module")
def wire(server: ServerProcess) -> Iterator[WireClient]:
    """A client of a server with records: an indexed one, and a sequence of two parts."""
    index = pb.SecondaryIndex(index_name=INDEX, secondary_key=b"s")
    puts = [
        pb.PutRequest(key=b"a", value=b"1", secondary_indexes=[index]),
        pb.PutRequest(key=b"seq", partition_key=b"p", sequence_key_delta=[1, 1]),
    ]
    with WireClient(server.address) as made:
        for shard in range(SHARDS):
            assert len(made.call("Write", pb.WriteRequest(shard=shard, puts=puts)).only.puts) == len(puts)
        yield made


@pytest.fixture
def witness(wire: WireClient) -> Witness:
    return Witness(wire, SHARDS, INDEX)


def put(key: bytes = b"b", **fields: Any) -> pb.WriteRequest:
    return write(puts=[pb.PutRequest(key=key, **fields)])


def write(**operations: Any) -> pb.WriteRequest:
    return pb.WriteRequest(shard=0, **operations)


def get(key: bytes = b"a", **fields: Any) -> pb.ReadRequest:
    return pb.ReadRequest(shard=0, gets=[pb.GetRequest(key=key, **fields)])


def index(name: bytes = INDEX, key: bytes = b"s") -> list[pb.SecondaryIndex]:
    return [pb.SecondaryIndex(index_name=name, secondary_key=key)]


def refused(answer: Answer, code: StatusCode, *words: str) -> None:
    """Asserts that a call failed with a code, a message with all these words, and nothing else."""
    assert answer.status.code is code, answer.status
    assert answer.messages == []
    missing = [word for word in words if word.lower() not in answer.status.message.lower()]
    assert not missing, answer.status


# ---- shards, namespaces and headers

NOT_LEADER = ("oxia: node is not leader", (ErrorDetail("NODE_IS_NOT_LEADER", "oxia.io", {}),))
UNKNOWN_SHARDS = (SHARDS, -1, 1 << 62)

ON_A_SHARD: dict[str, Any] = {
    "Write": lambda shard: pb.WriteRequest(shard=shard, puts=[pb.PutRequest(key=b"b")]),
    "Read": lambda shard: pb.ReadRequest(shard=shard, gets=[pb.GetRequest(key=b"a")]),
    "List": lambda shard: pb.ListRequest(shard=shard),
    "RangeScan": lambda shard: pb.RangeScanRequest(shard=shard),
    "GetNotifications": lambda shard: pb.NotificationsRequest(shard=shard),
    "GetSequenceUpdates": lambda shard: pb.GetSequenceUpdatesRequest(shard=shard, key=b"seq"),
    "CreateSession": lambda shard: pb.CreateSessionRequest(shard=shard, session_timeout_ms=5_000),
    "KeepAlive": lambda shard: pb.SessionHeartbeat(shard=shard, session_id=1),
    "CloseSession": lambda shard: pb.CloseSessionRequest(shard=shard, session_id=1),
}


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("method", ON_A_SHARD)
def test_an_unknown_shard(wire: WireClient, witness: Witness, method: str, service: str) -> None:
    with witness.nothing_changes():
        for shard in UNKNOWN_SHARDS:
            answer = wire.call(method, ON_A_SHARD[method](shard), service=service)
            refused(answer, StatusCode.ABORTED)
            assert (answer.status.message, answer.status.details) == NOT_LEADER


@pytest.mark.parametrize("service", SERVICES)
def test_an_unknown_shard_of_a_write_stream(wire: WireClient, witness: Witness, service: str) -> None:
    with witness.nothing_changes():
        for shard in UNKNOWN_SHARDS:
            headers = (("shard-id", str(shard)), ("namespace", "default"))
            answer = wire.call("WriteStream", put(), metadata=headers, service=service)
            refused(answer, StatusCode.ABORTED)
            assert (answer.status.message, answer.status.details) == NOT_LEADER


@pytest.mark.parametrize("method", ["Write", "Read", "List", "RangeScan"])
def test_no_shard(wire: WireClient, witness: Witness, method: str) -> None:
    request = ON_A_SHARD[method](0)
    request.ClearField("shard")
    with witness.nothing_changes():
        answer = wire.call(method, request)
    refused(answer, StatusCode.INVALID_ARGUMENT)
    assert answer.status.message == "shard id is required"


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("name", [b"nope", b"Default", b"default/x", b"..", b"x" * 1000])
def test_an_unknown_namespace(wire: WireClient, name: bytes, service: str) -> None:
    request = pb.ShardAssignmentsRequest(namespace=name)
    answer = wire.call("GetShardAssignments", request, service=service)
    refused(answer, StatusCode.NOT_FOUND)
    assert answer.status.message == "oxia: namespace not found"
    assert answer.status.details == (ErrorDetail("NAMESPACE_NOT_FOUND", "oxia.io", {}),)


def test_a_namespace_that_is_not_utf8(wire: WireClient) -> None:
    answer = wire.call("GetShardAssignments", pb.ShardAssignmentsRequest(namespace=NOT_UTF8))
    assert answer.status.code in (StatusCode.INVALID_ARGUMENT, StatusCode.NOT_FOUND), answer.status
    assert "namespace" in answer.status.message


SHARD, NAMESPACE = ("shard-id", "0"), ("namespace", "default")


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ((), "shard-id"),
        ((NAMESPACE,), "shard-id"),
        ((SHARD,), "namespace"),
        ((SHARD, SHARD, NAMESPACE), "shard-id"),
        ((SHARD, NAMESPACE, NAMESPACE), "namespace"),
        ((("shard-id", ""), NAMESPACE), "shard-id"),
        ((("shard-id", "first"), NAMESPACE), "shard-id"),
        ((("shard-id", "99999999999999999999"), NAMESPACE), "shard-id"),
    ],
)
def test_headers_of_a_write_stream(
    wire: WireClient, witness: Witness, headers: tuple[tuple[str, str], ...], named: str
) -> None:
    with witness.nothing_changes():
        answer = wire.call("WriteStream", put(), metadata=headers)
    assert answer.status.code in (StatusCode.UNKNOWN, StatusCode.INVALID_ARGUMENT)
    refused(answer, answer.status.code, named)


# ---- requests that no state of the store could accept

BAD_REQUESTS: dict[str, tuple[str, Message, tuple[str, ...]]] = {
    "put: key": ("Write", put(NOT_UTF8), ("key", "UTF-8", "caf")),
    "put: partition key": ("Write", put(partition_key=NOT_UTF8), ("partition key", "UTF-8", "caf")),
    "put: client identity": ("Write", put(client_identity=NOT_UTF8), ("identity", "UTF-8", "caf")),
    "put: index name": ("Write", put(secondary_indexes=index(name=NOT_UTF8)), ("index", "UTF-8", "caf")),
    "put: secondary key": ("Write", put(secondary_indexes=index(key=NOT_UTF8)), ("secondary key", "UTF-8")),
    "delete: key": ("Write", write(deletes=[pb.DeleteRequest(key=NOT_UTF8)]), ("key", "UTF-8", "caf")),
    "delete range: start": (
        "Write",
        write(delete_ranges=[pb.DeleteRangeRequest(start_inclusive=NOT_UTF8, end_exclusive=b"z")]),
        ("start", "UTF-8", "caf"),
    ),
    "delete range: end": (
        "Write",
        write(delete_ranges=[pb.DeleteRangeRequest(start_inclusive=b"a", end_exclusive=NOT_UTF8)]),
        ("end", "UTF-8", "caf"),
    ),
    "get: key": ("Read", get(NOT_UTF8), ("key", "UTF-8", "caf")),
    "get: index name": ("Read", get(secondary_index_name=NOT_UTF8), ("index", "UTF-8", "caf")),
    "list: start": ("List", pb.ListRequest(shard=0, start_inclusive=NOT_UTF8), ("start", "UTF-8", "caf")),
    "list: end": ("List", pb.ListRequest(shard=0, end_exclusive=NOT_UTF8), ("end", "UTF-8", "caf")),
    "list: index name": (
        "List",
        pb.ListRequest(shard=0, end_exclusive=b"z", secondary_index_name=NOT_UTF8),
        ("index", "UTF-8", "caf"),
    ),
    "scan: start": ("RangeScan", pb.RangeScanRequest(shard=0, start_inclusive=NOT_UTF8), ("start", "UTF-8")),
    "scan: end": ("RangeScan", pb.RangeScanRequest(shard=0, end_exclusive=NOT_UTF8), ("end", "UTF-8")),
    "scan: index name": (
        "RangeScan",
        pb.RangeScanRequest(shard=0, end_exclusive=b"z", secondary_index_name=NOT_UTF8),
        ("index", "UTF-8"),
    ),
    "sequence updates: key": (
        "GetSequenceUpdates",
        pb.GetSequenceUpdatesRequest(shard=0, key=NOT_UTF8),
        ("key", "UTF-8", "caf"),
    ),
    "session: client identity": (
        "CreateSession",
        pb.CreateSessionRequest(shard=0, session_timeout_ms=5_000, client_identity=NOT_UTF8),
        ("identity", "UTF-8", "caf"),
    ),
    "key too long": ("Write", put(LONG_KEY), ("key", "kkk", str(limits.KEY_BYTES_MAX))),
    "partition key too long": ("Write", put(partition_key=LONG_KEY), ("partition key", "kkk")),
    "index name too long": ("Write", put(secondary_indexes=index(name=LONG_KEY)), ("index name", "kkk")),
    "secondary key too long": ("Write", put(secondary_indexes=index(key=LONG_KEY)), ("secondary key", "kkk")),
    "comparison 9": ("Read", get(comparison_type=9), ("comparison", "9")),  # type: ignore[arg-type]
    "comparison -1": ("Read", get(comparison_type=-1), ("comparison", "-1")),  # type: ignore[arg-type]
    "comparison 9 by index": (
        "Read",
        get(comparison_type=9, secondary_index_name=INDEX),  # type: ignore[arg-type]
        ("comparison", "9"),
    ),
    "comparison 9 by an index without entries": (
        "Read",
        get(comparison_type=9, secondary_index_name=b"empty"),  # type: ignore[arg-type]
        ("comparison", "9"),
    ),
    "sequence without partition key": ("Write", put(b"seq", sequence_key_delta=[1, 1]), ("seq", "partition key")),
    "sequence with first delta 0": (
        "Write",
        put(b"seq", partition_key=b"p", sequence_key_delta=[0, 1]),
        ("seq", "delta"),
    ),
    "sequence with too few deltas": (
        "Write",
        put(b"seq", partition_key=b"p", sequence_key_delta=[1]),
        ("seq", "delta"),
    ),
    "sequence beyond its greatest number": (
        "Write",
        put(b"seq", partition_key=b"p", sequence_key_delta=[limits.SEQUENCE_NUMBER_MAX, 1]),
        ("seq",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_bad_request(wire: WireClient, witness: Witness, name: str) -> None:
    method, request, words = BAD_REQUESTS[name]
    with witness.nothing_changes():
        refused(wire.call(method, request), StatusCode.INVALID_ARGUMENT, *words)


@pytest.mark.parametrize("name", [name for name, (method, _, _) in BAD_REQUESTS.items() if method == "Write"])
def test_a_bad_operation_takes_its_whole_request_with_it(
    wire: WireClient, witness: Witness, name: str
) -> None:
    request = pb.WriteRequest()
    request.CopyFrom(BAD_REQUESTS[name][1])
    request.puts.add(key=b"innocent")
    request.deletes.add(key=b"a")
    request.delete_ranges.add(start_inclusive=b"a", end_exclusive=b"z")
    with witness.nothing_changes():
        refused(wire.call("Write", request), StatusCode.INVALID_ARGUMENT)


def test_a_bad_request_ends_its_stream_after_the_earlier_answers(wire: WireClient, witness: Witness) -> None:
    stream = wire.open("WriteStream", metadata=(SHARD, NAMESPACE))
    for request in (write(), put(b"seq", sequence_key_delta=[1]), put(b"later")):
        stream.send(request)
    answer = stream.rest()
    assert answer.status.code is StatusCode.INVALID_ARGUMENT
    assert answer.messages == [pb.WriteResponse()]
    assert wire.call("Read", get(b"later")).only.gets[0].status == pb.KEY_NOT_FOUND


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("service", SERVICES)
def test_bytes_that_are_no_message(wire: WireClient, witness: Witness, method: str, service: str) -> None:
    headers = (SHARD, NAMESPACE) if method == "WriteStream" else ()
    with witness.nothing_changes():
        answer = wire.call(method, b"\xff\xff", metadata=headers, service=service)
        refused(answer, StatusCode.INTERNAL)


@pytest.mark.parametrize("service", SERVICES)
def test_an_unknown_method(wire: WireClient, witness: Witness, service: str) -> None:
    with witness.nothing_changes():
        refused(wire.call("Write", put(), path="Nope", service=service), StatusCode.UNIMPLEMENTED)


# ---- sizes


def test_the_greatest_sizes_are_accepted(wire: WireClient) -> None:
    key, value = b"k" * limits.KEY_BYTES_MAX, b"v" * limits.VALUE_BYTES_MAX
    indexes = index(key=key)
    assert wire.call("Write", put(key, secondary_indexes=indexes)).only.puts[0].status == pb.OK
    assert wire.call("Read", get(key)).only.gets[0].status == pb.OK
    (found,) = wire.call("Read", get(key, secondary_index_name=INDEX)).only.gets
    assert (found.key, found.secondary_index_key) == (key, key)
    assert wire.call("Write", put(b"large", value=value)).only.puts[0].status == pb.OK
    (found,) = wire.call("Read", get(b"large", include_value=True)).only.gets
    assert found.value == value
    deletes = [pb.DeleteRequest(key=key), pb.DeleteRequest(key=b"large")]
    assert {each.status for each in wire.call("Write", write(deletes=deletes)).only.deletes} == {pb.OK}


def test_a_value_too_large(wire: WireClient, witness: Witness) -> None:
    request = put(b"large", value=b"v" * (limits.VALUE_BYTES_MAX + 1))
    with witness.nothing_changes():
        answer = wire.call("Write", request)
        refused(answer, StatusCode.INVALID_ARGUMENT, "value", "large", str(limits.VALUE_BYTES_MAX))


def test_a_request_too_large_in_sum(wire: WireClient, witness: Witness) -> None:
    size = limits.REQUEST_BYTES_MAX // 3
    assert size <= limits.VALUE_BYTES_MAX
    puts = [pb.PutRequest(key=b"large-%d" % number, value=b"v" * size) for number in range(4)]
    with witness.nothing_changes():
        answer = wire.call("Write", write(puts=puts))
        refused(answer, StatusCode.INVALID_ARGUMENT, "request", str(limits.REQUEST_BYTES_MAX))


def test_a_message_too_large_for_the_transport(wire: WireClient, witness: Witness) -> None:
    with witness.nothing_changes():
        refused(wire.call("Write", bytes(REQUEST_BYTES_MAX + 1)), StatusCode.RESOURCE_EXHAUSTED)


# ---- what is odd, but has an answer


def test_an_empty_batch_has_an_empty_answer(wire: WireClient) -> None:
    assert wire.call("Write", write()).only == pb.WriteResponse()
    empty_read = wire.call("Read", pb.ReadRequest(shard=0))
    assert (empty_read.status.code, empty_read.messages) == (StatusCode.OK, [])


@pytest.mark.parametrize(("start", "end"), [(b"z", b"a"), (b"a", b"a"), (b"a/b", b"z")])
def test_a_range_whose_end_precedes_its_start_is_empty(wire: WireClient, start: bytes, end: bytes) -> None:
    scan = pb.RangeScanRequest(shard=0)
    before = wire.call("RangeScan", scan).messages
    borders = {"start_inclusive": start, "end_exclusive": end}
    for index_name in (None, INDEX):
        for method, kind in (("List", pb.ListRequest), ("RangeScan", pb.RangeScanRequest)):
            answer = wire.call(method, kind(shard=0, **borders, secondary_index_name=index_name))
            assert (answer.status.code, answer.messages) == (StatusCode.OK, [])
    deletion = write(delete_ranges=[pb.DeleteRangeRequest(**borders)])
    assert wire.call("Write", deletion).only.delete_ranges[0].status == pb.OK
    assert wire.call("RangeScan", scan).messages == before


# ---- sessions


def session(timeout_ms: int) -> pb.CreateSessionRequest:
    return pb.CreateSessionRequest(shard=0, session_timeout_ms=timeout_ms)


@pytest.mark.parametrize(
    "timeout_ms",
    [0, 1, limits.SESSION_TIMEOUT_MS_MIN - 1, limits.SESSION_TIMEOUT_MS_MAX + 1, (1 << 32) - 1],
)
def test_a_session_timeout_out_of_bounds(wire: WireClient, witness: Witness, timeout_ms: int) -> None:
    with witness.nothing_changes():
        answer = wire.call("CreateSession", session(timeout_ms))
    refused(answer, StatusCode.INVALID_ARGUMENT)
    assert answer.status.message == f"timeoutMs={timeout_ms}: oxia: invalid session timeout"
    assert answer.status.details == (ErrorDetail("INVALID_SESSION_TIMEOUT", "oxia.io", {}),)


@pytest.mark.parametrize("timeout_ms", [limits.SESSION_TIMEOUT_MS_MIN, limits.SESSION_TIMEOUT_MS_MAX])
def test_the_shortest_and_the_longest_session(wire: WireClient, timeout_ms: int) -> None:
    session_id = wire.call("CreateSession", session(timeout_ms)).only.session_id
    close = pb.CloseSessionRequest(shard=0, session_id=session_id)
    assert wire.call("CloseSession", close).only == pb.CloseSessionResponse()


@pytest.mark.parametrize("session_id", [0, -1, 1 << 62])
@pytest.mark.parametrize(
    ("method", "kind"), [("KeepAlive", pb.SessionHeartbeat), ("CloseSession", pb.CloseSessionRequest)]
)
def test_an_unknown_session(
    wire: WireClient, witness: Witness, method: str, kind: type[pb.SessionHeartbeat], session_id: int
) -> None:
    with witness.nothing_changes():
        answer = wire.call(method, kind(shard=0, session_id=session_id))
    refused(answer, StatusCode.NOT_FOUND)
    assert answer.status.message == "oxia: session not found"
    assert answer.status.details == (ErrorDetail("SESSION_NOT_FOUND", "oxia.io", {}),)


def test_a_session_is_known_to_its_own_shard_only(wire: WireClient) -> None:
    session_id = wire.call("CreateSession", session(60_000)).only.session_id
    puts = [pb.PutRequest(key=b"ephemeral", session_id=session_id)]
    elsewhere = wire.call("Write", pb.WriteRequest(shard=1, puts=puts)).only
    assert elsewhere.puts[0] == pb.PutResponse(status=pb.SESSION_DOES_NOT_EXIST)
    assert wire.call("Write", pb.WriteRequest(shard=0, puts=puts)).only.puts[0].status == pb.OK
    close = pb.CloseSessionRequest(shard=0, session_id=session_id)
    assert wire.call("CloseSession", close).only == pb.CloseSessionResponse()
    assert wire.call("Write", pb.WriteRequest(shard=0, puts=puts)).only.puts[0] == elsewhere.puts[0]
    assert wire.call("Read", get(b"ephemeral")).only.gets[0].status == pb.KEY_NOT_FOUND
