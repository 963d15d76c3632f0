"""Without space: puts are refused, reads and deletes go on, and writes resume by themselves when there is space."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from crash_client import delete_code, get, health, put, put_code, streamed_put, values
from crash_server import FaultyServer, SmallServer
from grpc_health.v1 import health_pb2

from metastore.pb import oxia_pb2 as pb
from support.wire import WireClient

FULL = grpc.StatusCode.RESOURCE_EXHAUSTED
OK = grpc.StatusCode.OK
VALUE = b"v" * 10_000
PUTS_MAX = 50_000
RESUMED_WITHIN_S = 90.0
BETWEEN_ATTEMPTS_S = 0.05


@pytest.fixture
def space_again(tmp_path: Path) -> Path:
    """The disk has space again as soon as this file exists."""
    return tmp_path / "space"


@pytest.fixture
def on_full_disk(space_again: Path) -> Iterator[FaultyServer]:
    """A server whose log can be extended some times, and then no more."""
    server = FaultyServer()
    server.arm("log.extend:3:nospace", until=space_again)
    with server:
        yield server


def fill(wire: WireClient) -> list[bytes]:
    """Puts records until one is refused; returns the keys of those that were not."""
    for number in range(PUTS_MAX):
        code = put_code(wire, b"key-%06d" % number, VALUE)
        if code is not OK:
            assert code is FULL
            return [b"key-%06d" % each for each in range(number)]
    raise AssertionError("the store never gets full")


def assert_only_puts_are_refused(wire: WireClient, keys: list[bytes]) -> list[bytes]:
    """Returns the keys that are left: the first two are deleted."""
    assert len(keys) > 4
    refused = put(wire, b"new", VALUE).status
    assert refused.code is FULL
    assert refused.reasons == ["STORE_FULL"]
    assert get(wire, keys[0]).value == VALUE
    assert [delete_code(wire, key) for key in keys[:2]] == [OK, OK]
    assert get(wire, keys[0]).status == pb.KEY_NOT_FOUND
    assert put_code(wire, b"new", VALUE) is FULL
    ended = streamed_put(wire, b"new", VALUE)
    assert (ended.messages, ended.status.code) == ([], FULL)
    assert values(wire) == dict.fromkeys(keys[2:], VALUE)
    assert health(wire) == health_pb2.HealthCheckResponse.SERVING
    return keys[2:]


def assert_puts_resume(wire: WireClient) -> None:
    """As soon as LMDB has moved, which happens by itself."""
    deadline_s = time.monotonic() + RESUMED_WITHIN_S
    while (code := put_code(wire, b"new", VALUE)) is FULL:
        assert time.monotonic() < deadline_s, "puts do not resume"
        time.sleep(BETWEEN_ATTEMPTS_S)
    assert code is OK


def test_a_full_disk_refuses_puts_until_it_has_space(on_full_disk: FaultyServer, space_again: Path) -> None:
    server = on_full_disk
    with WireClient(server.address) as wire:
        left = assert_only_puts_are_refused(wire, fill(wire))
        space_again.touch()
        assert put_code(wire, b"new", VALUE) is OK
        expected = dict.fromkeys([*left, b"new"], VALUE)
        assert values(wire) == expected
    server.restart("kill")
    with WireClient(server.address) as wire:
        assert values(wire) == expected


def test_a_full_disk_survives_a_crash(on_full_disk: FaultyServer) -> None:
    server = on_full_disk
    with WireClient(server.address) as wire:
        left = assert_only_puts_are_refused(wire, fill(wire))
    server.arm("log.extend:1:nospace")
    server.restart("kill")
    with WireClient(server.address) as wire:
        assert values(wire) == dict.fromkeys(left, VALUE)
        assert [delete_code(wire, left[0]), put_code(wire, b"new", VALUE)] == [OK, FULL]
    server.arm(None)
    server.restart("kill")
    with WireClient(server.address) as wire:
        assert values(wire) == dict.fromkeys(left[1:], VALUE)
        assert put_code(wire, b"new", VALUE) is OK


def test_beyond_the_quota_puts_are_refused_until_enough_is_deleted() -> None:
    with FaultyServer(extra_args=["--quota", "4MiB"]) as server, WireClient(server.address) as wire:
        left = assert_only_puts_are_refused(wire, fill(wire))
        assert {delete_code(wire, key) for key in left[1:]} == {OK}
        assert_puts_resume(wire)
        assert values(wire) == dict.fromkeys([left[0], b"new"], VALUE)


def test_where_lmdb_finds_no_space_puts_are_refused_before_memory_is_full(space_again: Path) -> None:
    server = SmallServer()
    server.arm("feeder.commit.before:3:nospace", until=space_again)
    with server:
        with WireClient(server.address) as wire:
            left = assert_only_puts_are_refused(wire, fill(wire))
            space_again.touch()
            assert_puts_resume(wire)
            expected = dict.fromkeys([*left, b"new"], VALUE)
            assert values(wire) == expected
        server.restart("kill")
        with WireClient(server.address) as wire:
            assert values(wire) == expected
