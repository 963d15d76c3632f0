"""The stock Python client: records, versions, lists, scans and range deletes."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import oxia
import pytest

from metastore.pb import oxia_pb2
from support.server import ServerProcess
from support.stock_client import shard_of, stock_client
from support.wire import WireClient

ABSENT = oxia.EXPECTED_RECORD_DOES_NOT_EXIST


def put_many(server: ServerProcess, records: list[tuple[str, bytes]], per_request: int) -> None:
    """Puts records on shard 0, many at a time, which the stock client cannot."""
    with WireClient(server.address) as wire:
        for start in range(0, len(records), per_request):
            request = oxia_pb2.WriteRequest(shard=0)
            for key, value in records[start : start + per_request]:
                request.puts.add(key=key.encode(), value=value)
            answer = wire.call("Write", request)
            assert all(put.status == oxia_pb2.Status.OK for put in answer.only.puts)


def test_a_record_is_got_as_it_was_put(client: Any, space: str) -> None:
    key, version = client.put(f"{space}a", b"\x00\xff value")
    assert key == f"{space}a"
    got_key, value, got_version = client.get(key)
    assert (got_key, value) == (key, b"\x00\xff value")
    assert str(got_version) == str(version)


def test_a_new_record_has_a_new_version(client: Any, space: str) -> None:
    before = datetime.datetime.now() - datetime.timedelta(seconds=1)
    _, version = client.put(f"{space}a", "text")
    assert version.modifications_count() == 0
    assert version.created_timestamp() == version.modified_timestamp()
    assert before < version.created_timestamp() < datetime.datetime.now() + datetime.timedelta(seconds=1)
    assert not version.is_ephemeral()
    assert version.session_id() is None
    assert version.client_identity() is None


def test_overwriting_counts_and_keeps_the_time_of_creation(client: Any, space: str) -> None:
    _, first = client.put(f"{space}a", "1")
    for count in range(1, 6):
        _, version = client.put(f"{space}a", str(count))
        assert version.version_id() > first.version_id()
        assert version.modifications_count() == count
        assert version.created_timestamp() == first.created_timestamp()
        assert version.modified_timestamp() >= first.modified_timestamp()


def test_a_deleted_record_is_gone_and_begins_anew(client: Any, space: str) -> None:
    client.put(f"{space}a", "1")
    _, old = client.put(f"{space}a", "2")
    assert client.delete(f"{space}a") is True
    with pytest.raises(oxia.ex.KeyNotFound):
        client.get(f"{space}a")
    assert client.delete(f"{space}a") is False
    _, new = client.put(f"{space}a", "3")
    assert new.modifications_count() == 0
    assert new.version_id() > old.version_id()


def test_a_put_may_expect_a_version(client: Any, space: str) -> None:
    _, first = client.put(f"{space}a", "1", expected_version_id=ABSENT)
    _, second = client.put(f"{space}a", "2", expected_version_id=first.version_id())
    for wrong in (first.version_id(), second.version_id() + 1, ABSENT):
        with pytest.raises(oxia.ex.UnexpectedVersionId):
            client.put(f"{space}a", "3", expected_version_id=wrong)
    with pytest.raises(oxia.ex.UnexpectedVersionId):
        client.put(f"{space}b", "3", expected_version_id=second.version_id())
    _, value, version = client.get(f"{space}a")
    assert (value, version.version_id()) == (b"2", second.version_id())
    assert client.list(space, f"{space}~") == [f"{space}a"]


def test_a_delete_may_expect_a_version(client: Any, space: str) -> None:
    _, version = client.put(f"{space}a", "1")
    with pytest.raises(oxia.ex.UnexpectedVersionId):
        client.delete(f"{space}a", expected_version_id=version.version_id() + 1)
    with pytest.raises(oxia.ex.UnexpectedVersionId):
        client.delete(f"{space}a", expected_version_id=ABSENT)
    assert client.get(f"{space}a")[1] == b"1"
    assert client.delete(f"{space}a", expected_version_id=version.version_id()) is True
    with pytest.raises(oxia.ex.UnexpectedVersionId):
        client.delete(f"{space}a", expected_version_id=version.version_id())


@pytest.mark.parametrize("value", [b"", bytes(range(256)), b"x" * 3_000_000], ids=["empty", "every byte", "large"])
def test_values_are_kept_as_they_are(client: Any, space: str, value: bytes) -> None:
    client.put(f"{space}a", value)
    assert client.get(f"{space}a")[1] == value
    ((_, scanned, _),) = client.range_scan(space, f"{space}~")
    assert scanned == value


@pytest.mark.parametrize("tail", ["ä €/😀", "%2F%", "a b:c@d", "x" * 20_000, "/" * 50, "\x00\x01\x7f"], ids=range(6))
def test_keys_are_kept_as_they_are(client: Any, space: str, tail: str) -> None:
    key = space + tail
    assert client.put(key, "v")[0] == key
    assert client.get(key)[0] == key
    assert client.delete(key) is True


def test_the_empty_key_is_a_key(client: Any) -> None:
    client.put("", "v")
    assert client.get("")[:2] == ("", b"v")
    assert client.delete("") is True


def test_a_value_may_be_left_out(client: Any, space: str) -> None:
    _, version = client.put(f"{space}a", "1")
    key, value, got = client.get(f"{space}a", include_value=False)
    assert (key, value, got.version_id()) == (f"{space}a", None, version.version_id())


def test_lists_and_scans_begin_with_their_start_and_stop_before_their_end(client: Any, space: str) -> None:
    versions = {f"{space}{tail}": client.put(space + tail, tail)[1].version_id() for tail in "dbfaec"}
    assert client.list(f"{space}b", f"{space}e") == [space + tail for tail in "bcd"]
    records = list(client.range_scan(f"{space}b", f"{space}e"))
    assert [key for key, _, _ in records] == [space + tail for tail in "bcd"]
    assert [value for _, value, _ in records] == [b"b", b"c", b"d"]
    assert all(version.version_id() == versions[key] for key, _, version in records)


@pytest.mark.parametrize(("start", "end"), [("x", "y"), ("c", "c"), ("d", "b")], ids=["gap", "empty", "inverted"])
def test_a_range_may_hold_nothing(client: Any, space: str, start: str, end: str) -> None:
    for tail in "abcde":
        client.put(space + tail, tail)
    assert client.list(space + start, space + end) == []
    assert list(client.range_scan(space + start, space + end)) == []
    client.delete_range(space + start, space + end)
    assert len(client.list(space, f"{space}~")) == 5


def test_children_are_listed_without_grandchildren(client: Any, space: str) -> None:
    for path in ("p", "p/a", "p/b", "p/a/x", "p/b/x/y", "q/a"):
        client.put(f"{space}{path}", path)
    assert client.list(f"{space}p/", f"{space}p//") == [f"{space}p/a", f"{space}p/b"]


def test_a_range_is_deleted(client: Any, space: str) -> None:
    for tail in "abcdef":
        client.put(space + tail, tail)
    client.delete_range(f"{space}b", f"{space}e")
    assert client.list(space, f"{space}~") == [f"{space}a", f"{space}e", f"{space}f"]


def test_a_partition_key_keeps_records_together(client: Any, shared_server: ServerProcess, space: str) -> None:
    keys = [f"{space}{number:02d}" for number in range(20)]
    for key in keys:
        client.put(key, key, partition_key="home")
    home = shard_of("home", shared_server.shards)
    strays = [key for key in keys if shard_of(key, shared_server.shards) != home]
    assert bool(strays) == (shared_server.shards > 1)
    for key in keys:
        assert client.get(key, partition_key="home")[1] == key.encode()
    for key in strays:
        with pytest.raises(oxia.ex.KeyNotFound):
            client.get(key)
        assert client.delete(key) is False
    assert client.list(space, f"{space}~", partition_key="home") == keys
    assert [key for key, _, _ in client.range_scan(space, f"{space}~", partition_key="home")] == keys
    assert client.delete(keys[0], partition_key="home") is True
    client.delete_range(keys[1], keys[5], partition_key="home")
    assert client.list(space, f"{space}~") == keys[5:]


def test_long_lists_come_in_pieces(client: Any, shared_server: ServerProcess, space: str) -> None:
    """More keys than a message may hold by the client's limit of 4 MiB."""
    padding = "x" * 1000
    records = [(f"{space}{number:05d}{padding}", b"") for number in range(5000)]
    put_many(shared_server, records, 1000)
    assert client.list(space, f"{space}~") == [key for key, _ in records]


def test_long_scans_come_in_pieces(client: Any, shared_server: ServerProcess, space: str) -> None:
    """More values than a message may hold, and single ones that nearly fill it."""
    values = [b"s" * 2000] * 2500 + [b"l" * 3_500_000] * 2
    records = [(f"{space}{number:05d}", value) for number, value in enumerate(values)]
    put_many(shared_server, records, 1000)
    assert [(key, value) for key, value, _ in client.range_scan(space, f"{space}~")] == records


def test_a_scan_may_be_abandoned(client: Any, shared_server: ServerProcess, space: str) -> None:
    records = [(f"{space}{number:05d}", b"v" * 1000) for number in range(5000)]
    put_many(shared_server, records, 1000)
    for _ in range(20):
        scan: Iterator[Any] = client.range_scan(space, f"{space}~")
        assert next(scan)[0] == records[0][0]
        del scan
    assert len(client.list(space, f"{space}~")) == 5000


@pytest.fixture
def alone(start_server: Any, shared_server: ServerProcess) -> Iterator[Any]:
    """A client of an empty server, with as many shards as the shared one."""
    with stock_client(start_server(shards=shared_server.shards).address) as made:
        yield made


COMPARISONS = [
    ("EQUAL", ["a: none", "b: b", "c: none", "d: d", "f: f", "g: none"]),
    ("FLOOR", ["a: none", "b: b", "c: b", "d: d", "f: f", "g: f"]),
    ("CEILING", ["a: b", "b: b", "c: d", "d: d", "f: f", "g: none"]),
    ("LOWER", ["a: none", "b: none", "c: b", "d: b", "f: d", "g: f"]),
    ("HIGHER", ["a: b", "b: d", "c: d", "d: f", "f: none", "g: none"]),
]


def neighbour(client: Any, key: str, comparison: str, **options: Any) -> str:
    try:
        found, value, _ = client.get(key, comparison_type=oxia.ComparisonType[comparison], **options)
    except oxia.ex.KeyNotFound:
        return f"{key}: none"
    assert value == f"value of {found}".encode()
    return f"{key}: {found}"


def test_neighbours_are_found(alone: Any) -> None:
    for key in "bdf":
        alone.put(key, f"value of {key}")
    for comparison, wanted in COMPARISONS:
        assert [neighbour(alone, key, comparison) for key in "abcdfg"] == wanted, comparison


def test_neighbours_are_found_within_a_partition(alone: Any) -> None:
    for key in "bdf":
        alone.put(key, f"value of {key}", partition_key="home")
    for comparison, wanted in COMPARISONS:
        found = [neighbour(alone, key, comparison, partition_key="home") for key in "abcdfg"]
        assert found == wanted, comparison


def test_deeper_keys_come_after_shallower_ones(alone: Any) -> None:
    order = ["a", "zz", "a/b", "z/b", "a/b/c"]
    for key in order:
        alone.put(key, f"value of {key}", partition_key="home")
    for lower, higher in itertools.pairwise(order):
        assert neighbour(alone, lower, "HIGHER", partition_key="home") == f"{lower}: {higher}"
        assert neighbour(alone, higher, "LOWER", partition_key="home") == f"{higher}: {lower}"
    assert alone.list("a", "a/b/c~", partition_key="home") == order


def test_concurrent_increments_are_not_lost(shared_server: ServerProcess, space: str) -> None:
    key, workers, increments = f"{space}counter", 4, 25

    def work(_: int) -> None:
        with stock_client(shared_server.address) as client:
            done = 0
            while done < increments:
                _, value, version = client.get(key)
                try:
                    client.put(key, str(int(value) + 1), expected_version_id=version.version_id())
                except oxia.ex.UnexpectedVersionId:
                    continue
                done += 1

    with stock_client(shared_server.address) as client:
        client.put(key, "0")
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(workers)))
        _, value, version = client.get(key)
    assert int(value) == workers * increments
    assert version.modifications_count() == workers * increments
