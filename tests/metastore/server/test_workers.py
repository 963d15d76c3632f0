"""Several processes that are one service."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import grpc
import pytest
from server_helpers import (
    BETWEEN_LOOKS_S,
    SERVING,
    WITHIN_S,
    children,
    eventually,
    health,
    is_free,
    lives,
    run_server,
    server_of_workers,
    store_url,
)

from metastore.directory import Namespace, NamespaceConfig
from metastore.interface import BlockingStore, OutcomeUnknown, Unavailable
from metastore.pb import oxia_pb2 as pb
from metastore.server.config import ServerConfig
from metastore.server.process import leaders
from metastore.server.workers import decode_orders, encode_orders, plan_workers
from support.ports import LOOPBACK, free_port
from support.server import ServerProcess
from support.wire import ErrorDetail, WireClient

WORKERS, SHARDS = 2, 4

Result = TypeVar("Result")


def await_workers(server: ServerProcess) -> None:
    assert [health(address) for address in addresses(server)] == [SERVING] * WORKERS


def addresses(server: ServerProcess) -> list[str]:
    return [f"{LOOPBACK}:{server.port + place}" for place in range(WORKERS)]


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with server_of_workers(WORKERS, SHARDS) as made:
        await_workers(made)
        yield made


def put_keys(store: BlockingStore, keys: dict[str, bytes]) -> None:
    for key, value in keys.items():
        until_reconnected(lambda key=key, value=value: store.put(key, value))  # type: ignore[misc]


def until_reconnected(action: Callable[[], Result]) -> Result:
    """The result of an action that may be repeated, as soon as its server can be reached again."""
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        try:
            return action()
        except (Unavailable, OutcomeUnknown):
            if time.monotonic() > deadline_s:
                raise
            time.sleep(BETWEEN_LOOKS_S)


# ---- plans

NAMESPACES = [Namespace("default", 0, 4, "hierarchical", True), Namespace("other", 4, 3, "natural", False)]


def test_every_shard_has_one_worker_and_one_address() -> None:
    config = ServerConfig(public_addr="127.0.0.1:7000", metrics_addr="127.0.0.1:8000", workers=3)
    plans = plan_workers(config, NAMESPACES)
    assert [plan.public_addr for plan in plans] == ["127.0.0.1:7000", "127.0.0.1:7001", "127.0.0.1:7002"]
    assert [plan.metrics_addr for plan in plans] == ["127.0.0.1:8000", "127.0.0.1:8001", "127.0.0.1:8002"]
    served = {shard: plan.public_addr for plan in plans for shard, _ in plan.shard_namespaces()}
    assert sorted(served) == list(range(7))
    assert sum(len(plan.shard_namespaces()) for plan in plans) == len(served)
    assert all(leaders(config, plan) == served for plan in plans)


def test_clients_are_told_the_advertised_host_and_tls() -> None:
    config = ServerConfig(
        public_addr="0.0.0.0:7000",
        workers=2,
        advertise="fd00::1",
        tls_cert_file=Path("cert.pem"),
        tls_key_file=Path("key.pem"),
    )
    (plan, _) = plan_workers(config, [Namespace("default", 0, 2, "hierarchical", True)])
    assert leaders(config, plan) == {0: "tls://[fd00::1]:7000", 1: "tls://[fd00::1]:7001"}


def test_a_single_process_names_the_address_that_it_was_called_by() -> None:
    config = ServerConfig(public_addr="127.0.0.1:7000")
    (plan,) = plan_workers(config, NAMESPACES)
    assert leaders(config, plan) == {}


def test_orders_arrive_as_they_were_given() -> None:
    namespaces = (NamespaceConfig("default", 4), NamespaceConfig("other", 3, "natural", False))
    config = ServerConfig(workers=2, tokens_file=Path("tokens"), quota="1GiB", namespaces=namespaces)
    for plan in plan_workers(config, NAMESPACES):
        for log_json in (False, True):
            assert decode_orders(encode_orders(config, plan, log_json)) == (config, plan, log_json)


# ---- processes


def test_all_shards_are_served_at_the_addresses_that_clients_are_told(server: ServerProcess) -> None:
    expected = {shard: addresses(server)[shard % WORKERS].encode() for shard in range(SHARDS)}
    for address in addresses(server):
        with WireClient(address) as wire:
            stream = wire.open("GetShardAssignments", pb.ShardAssignmentsRequest(namespace=b"default"))
            assigned = stream.next().namespaces["default"].assignments
            stream.cancel()
        assert {each.shard: each.leader for each in assigned} == expected
    keys = {f"/key-{place:03d}": b"%d" % place for place in range(40)}
    with BlockingStore.open(store_url(server)) as store, store.open_session() as session:
        put_keys(store, keys)
        assert list(store.list()) == list(keys)
        assert [store.get(key) for key in keys] == list(store.scan())
        assert {record.key: record.value for record in store.scan()} == keys
        for key in keys:
            store.put("/mine" + key, b"", session=session)
    for shard, leader in expected.items():
        with WireClient(leader.decode()) as wire:
            (chunk,) = wire.call("List", pb.ListRequest(shard=shard)).messages
            assert chunk.keys


def test_a_shard_of_another_worker_is_refused_with_the_way_there(server: ServerProcess) -> None:
    for place, address in enumerate(addresses(server)):
        with WireClient(address) as wire:
            for shard in range(SHARDS):
                status = wire.call("Read", pb.ReadRequest(shard=shard)).status
                if shard % WORKERS == place:
                    assert status.code is grpc.StatusCode.OK
                    continue
                hint = {"shard": str(shard), "leader": addresses(server)[shard % WORKERS]}
                assert (status.code, status.message) == (grpc.StatusCode.ABORTED, "oxia: node is not leader")
                assert status.details == (ErrorDetail("NODE_IS_NOT_LEADER", "oxia.io", hint),)


def test_a_killed_worker_comes_back_and_clients_go_on(server: ServerProcess) -> None:
    keys = {f"/key-{place:03d}": b"%d" % place for place in range(20)}
    with BlockingStore.open(store_url(server)) as store:
        put_keys(store, keys)
        for victim in children(server.process.pid):
            os.kill(victim, signal.SIGKILL)
            eventually(lambda victim=victim: not lives(victim), "the end of the worker")  # type: ignore[misc]
            await_workers(server)
            assert until_reconnected(lambda: list(store.list())) == list(keys)
            put_keys(store, keys)
    assert len(children(server.process.pid)) == WORKERS
    assert server.terminate() == 0
    assert server.log_tail().count("starting it again") == WORKERS


def test_no_worker_outlives_its_parent(server: ServerProcess) -> None:
    workers = children(server.process.pid)
    assert len(workers) == WORKERS
    server.process.kill()
    server.process.wait()
    eventually(lambda: not any(map(lives, workers)), "the end of the workers")
    eventually(lambda: all(is_free(server.port + place) for place in range(WORKERS)), "free ports")
    server.kill()
    server.start()
    await_workers(server)


def test_a_signal_stops_all_workers(server: ServerProcess) -> None:
    workers = children(server.process.pid)
    assert server.terminate() == 0
    assert not any(map(lives, workers))


@pytest.mark.parametrize("what", ["public", "metrics"])
def test_a_worker_that_cannot_start_fails_the_start(tmp_path: Path, what: str) -> None:
    with socket.socket() as taken:
        port = free_port()
        taken.bind((LOOPBACK, port))
        taken.listen()
        ports = {"public": free_port(), "metrics": 0} | {what: port - 1}
        ended = run_server(
            tmp_path,
            *("--workers", str(WORKERS), "--shards", str(SHARDS)),
            *("--public-addr", f"{LOOPBACK}:{ports['public']}", "--metrics-addr", f"{LOOPBACK}:{ports['metrics']}"),
        )
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("tidemark: worker 1 cannot start: ")
    assert "in use" in last
    assert "Traceback" not in ended.stderr
    assert "starting it again" not in ended.stderr
    assert is_free(ports["public"])
