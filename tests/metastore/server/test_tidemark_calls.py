"""Describe, Transact and IndexScan against a server process: what they answer, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode
from tidemark_helpers import METHODS, call, put, serving, write

import metastore
from metastore.engine import limits
from metastore.pb import oxia_pb2 as pb
from metastore.pb import tidemark_pb2 as tm
from metastore.server.errors import unauthenticated
from metastore.server.router import OWN_SERVICE_NAME as SERVICE
from metastore.server.security import Authenticator
from support.server import ServerProcess
from support.wire import ErrorDetail, WireClient
from support.witness import SHARDS, Witness, assert_refused, give_records

NOT_UTF8 = b"caf\xe9"


@pytest.fixture(scope="module")
def wire() -> Iterator[WireClient]:
    with ServerProcess(shards=SHARDS) as server, WireClient(server.address) as made:
        give_records(made)
        yield made


@pytest.fixture
def witness(wire: WireClient) -> Witness:
    return Witness(wire)


# ---- Describe


def test_a_namespace_is_described(wire: WireClient) -> None:
    for name in (b"", b"default"):
        found = call(wire, "Describe", tm.DescribeRequest(namespace=name)).only
        assert (found.namespace, found.key_sorting, list(found.shards)) == (b"default", tm.HIERARCHICAL, [0, 1])
        assert (found.notifications_enabled, found.retention_ms) == (True, 3_600_000)
        assert found.version == metastore.__version__
        assert len(found.store_id) == 32
        assert found.limits.transaction_operations_max == limits.TRANSACTION_OPERATIONS_MAX
        unset = [field.name for field, _ in found.limits.ListFields()]
        assert unset == [field.name for field in tm.Limits.DESCRIPTOR.fields], "every limit has a value"


def test_namespaces_differ_and_stores_are_told_apart(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        '[[namespaces]]\nname = "default"\n'
        '[[namespaces]]\nname = "other"\nshards = 3\nkey_sorting = "natural"\nnotifications = false\n'
    )

    def described(server: ServerProcess, namespace: bytes) -> Any:
        with WireClient(server.address) as wire:
            return call(wire, "Describe", tm.DescribeRequest(namespace=namespace)).only

    with configured_server(config) as server:
        first, other = described(server, b"default"), described(server, b"other")
        assert list(first.shards) == [0]
        assert (other.key_sorting, list(other.shards)) == (tm.NATURAL, [1, 2, 3])
        assert not other.notifications_enabled
        assert first.store_id == other.store_id
        server.restart("kill")
        assert described(server, b"default") == first
    with configured_server(config) as server:
        assert described(server, b"default").store_id != first.store_id


def configured_server(config: Path) -> ServerProcess:
    """A server whose namespaces the file has, and no flag."""
    server = ServerProcess(extra_args=("--config", str(config)))
    for flag in ("--shards", "--key-sorting", "--notifications-enabled"):
        place = server._command.index(flag)
        del server._command[place : place + 2]
    return server


def test_an_unknown_namespace(wire: WireClient) -> None:
    answer = call(wire, "Describe", tm.DescribeRequest(namespace=b"nope"))
    assert_refused(answer, StatusCode.NOT_FOUND, "namespace not found")
    assert answer.status.reasons == ["NAMESPACE_NOT_FOUND"]


# ---- what is checked of every call


@pytest.mark.parametrize("method", METHODS)
def test_bytes_that_are_no_message(wire: WireClient, witness: Witness, method: str) -> None:
    with witness.nothing_changes():
        answer = call(wire, method, b"\xff\xff")
        assert_refused(answer, StatusCode.INVALID_ARGUMENT, METHODS[method].request.DESCRIPTOR.name)
        assert answer.status.reasons == ["INVALID_REQUEST"]


@pytest.mark.parametrize("method", METHODS)
def test_an_authority_that_cannot_be(wire: WireClient, method: str) -> None:
    answer = call(wire, method, b"", authority="http://host:1")
    assert_refused(answer, StatusCode.INVALID_ARGUMENT, "invalid authority")


class Nobody(Authenticator):
    def check(self, metadata: Any) -> str | None:
        raise unauthenticated("nobody may call")


@pytest.mark.parametrize("method", METHODS)
def test_who_may_not_call(tmp_path: Path, method: str) -> None:
    with serving(tmp_path, authenticator=Nobody()) as served:
        assert_refused(call(served.wire, method, b""), StatusCode.UNAUTHENTICATED, "nobody may call")


ON_A_SHARD: dict[str, Any] = {
    "Transact": lambda **shard: tm.TransactRequest(operations=[put_of(b"key")], **shard),
    "TransactMany": lambda **shard: tm.TransactManyRequest(
        transactions=[tm.TransactRequest(operations=[put_of(b"key")])], **shard
    ),
    "IndexScan": lambda **shard: tm.IndexScanRequest(index_name=b"index", **shard),
}


@pytest.mark.parametrize("method", ON_A_SHARD)
def test_shards_that_are_not_here(wire: WireClient, witness: Witness, method: str) -> None:
    with witness.nothing_changes():
        for shard in (SHARDS, -1, 1 << 62):
            answer = call(wire, method, ON_A_SHARD[method](shard=shard))
            assert_refused(answer, StatusCode.ABORTED, "node is not leader")
            assert answer.status.details == (ErrorDetail("NODE_IS_NOT_LEADER", "oxia.io", {}),)
        assert_refused(call(wire, method, ON_A_SHARD[method]()), StatusCode.INVALID_ARGUMENT, "shard id is required")


@pytest.mark.parametrize("method", ON_A_SHARD)
def test_the_way_to_shards_of_another_worker(tmp_path: Path, method: str) -> None:
    with serving(tmp_path, leaders={7: "elsewhere:1"}) as served:
        status = call(served.wire, method, ON_A_SHARD[method](shard=7)).status
    assert status.details == (ErrorDetail("NODE_IS_NOT_LEADER", "oxia.io", {"shard": "7", "leader": "elsewhere:1"}),)


# ---- Transact


def put_of(key: bytes, value: bytes = b"", **fields: Any) -> tm.TransactOperation:
    return tm.TransactOperation(put=put(key, value, **fields))


def delete_of(key: bytes, **fields: Any) -> tm.TransactOperation:
    return tm.TransactOperation(delete=pb.DeleteRequest(key=key, **fields))


def transaction(*operations: tm.TransactOperation, **conditions: int) -> tm.TransactRequest:
    checks = [tm.TransactCondition(key=key.encode(), version_id=version) for key, version in conditions.items()]
    return tm.TransactRequest(shard=0, operations=operations, conditions=checks)


def value_of(wire: WireClient, key: bytes) -> bytes | None:
    request = pb.ReadRequest(shard=0, gets=[pb.GetRequest(key=key, include_value=True)])
    (found,) = wire.call("Read", request).only.gets
    return found.value if found.status == pb.OK else None


def test_a_transaction_applies_in_one_write(wire: WireClient) -> None:
    (version,) = write(wire, put(b"t/old", b"1"))
    before = wire.open("GetNotifications", pb.NotificationsRequest(shard=0))
    before.next()
    request = transaction(
        delete_of(b"t/old", expected_version_id=version),
        put_of(b"t/new", b"2"),
        delete_of(b"t/never"),
        put_of(b"t/other", b"3", expected_version_id=-1),
        **{"t/absent": -1, "t/old": version},
    )
    answer = call(wire, "Transact", request).only
    assert not answer.failed
    assert [each.HasField("version") for each in answer.results] == [False, True, False, True]
    ids = [each.version.version_id for each in answer.results if each.HasField("version")]
    assert ids == [version + 1, version + 2]
    assert [value_of(wire, key) for key in (b"t/old", b"t/new", b"t/other")] == [None, b"2", b"3"]
    told = {entry.key for entry in before.next().notifications}
    before.cancel()
    assert told == {b"t/old", b"t/new", b"t/other"}


def test_only_generated_keys_are_told(wire: WireClient) -> None:
    numbered: dict[str, Any] = {"partition_key": b"p", "sequence_key_delta": [1, 2]}
    request = transaction(
        delete_of(b"s/gone"), put_of(b"s/n", **numbered), put_of(b"s/plain"), put_of(b"s/n", b"2", **numbered)
    )
    answer = call(wire, "Transact", request).only
    assert [each.HasField("version") for each in answer.results] == [False, True, True, True]
    assert [each.key if each.HasField("key") else None for each in answer.results] == [
        None,
        b"s/n-%020d-%020d" % (1, 2),
        None,
        b"s/n-%020d-%020d" % (2, 4),
    ]
    assert value_of(wire, answer.results[3].key) == b"2"


def test_every_condition_that_fails_is_told_at_its_place(wire: WireClient, witness: Witness) -> None:
    first, second = write(wire, put(b"c/first"), put(b"c/second"))
    request = transaction(
        put_of(b"c/a", expected_version_id=5),
        delete_of(b"c/first", expected_version_id=first + 1),
        put_of(b"c/b"),
        put_of(b"c/second", expected_version_id=second),
        delete_of(b"c/c", expected_version_id=9),
        **{"c/first": -1, "c/nothing": -1, "c/second": first},
    )
    with witness.nothing_changes():
        answer = call(wire, "Transact", request).only
    assert not answer.results
    assert [(each.place, each.key, each.expected_version_id, each.actual_version_id) for each in answer.failed] == [
        (0, b"c/first", -1, first),
        (2, b"c/second", first, second),
        (3, b"c/a", 5, -1),
        (4, b"c/first", first + 1, first),
        (6, b"c/c", 9, -1),
    ]


def test_a_session_is_needed_that_lives(wire: WireClient, witness: Witness) -> None:
    session = wire.call("CreateSession", pb.CreateSessionRequest(shard=0, session_timeout_ms=60_000)).only.session_id
    ephemeral = put_of(b"e/mine", session_id=session, client_identity=b"me")
    assert call(wire, "Transact", transaction(ephemeral)).only.results[0].version.session_id == session
    wire.call("CloseSession", pb.CloseSessionRequest(shard=0, session_id=session))
    assert value_of(wire, b"e/mine") is None
    with witness.nothing_changes():
        answer = call(wire, "Transact", transaction(put_of(b"e/plain"), ephemeral))
    assert_refused(answer, StatusCode.NOT_FOUND, "session not found")
    assert answer.status.reasons == ["SESSION_NOT_FOUND"]


BAD_TRANSACTIONS: dict[str, tuple[tm.TransactRequest, tuple[str, ...]]] = {
    "nothing to do": (transaction(), ("at least one",)),
    "an operation without a kind": (transaction(put_of(b"a"), tm.TransactOperation()), ("operation 1",)),
    "two on one key": (transaction(put_of(b"b/x"), delete_of(b"b/x")), ("two operations", "b/x")),
    "a sequence of no partition": (transaction(put_of(b"b/s", sequence_key_delta=[1])), ("b/s", "partition key")),
    "a sequence that does not grow": (
        transaction(put_of(b"b/s", partition_key=b"p", sequence_key_delta=[0])),
        ("b/s", "greater than 0"),
    ),
    "a generated key": (
        transaction(put_of(b"b/s", partition_key=b"p", sequence_key_delta=[1]), delete_of(b"b/s-%020d" % 1)),
        ("two operations", "b/s-00000000000000000001"),
    ),
    "an override": (transaction(put_of(b"b/o", override_version_id=7)), ("b/o", "version")),
    "a version that none has": (transaction(put_of(b"b/v", expected_version_id=-2)), ("b/v", "-2")),
    "a condition that none meets": (transaction(put_of(b"b"), **{"b/w": -5}), ("b/w", "-5")),
    "a key": (transaction(put_of(NOT_UTF8)), ("key", "UTF-8")),
    "a deleted key": (transaction(delete_of(NOT_UTF8)), ("key", "UTF-8")),
    "a key too long": (transaction(put_of(b"k" * (limits.KEY_BYTES_MAX + 1))), (str(limits.KEY_BYTES_MAX),)),
}


@pytest.mark.parametrize("what", BAD_TRANSACTIONS)
def test_a_transaction_that_cannot_be(wire: WireClient, witness: Witness, what: str) -> None:
    request, words = BAD_TRANSACTIONS[what]
    with witness.nothing_changes():
        assert_refused(call(wire, "Transact", request), StatusCode.INVALID_ARGUMENT, *words)


def test_the_longest_transaction(wire: WireClient, witness: Witness) -> None:
    count = limits.TRANSACTION_OPERATIONS_MAX
    operations = [put_of(b"long/%05d" % place) for place in range(count)]
    assert len(call(wire, "Transact", transaction(*operations)).only.results) == count
    with witness.nothing_changes():
        answer = call(wire, "Transact", transaction(*operations, **{"long/x": -1}))
        assert_refused(answer, StatusCode.INVALID_ARGUMENT, str(count))


# ---- TransactMany


def many(*transactions: tm.TransactRequest, shard: int = 0) -> tm.TransactManyRequest:
    return tm.TransactManyRequest(shard=shard, transactions=transactions)


def test_each_of_many_is_by_itself(wire: WireClient) -> None:
    (version,) = write(wire, put(b"m/there", b"1"))
    answers = call(
        wire,
        "TransactMany",
        many(
            transaction(put_of(b"m/a", b"a"), delete_of(b"m/never")),
            transaction(put_of(b"m/b", b"b"), **{"m/there": -1}),
            transaction(put_of(b"")),
            transaction(put_of(b"m/c", b"c", session_id=999_999)),
            transaction(),
            transaction(put_of(b"m/d", b"d"), **{"m/there": version, "m/a": -1}),
            transaction(put_of(b"m/e", b"e"), **{"m/there": version}),
        ),
    ).only.answers
    assert [each.WhichOneof("answer") for each in answers] == [
        "response",
        "response",
        "response",
        "refused",
        "refused",
        "response",
        "response",
    ]
    applied = [bool(each.response.results) for each in answers]
    assert applied == [True, False, True, False, False, False, True]
    assert [failed.key for failed in answers[1].response.failed] == [b"m/there"]
    assert [failed.key for failed in answers[5].response.failed] == [b"m/a"], "it was put by the first one"
    found = [value_of(wire, key) for key in (b"m/a", b"m/b", b"m/c", b"m/d", b"m/e")]
    assert found == [b"a", None, None, None, b"e"]


def test_what_is_refused_among_many_is_refused_alone_with_a_reason(wire: WireClient, witness: Witness) -> None:
    bad = transaction(put_of(b"m/session", session_id=999_999))
    with witness.nothing_changes():
        assert call(wire, "TransactMany", many(bad)).only.answers[0].refused
        assert call(wire, "Transact", bad).status.reasons == ["SESSION_NOT_FOUND"]


def test_many_have_a_limit_and_one_shard(wire: WireClient, witness: Witness) -> None:
    most = limits.TRANSACTIONS_PER_CALL_MAX
    one = tm.TransactRequest(operations=[delete_of(b"m/none")])
    assert len(call(wire, "TransactMany", many(*[one] * most)).only.answers) == most
    elsewhere = tm.TransactRequest(shard=1, operations=[put_of(b"m/else")])
    with witness.nothing_changes():
        for request, says in (
            (many(*[one] * (most + 1)), "TRANSACTIONS_PER_CALL_MAX"),
            (many(), "from 1 to"),
            (many(one, elsewhere), "on its shard, 0"),
        ):
            assert_refused(call(wire, "TransactMany", request), StatusCode.INVALID_ARGUMENT, says)


# ---- IndexScan


def entries(wire: WireClient, name: bytes, start: bytes = b"", end: bytes = b"", **options: Any) -> list[Any]:
    request = tm.IndexScanRequest(shard=0, index_name=name, start_inclusive=start, end_exclusive=end, **options)
    answer = call(wire, "IndexScan", request)
    assert answer.status.code is StatusCode.OK, answer.status
    return [entry for message in answer.messages for entry in message.entries]


def test_an_index_in_its_order_with_its_keys(wire: WireClient) -> None:
    name = b"order"
    secondaries = [b"1_20", b"1_2", b"2", b"a/b", b"", b"1_2/x"]
    puts = [put(b"i/%d" % place, b"v%d" % place, ((name, key),)) for place, key in enumerate(secondaries)]
    write(wire, *puts, put(b"i/both", b"", ((name, b"2"), (name, b"3"), (b"another", b"2"))))
    found = [(each.secondary_index_key, each.key) for each in entries(wire, name)]
    assert found == [
        (b"", b"i/4"),
        (b"1_2", b"i/1"),
        (b"1_20", b"i/0"),
        (b"2", b"i/2"),
        (b"2", b"i/both"),
        (b"3", b"i/both"),
        (b"1_2/x", b"i/5"),
        (b"a/b", b"i/3"),
    ]
    assert [each.key for each in entries(wire, name, b"1_2", b"1_2\0")] == [b"i/1"]
    assert [each.key for each in entries(wire, name, b"2")] == [b"i/2", b"i/both", b"i/both", b"i/5", b"i/3"]
    assert entries(wire, name, b"2", b"2") == []
    assert entries(wire, b"nothing") == []
    keys = entries(wire, name, keys_only=True)
    assert [(each.secondary_index_key, each.key) for each in keys] == found
    assert not any(each.HasField("version") or each.HasField("value") for each in keys)
    (whole,) = entries(wire, name, b"", b"\0")
    (read,) = wire.call("Read", pb.ReadRequest(shard=0, gets=[pb.GetRequest(key=b"i/4", include_value=True)])).only.gets
    assert (whole.version, whole.value) == (read.version, read.value)


def test_a_long_index_is_one_state(wire: WireClient) -> None:
    name, count = b"long", 3_000
    for start in range(0, count, 500):
        puts = [put(b"l/%05d" % place, b"v" * 2_000, ((name, b"%05d" % place),)) for place in range(start, start + 500)]
        write(wire, *puts)
    stream = wire.open(METHODS["IndexScan"], tm.IndexScanRequest(shard=0, index_name=name), service=SERVICE)
    first = stream.next()
    write(wire, deletes=tuple(b"l/%05d" % place for place in range(count)))
    rest = stream.rest()
    assert rest.status.code is StatusCode.OK
    assert rest.messages, "the scan ended before the deletes"
    found = [entry for message in (first, *rest.messages) for entry in message.entries]
    assert [entry.key for entry in found] == [b"l/%05d" % place for place in range(count)]
    assert entries(wire, name) == []


BAD_SCANS: dict[str, tuple[tm.IndexScanRequest, tuple[str, ...]]] = {
    "no index": (tm.IndexScanRequest(shard=0, end_exclusive=b"z"), ("name",)),
    "an index name": (tm.IndexScanRequest(shard=0, index_name=NOT_UTF8), ("index name", "UTF-8")),
    "a start": (tm.IndexScanRequest(shard=0, index_name=b"i", start_inclusive=NOT_UTF8), ("start", "UTF-8")),
    "an end": (tm.IndexScanRequest(shard=0, index_name=b"i", end_exclusive=NOT_UTF8), ("end", "UTF-8")),
    "an inverted range": (
        tm.IndexScanRequest(shard=0, index_name=b"i", start_inclusive=b"b", end_exclusive=b"a"),
        ("before it starts",),
    ),
}


@pytest.mark.parametrize("what", BAD_SCANS)
def test_a_scan_that_cannot_be(wire: WireClient, what: str) -> None:
    request, words = BAD_SCANS[what]
    assert_refused(call(wire, "IndexScan", request), StatusCode.INVALID_ARGUMENT, *words)
