"""Bad input gets its status, is named in the message, and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from grpc import StatusCode

from metastore.engine import limits
from metastore.pb import oxia_pb2 as pb
from support.server import own_server
from support.wire import MEBIBYTE, METHODS, SERVICES, ErrorDetail, WireClient
from support.witness import INDEX, SHARDS, Witness, assert_refused

pytestmark = pytest.mark.skipif(not own_server(), reason="asks what only this project's server promises")

NOT_UTF8 = b"caf\xe9"
LONG_KEY = b"k" * (limits.KEY_BYTES_MAX + 1)
REQUEST_BYTES_MAX = 256 * MEBIBYTE
"""What the transport takes."""


def put(key: bytes = b"b", **fields: Any) -> pb.WriteRequest:
    return write(puts=[pb.PutRequest(key=key, **fields)])


def write(**operations: Any) -> pb.WriteRequest:
    return pb.WriteRequest(shard=0, **operations)


def get(key: bytes = b"a", **fields: Any) -> pb.ReadRequest:
    return pb.ReadRequest(shard=0, gets=[pb.GetRequest(key=key, **fields)])


def index(name: bytes = INDEX, key: bytes = b"s") -> list[pb.SecondaryIndex]:
    return [pb.SecondaryIndex(index_name=name, secondary_key=key)]


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
def test_an_unknown_shard(witnessed_wire: WireClient, witness: Witness, method: str, service: str) -> None:
    with witness.nothing_changes():
        for shard in UNKNOWN_SHARDS:
            answer = witnessed_wire.call(method, ON_A_SHARD[method](shard), service=service)
            assert_refused(answer, StatusCode.ABORTED)
            assert (answer.status.message, answer.status.details) == NOT_LEADER


@pytest.mark.parametrize("service", SERVICES)
def test_an_unknown_shard_of_a_write_stream(witnessed_wire: WireClient, witness: Witness, service: str) -> None:
    with witness.nothing_changes():
        for shard in UNKNOWN_SHARDS:
            headers = (("shard-id", str(shard)), ("namespace", "default"))
            answer = witnessed_wire.call("WriteStream", put(), metadata=headers, service=service)
            assert_refused(answer, StatusCode.ABORTED)
            assert (answer.status.message, answer.status.details) == NOT_LEADER


@pytest.mark.parametrize("method", ["Write", "Read", "List", "RangeScan"])
def test_no_shard(witnessed_wire: WireClient, witness: Witness, method: str) -> None:
    request = ON_A_SHARD[method](0)
    request.ClearField("shard")
    with witness.nothing_changes():
        answer = witnessed_wire.call(method, request)
    assert_refused(answer, StatusCode.INVALID_ARGUMENT)
    assert answer.status.message == "shard id is required"


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("name", [b"nope", b"Default", b"default/x", b"..", b"x" * 1000])
def test_an_unknown_namespace(witnessed_wire: WireClient, name: bytes, service: str) -> None:
    request = pb.ShardAssignmentsRequest(namespace=name)
    answer = witnessed_wire.call("GetShardAssignments", request, service=service)
    assert_refused(answer, StatusCode.NOT_FOUND)
    assert answer.status.message == "oxia: namespace not found"
    assert answer.status.details == (ErrorDetail("NAMESPACE_NOT_FOUND", "oxia.io", {}),)


def test_a_namespace_that_is_not_utf8(witnessed_wire: WireClient) -> None:
    answer = witnessed_wire.call("GetShardAssignments", pb.ShardAssignmentsRequest(namespace=NOT_UTF8))
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
    witnessed_wire: WireClient, witness: Witness, headers: tuple[tuple[str, str], ...], named: str
) -> None:
    with witness.nothing_changes():
        answer = witnessed_wire.call("WriteStream", put(), metadata=headers)
    assert answer.status.code in (StatusCode.UNKNOWN, StatusCode.INVALID_ARGUMENT)
    assert_refused(answer, answer.status.code, named)


# ---- requests that no state of the store could accept

BAD_REQUESTS: dict[str, tuple[str, Any, tuple[str, ...]]] = {
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
    "comparison 9": ("Read", get(comparison_type=9), ("comparison", "9")),
    "comparison -1": ("Read", get(comparison_type=-1), ("comparison", "-1")),
    "comparison 9 by index": (
        "Read",
        get(comparison_type=9, secondary_index_name=INDEX),
        ("comparison", "9"),
    ),
    "comparison 9 by an index without entries": (
        "Read",
        get(comparison_type=9, secondary_index_name=b"empty"),
        ("comparison", "9"),
    ),
    "sequence without partition key": (
        "Write",
        put(b"seq", sequence_key_delta=[1, 1]),
        ("seq", "partition key"),
    ),
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
def test_a_bad_request(witnessed_wire: WireClient, witness: Witness, name: str) -> None:
    method, request, words = BAD_REQUESTS[name]
    with witness.nothing_changes():
        assert_refused(witnessed_wire.call(method, request), StatusCode.INVALID_ARGUMENT, *words)


@pytest.mark.parametrize("name", [name for name, (method, _, _) in BAD_REQUESTS.items() if method == "Write"])
def test_a_bad_operation_takes_its_whole_request_with_it(
    witnessed_wire: WireClient, witness: Witness, name: str
) -> None:
    request = pb.WriteRequest()
    request.CopyFrom(BAD_REQUESTS[name][1])
    request.puts.add(key=b"innocent")
    request.deletes.add(key=b"a")
    request.delete_ranges.add(start_inclusive=b"a", end_exclusive=b"z")
    with witness.nothing_changes():
        assert_refused(witnessed_wire.call("Write", request), StatusCode.INVALID_ARGUMENT)


def test_a_bad_request_ends_its_stream_after_the_earlier_answers(witnessed_wire: WireClient, witness: Witness) -> None:
    stream = witnessed_wire.open("WriteStream", metadata=(SHARD, NAMESPACE))
    for request in (write(), put(b"seq", sequence_key_delta=[1]), put(b"later")):
        stream.send(request)
    answer = stream.rest()
    assert answer.status.code is StatusCode.INVALID_ARGUMENT
    assert answer.messages == [pb.WriteResponse()]
    assert witnessed_wire.call("Read", get(b"later")).only.gets[0].status == pb.KEY_NOT_FOUND


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("service", SERVICES)
def test_bytes_that_are_no_message(witnessed_wire: WireClient, witness: Witness, method: str, service: str) -> None:
    headers = (SHARD, NAMESPACE) if method == "WriteStream" else ()
    with witness.nothing_changes():
        answer = witnessed_wire.call(method, b"\xff\xff", metadata=headers, service=service)
        assert_refused(answer, StatusCode.INTERNAL)


@pytest.mark.parametrize("service", SERVICES)
def test_an_unknown_method(witnessed_wire: WireClient, witness: Witness, service: str) -> None:
    with witness.nothing_changes():
        assert_refused(witnessed_wire.call("Write", put(), path="Nope", service=service), StatusCode.UNIMPLEMENTED)


# ---- sizes


def test_the_greatest_sizes_are_accepted(witnessed_wire: WireClient) -> None:
    key, value = b"k" * limits.KEY_BYTES_MAX, b"v" * limits.VALUE_BYTES_MAX
    indexes = index(key=key)
    assert witnessed_wire.call("Write", put(key, secondary_indexes=indexes)).only.puts[0].status == pb.OK
    assert witnessed_wire.call("Read", get(key)).only.gets[0].status == pb.OK
    (found,) = witnessed_wire.call("Read", get(key, secondary_index_name=INDEX)).only.gets
    assert (found.key, found.secondary_index_key) == (key, key)
    assert witnessed_wire.call("Write", put(b"large", value=value)).only.puts[0].status == pb.OK
    (found,) = witnessed_wire.call("Read", get(b"large", include_value=True)).only.gets
    assert found.value == value
    deletes = [pb.DeleteRequest(key=key), pb.DeleteRequest(key=b"large")]
    assert {each.status for each in witnessed_wire.call("Write", write(deletes=deletes)).only.deletes} == {pb.OK}


def test_a_value_too_large(witnessed_wire: WireClient, witness: Witness) -> None:
    request = put(b"large", value=b"v" * (limits.VALUE_BYTES_MAX + 1))
    with witness.nothing_changes():
        answer = witnessed_wire.call("Write", request)
        assert_refused(answer, StatusCode.INVALID_ARGUMENT, "value", "large", str(limits.VALUE_BYTES_MAX))


def test_a_request_too_large_in_sum(witnessed_wire: WireClient, witness: Witness) -> None:
    size = limits.REQUEST_BYTES_MAX // 3
    assert size <= limits.VALUE_BYTES_MAX
    puts = [pb.PutRequest(key=b"large-%d" % number, value=b"v" * size) for number in range(4)]
    with witness.nothing_changes():
        answer = witnessed_wire.call("Write", write(puts=puts))
        assert_refused(answer, StatusCode.INVALID_ARGUMENT, "request", str(limits.REQUEST_BYTES_MAX))


def test_a_message_too_large_for_the_transport(witnessed_wire: WireClient, witness: Witness) -> None:
    with witness.nothing_changes():
        assert_refused(witnessed_wire.call("Write", bytes(REQUEST_BYTES_MAX + 1)), StatusCode.RESOURCE_EXHAUSTED)


# ---- what is odd, but has an answer


def test_an_empty_batch_has_an_empty_answer(witnessed_wire: WireClient) -> None:
    assert witnessed_wire.call("Write", write()).only == pb.WriteResponse()
    empty_read = witnessed_wire.call("Read", pb.ReadRequest(shard=0))
    assert (empty_read.status.code, empty_read.messages) == (StatusCode.OK, [])


@pytest.mark.parametrize(("start", "end"), [(b"z", b"a"), (b"a", b"a"), (b"a/b", b"z")])
def test_a_range_whose_end_precedes_its_start_is_empty(witnessed_wire: WireClient, start: bytes, end: bytes) -> None:
    scan = pb.RangeScanRequest(shard=0)
    before = witnessed_wire.call("RangeScan", scan).messages
    borders: dict[str, Any] = {"start_inclusive": start, "end_exclusive": end}
    for index_name in (None, INDEX):
        for method, kind in (("List", pb.ListRequest), ("RangeScan", pb.RangeScanRequest)):
            answer = witnessed_wire.call(method, kind(shard=0, **borders, secondary_index_name=index_name))
            assert (answer.status.code, answer.messages) == (StatusCode.OK, [])
    deletion = write(delete_ranges=[pb.DeleteRangeRequest(**borders)])
    assert witnessed_wire.call("Write", deletion).only.delete_ranges[0].status == pb.OK
    assert witnessed_wire.call("RangeScan", scan).messages == before
