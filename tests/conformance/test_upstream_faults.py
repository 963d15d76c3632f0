"""The faults of upstream that docs/upstream-faults.md lists: this server has none of them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Literal, Protocol

import pytest
from grpc import StatusCode

from metastore.pb import oxia_pb2 as pb
from shard_model.order import ENCODERS, path_escaped
from support.fixtures import StartServer
from support.server import PROJECT_ROOT, ServerProcess, Sorting, own_server
from support.wire import MEBIBYTE, Ended, ErrorDetail, WireClient
from support.witness import assert_refused

pytestmark = pytest.mark.skipif(not own_server(), reason="asks what only this project's server promises")

PAGE = PROJECT_ROOT / "docs" / "upstream-faults.md"
SORTINGS: tuple[Sorting, ...] = ("hierarchical", "natural")
WAYS_DOWN: tuple[Literal["kill", "terminate"], ...] = ("kill", "terminate")
SESSION_TIMEOUT_MS = 60_000
GREATEST_NUMBER = (1 << 64) - 1

_indexes = itertools.count()


class Shard:
    """Shard 0 of a server, in few words."""

    def __init__(self, wire: WireClient, sorting: Sorting) -> None:
        self.wire, self.encode = wire, ENCODERS[sorting]

    def try_put(self, key: bytes, **fields: Any) -> Any:
        return self.wire.call("Write", pb.WriteRequest(shard=0, puts=[pb.PutRequest(key=key, **fields)]))

    def put(self, key: bytes, **fields: Any) -> Any:
        (answer,) = self.try_put(key, **fields).only.puts
        assert answer.status == pb.OK
        return answer

    def get(self, key: bytes, comparison: pb.KeyComparisonType.ValueType = pb.EQUAL, index: bytes | None = None) -> Any:
        get = pb.GetRequest(key=key, comparison_type=comparison, secondary_index_name=index, include_value=True)
        (found,) = self.wire.call("Read", pb.ReadRequest(shard=0, gets=[get])).only.gets
        return found

    def keys(self, start: bytes = b"", end: bytes = b"", index: bytes | None = None) -> list[bytes]:
        """The keys of a range; List and RangeScan must agree."""
        borders: dict[str, Any] = {"start_inclusive": start, "end_exclusive": end, "secondary_index_name": index}
        listed = self.wire.call("List", pb.ListRequest(shard=0, **borders))
        scanned = self.wire.call("RangeScan", pb.RangeScanRequest(shard=0, **borders))
        assert {listed.status.code, scanned.status.code} == {StatusCode.OK}
        keys = [key for message in listed.messages for key in message.keys]
        records = [record for message in scanned.messages for record in message.records]
        assert [record.key for record in records] == keys
        assert all(record.status == pb.OK and record.HasField("version") for record in records)
        return keys

    def session(self) -> int:
        request = pb.CreateSessionRequest(shard=0, session_timeout_ms=SESSION_TIMEOUT_MS)
        return int(self.wire.call("CreateSession", request).only.session_id)

    def keep_alive(self, session_id: int) -> StatusCode:
        request = pb.SessionHeartbeat(shard=0, session_id=session_id)
        return self.wire.call("KeepAlive", request).status.code

    def close_session(self, session_id: int) -> None:
        request = pb.CloseSessionRequest(shard=0, session_id=session_id)
        assert self.wire.call("CloseSession", request).only == pb.CloseSessionResponse()


@pytest.fixture(scope="module", params=SORTINGS)
def shard(request: pytest.FixtureRequest) -> Iterator[Shard]:
    """A shard that tests share; each has keys and an index of its own."""
    with ServerProcess(sorting=request.param) as server, WireClient(server.address) as wire:
        yield Shard(wire, request.param)


@pytest.fixture
def index() -> bytes:
    """An index that no other test uses."""
    return b"index-%04d" % next(_indexes)


def indexed(name: bytes, *secondary_keys: bytes) -> list[pb.SecondaryIndex]:
    return [pb.SecondaryIndex(index_name=name, secondary_key=key) for key in secondary_keys]


class Connect(Protocol):
    """Makes a client of a server, also of one that was restarted."""

    def __call__(self, server: ServerProcess, sorting: Sorting = "hierarchical") -> Shard: ...


@pytest.fixture
def connected() -> Iterator[Connect]:
    """Clients that are closed when the test is over."""
    with ExitStack() as clients:

        def connect(server: ServerProcess, sorting: Sorting = "hierarchical") -> Shard:
            return Shard(clients.enter_context(WireClient(server.address)), sorting)

        yield connect


# ---- what ends the process, or keeps it from starting


@pytest.mark.parametrize("how", WAYS_DOWN)
def test_a_refused_request_does_not_keep_the_server_from_starting(
    start_server: StartServer, connected: Connect, how: Literal["kill", "terminate"]
) -> None:
    server = start_server()
    shard = connected(server)
    shard.put(b"s", partition_key=b"p", sequence_key_delta=[1, 1])
    for fields in (
        {"sequence_key_delta": [1]},  # no partition key
        {"partition_key": b"p", "sequence_key_delta": [0, 1]},  # a first delta of 0
        {"partition_key": b"p", "sequence_key_delta": [1]},  # fewer deltas than parts
    ):
        assert_refused(shard.try_put(b"s", **fields), StatusCode.INVALID_ARGUMENT)
    server.restart(how)
    shard = connected(server)
    assert shard.keys() == [b"s-00000000000000000001-00000000000000000001"]
    assert shard.put(b"s", partition_key=b"p", sequence_key_delta=[1, 0]).key.startswith(b"s-00000000000000000002-")


def test_64_mebibytes_at_once_are_written_and_others_after_them(start_server: StartServer, connected: Connect) -> None:
    server = start_server()
    shard = connected(server)
    values = {b"large-%d" % place: bytes([65 + place]) * (33 * MEBIBYTE) for place in range(2)}
    puts = [pb.PutRequest(key=key, value=value) for key, value in values.items()]
    answer = shard.wire.call("Write", pb.WriteRequest(shard=0, puts=puts)).only
    assert [put.status for put in answer.puts] == [pb.OK] * len(puts)
    shard.put(b"small", value=b"after it")
    server.restart("kill")
    shard = connected(server)
    shard.put(b"small-2", value=b"after the restart")
    assert shard.keys() == [*values, b"small", b"small-2"]
    assert {key: shard.get(key).value for key in values} == values
    assert shard.get(b"small").value == b"after it"


@pytest.mark.parametrize("comparison", [5, 99, -1, (1 << 31) - 1])
@pytest.mark.parametrize("by_index", [False, True])
def test_an_unknown_comparison_is_refused(shard: Shard, index: bytes, comparison: int, by_index: bool) -> None:
    shard.put(b"compared", secondary_indexes=indexed(index, b"s"))
    get = pb.GetRequest(
        key=b"s",
        comparison_type=comparison,  # type: ignore[arg-type]
        secondary_index_name=index if by_index else None,
    )
    answer = shard.wire.call("Read", pb.ReadRequest(shard=0, gets=[get]))
    assert_refused(answer, StatusCode.INVALID_ARGUMENT, "comparison", str(comparison))
    assert shard.get(b"compared").status == pb.OK


def test_an_index_without_a_name_is_an_index(shard: Shard, index: bytes) -> None:
    shard.put(b"unnamed-2", secondary_indexes=indexed(b"", b"", b"b"))
    shard.put(b"unnamed-1", secondary_indexes=[*indexed(b"", b"a"), *indexed(index, b"a")])
    assert shard.keys(b"", b"~", index=b"") == [b"unnamed-2", b"unnamed-1", b"unnamed-2"]
    assert shard.keys(b"", b"", index=b"") == []
    assert shard.keys(b"a", b"b", index=b"") == [b"unnamed-1"]
    assert shard.get(b"", index=b"").key == b"unnamed-2"


DEPTHS = (b"", b"/", b"//", b"a", b"a/", b"a/b", b"a//", b"a/b/c", b"a/b/c/d/e", b"b", b"zz", b"~/~/~", b"\xc3\xbf")


def test_index_ranges_of_any_depth_stay_in_their_index(shard: Shard, index: bytes) -> None:
    session_id = shard.session()
    for place, secondary in enumerate(DEPTHS):
        shard.put(b"range-%s-%02d" % (index, place), secondary_indexes=indexed(index, secondary), session_id=session_id)
    for name in (index[:-1], index + b"/", index + b"0", index + b"/a"):
        shard.put(b"neighbour-" + name, secondary_indexes=indexed(name, *DEPTHS))
    in_order = sorted(enumerate(DEPTHS), key=lambda each: shard.encode(each[1]))
    for start, end in itertools.product(DEPTHS, repeat=2):
        expected = [
            b"range-%s-%02d" % (index, place)
            for place, secondary in in_order
            if shard.encode(start) <= shard.encode(secondary) < shard.encode(end)
        ]
        assert shard.keys(start, end, index=index) == expected, (start, end)
    shard.close_session(session_id)


# ---- what a session leaves behind


def test_the_end_of_a_session_takes_its_index_entries(shard: Shard, index: bytes) -> None:
    session_id = shard.session()
    shard.put(b"mine-" + index, session_id=session_id, secondary_indexes=indexed(index, b"a", b"b/c"))
    shard.put(b"other-" + index, secondary_indexes=indexed(index, b"a"))
    shard.close_session(session_id)
    assert shard.keys(b"", b"~/~", index=index) == [b"other-" + index]
    assert shard.get(b"a", index=index).key == b"other-" + index
    assert shard.get(b"b/c", index=index) == pb.GetResponse(status=pb.KEY_NOT_FOUND)


EPHEMERAL_KEYS = (b"", *(bytes([byte]) for byte in b"aZ5%/$&+-.~!"), b"/a", b"a/b", b"\xc3\xa9")


@pytest.mark.parametrize("how", [None, *WAYS_DOWN])
@pytest.mark.parametrize("sorting", SORTINGS)
def test_sessions_survive_a_restart_and_take_all_their_records(
    start_server: StartServer, connected: Connect, sorting: Sorting, how: Literal["kill", "terminate"] | None
) -> None:
    server = start_server(sorting=sorting)
    shard = connected(server, sorting)
    session_id = shard.session()
    for key in EPHEMERAL_KEYS:
        shard.put(key, session_id=session_id)
    shard.put(b"stays")
    if how is not None:
        server.restart(how)
        shard = connected(server, sorting)
    assert shard.keep_alive(session_id) is StatusCode.OK
    assert shard.keys() == sorted([*EPHEMERAL_KEYS, b"stays"], key=shard.encode)
    shard.close_session(session_id)
    assert shard.keys() == [b"stays"]
    assert shard.keep_alive(session_id) is StatusCode.NOT_FOUND
    assert shard.try_put(b"late", session_id=session_id).only.puts[0].status == pb.SESSION_DOES_NOT_EXIST


# ---- the order of keys


@pytest.mark.parametrize("sorting", SORTINGS)
def test_nothing_is_lower_than_the_empty_key(start_server: StartServer, connected: Connect, sorting: Sorting) -> None:
    shard = connected(start_server(sorting=sorting), sorting)
    shard.put(b"a")
    shard.put(b"z/z")
    for comparison in (pb.LOWER, pb.FLOOR):
        assert shard.get(b"", comparison) == pb.GetResponse(status=pb.KEY_NOT_FOUND)
    assert shard.get(b"", pb.HIGHER).key == b"a"
    shard.put(b"")
    assert shard.get(b"", pb.LOWER) == pb.GetResponse(status=pb.KEY_NOT_FOUND)
    found = shard.get(b"", pb.FLOOR)
    assert (found.status, found.key) == (pb.OK, b"")


SLASHED = (*DEPTHS, b"x//", b"x/", b"x", b"/x", b"x/y")
ASKED = (*SLASHED, b"0", b"a/a", b"a/b/", b"m/n", b"x/y/z", b"//x", b"~")


def test_gets_by_index_know_one_order(shard: Shard, index: bytes) -> None:
    for secondary in SLASHED:
        shard.put(b"get-%s-%s" % (index, secondary), secondary_indexes=indexed(index, secondary))
    matches = {
        pb.EQUAL: lambda stored, asked: stored == asked,
        pb.FLOOR: lambda stored, asked: stored <= asked,
        pb.LOWER: lambda stored, asked: stored < asked,
        pb.CEILING: lambda stored, asked: stored >= asked,
        pb.HIGHER: lambda stored, asked: stored > asked,
    }
    for asked, (comparison, matching) in itertools.product(ASKED, matches.items()):
        candidates = [each for each in SLASHED if matching(shard.encode(each), shard.encode(asked))]
        found = shard.get(asked, comparison, index)
        if not candidates:
            assert found == pb.GetResponse(status=pb.KEY_NOT_FOUND), (asked, comparison)
            continue
        nearest = (max if comparison in (pb.FLOOR, pb.LOWER) else min)(candidates, key=shard.encode)
        assert (found.secondary_index_key, found.key) == (nearest, b"get-%s-%s" % (index, nearest)), (asked, comparison)


def test_a_get_by_index_finds_the_record_with_the_empty_key(shard: Shard, index: bytes) -> None:
    shard.put(b"", secondary_indexes=indexed(index, b"a/b"))
    for asked, comparison in (
        (b"a/b", pb.EQUAL),
        (b"a/b", pb.FLOOR),
        (b"a", pb.CEILING),
        (b"a", pb.HIGHER),
        (b"b/c", pb.LOWER),
    ):
        found = shard.get(asked, comparison, index)
        assert (found.status, found.HasField("key"), found.key) == (pb.OK, True, b"")
        assert found.secondary_index_key == b"a/b"


LOW_BYTES = (b"s", b"s\x00", b"s\x00\x00", b"s\x00\x01", b"s\x01", b"s\x01\x01", b"s\x01s", b"s\x02", b"\x00", b"\x01")


def test_secondary_keys_may_have_the_least_bytes(shard: Shard, index: bytes) -> None:
    primaries = {
        secondary: [b"low-%s-%s-%s" % (index, number, secondary) for number in (b"1", b"2")] for secondary in LOW_BYTES
    }
    for secondary, keys in primaries.items():
        for key in keys:
            shard.put(key, secondary_indexes=indexed(index, secondary))
    in_order = sorted(LOW_BYTES, key=shard.encode)
    assert shard.keys(b"", b"~", index=index) == [
        key for secondary in in_order for key in sorted(primaries[secondary], key=path_escaped)
    ]
    for secondary, following in itertools.pairwise(in_order):
        found = shard.get(secondary, index=index)
        assert (found.secondary_index_key, found.key) == (secondary, primaries[secondary][0])
        assert shard.get(secondary, pb.HIGHER, index).secondary_index_key == following
        assert shard.keys(secondary, following, index=index) == primaries[secondary]


# ---- streams


@pytest.mark.parametrize("how", WAYS_DOWN)
def test_a_subscription_after_a_restart_repeats_nothing(
    start_server: StartServer, connected: Connect, how: Literal["kill", "terminate"]
) -> None:
    server = start_server()
    shard = connected(server)
    for place in range(3):
        shard.put(b"before-%d" % place)
    server.restart(how)
    shard = connected(server)
    stream = shard.wire.open("GetNotifications", pb.NotificationsRequest(shard=0))
    greeting = stream.next()
    assert (greeting.offset, list(greeting.notifications)) == (2, [])
    shard.put(b"after")
    batch = stream.next()
    assert (batch.offset, [each.key for each in batch.notifications]) == (3, [b"after"])
    stream.cancel()


@pytest.mark.parametrize("how", WAYS_DOWN)
def test_a_refused_request_ends_its_stream_and_nothing_else(
    start_server: StartServer, connected: Connect, how: Literal["kill", "terminate"]
) -> None:
    server = start_server()
    shard = connected(server)
    headers = (("shard-id", "0"), ("namespace", "default"))
    stream = shard.wire.open("WriteStream", metadata=headers)
    other = shard.wire.open("WriteStream", metadata=headers)
    stream.send(pb.WriteRequest(puts=[pb.PutRequest(key=b"earlier")]))
    assert stream.next().puts[0].status == pb.OK
    stream.send(pb.WriteRequest(puts=[pb.PutRequest(key=b"wrong", sequence_key_delta=[1])]))
    stream.send(pb.WriteRequest(puts=[pb.PutRequest(key=b"later")]))
    with pytest.raises(Ended) as ended:
        stream.next()
    assert ended.value.status.code is StatusCode.INVALID_ARGUMENT
    other.send(pb.WriteRequest(puts=[pb.PutRequest(key=b"other")]))
    assert other.next().puts[0].status == pb.OK
    other.half_close()
    assert other.rest().status.code is StatusCode.OK
    server.restart(how)
    assert connected(server).keys() == [b"earlier", b"other"]


# ---- sequences


def number(place: int) -> bytes:
    return b"%020d" % place


@pytest.mark.parametrize(
    "suffix", [b"-", b"--5", b"+x-7", b"-x", b"-5", b"-%s-" % number(5), b"-%sx" % number(5), b"-%s-5" % number(5)]
)
def test_other_keys_do_not_disturb_a_sequence(shard: Shard, index: bytes, suffix: bytes) -> None:
    prefix = b"odd-" + index
    shard.put(prefix + suffix)
    for place in (1, 2):
        put = shard.put(prefix, partition_key=b"p", sequence_key_delta=[1])
        assert put.key == prefix + b"-" + number(place)


def test_a_sequence_ends_at_its_greatest_number(shard: Shard, index: bytes) -> None:
    prefix = b"full-" + index
    last = prefix + b"-" + number(GREATEST_NUMBER)
    put = shard.put(prefix, partition_key=b"p", sequence_key_delta=[GREATEST_NUMBER], value=b"kept",
                    secondary_indexes=indexed(index, b"s"))  # fmt: skip
    assert put.key == last
    for delta in (1, GREATEST_NUMBER):
        answer = shard.try_put(prefix, partition_key=b"p", sequence_key_delta=[delta])
        assert_refused(answer, StatusCode.INVALID_ARGUMENT, "exhausted")
        assert answer.status.details == (ErrorDetail("INVALID_REQUEST", "tidemark.metastore", {}),)
    assert shard.get(last).value == b"kept"
    assert shard.keys(b"", b"~", index=index) == [last]


# ---- ranges


@pytest.mark.parametrize("notifications", [True, False])
@pytest.mark.parametrize("sorting", SORTINGS)
def test_a_range_delete_without_an_end_deletes_nothing(
    start_server: StartServer, connected: Connect, sorting: Sorting, notifications: bool
) -> None:
    shard = connected(start_server(sorting=sorting, notifications=notifications), sorting)
    session_id = shard.session()
    shard.put(b"a", session_id=session_id)
    ranges = [pb.DeleteRangeRequest(start_inclusive=start) for start in (b"", b"a")]
    answer = shard.wire.call("Write", pb.WriteRequest(shard=0, delete_ranges=ranges)).only
    assert [each.status for each in answer.delete_ranges] == [pb.OK] * len(ranges)
    assert shard.keys() == [b"a"]
    assert shard.keep_alive(session_id) is StatusCode.OK


def test_keys_that_are_no_text_are_refused(shard: Shard) -> None:
    assert_refused(shard.try_put(b"caf\xe9/\xff"), StatusCode.INVALID_ARGUMENT, "UTF-8")


def test_the_page_of_faults_names_these_tests() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text(encoding="utf-8")))
    tests = {name for name in globals() if name.startswith("test_")}
    assert named == tests - {test_the_page_of_faults_names_these_tests.__name__}
