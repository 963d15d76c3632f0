"""The stock Python client goes on when its server comes back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import oxia
import pytest

from support.server import ServerProcess
from support.stock_client import Collector, restarted_client, shard_of, until_reconnected

Restart = Any


@pytest.fixture(params=[1, 10], ids=lambda shards: f"shards={shards}")
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    with ServerProcess(shards=request.param) as started:
        yield started


@pytest.fixture(params=["terminate", "kill"])
def restart(request: pytest.FixtureRequest, server: ServerProcess) -> Restart:
    return lambda: server.restart(request.param)


def test_nothing_is_lost_or_forgotten(server: ServerProcess, restart: Restart) -> None:
    with restarted_client(server.address) as client:
        keys = [f"key-{number:02d}" for number in range(30)]
        versions = {key: client.put(key, key, secondary_indexes={"i": key})[1] for key in keys}
        client.put(keys[0], "again", expected_version_id=versions[keys[0]].version_id())
        client.delete(keys[1])
        client.put("s", "v", partition_key="home", sequence_keys_deltas=[5])
        restart()
        assert until_reconnected(lambda: client.list("key-", "key-~")) == [keys[0], *keys[2:]]
        assert client.list("key-", "key-~", use_index="i") == keys[2:]
        _, value, version = client.get(keys[0])
        assert (value, version.modifications_count()) == (b"again", 1)
        assert str(client.get(keys[2])[2]) == str(versions[keys[2]])
        after, _ = client.put("s", "v", partition_key="home", sequence_keys_deltas=[1])
        assert after == "s-00000000000000000006"
        # The number of the shard's versions goes on as well.
        neighbours = [key for key in keys if shard_of(key, server.shards) == shard_of(keys[2], server.shards)]
        _, newer = client.put(keys[2], "again")
        assert newer.version_id() > max(versions[key].version_id() for key in neighbours)


def test_sessions_live_on(server: ServerProcess, restart: Restart) -> None:
    with restarted_client(server.address) as client, restarted_client(server.address) as other:
        _, before = client.put("a", "v", ephemeral=True)
        other.put("b", "v", ephemeral=True)
        restart()
        _, value, version = until_reconnected(lambda: client.get("a"))
        assert value == b"v"
        assert version.session_id() == before.session_id()
        _, after = client.put("a", "w", ephemeral=True)
        assert after.session_id() == before.session_id()
        assert after.modifications_count() == 1
        assert client.get("b")[2].is_ephemeral()
        with pytest.raises(oxia.ex.UnexpectedVersionId):
            client.put("b", "w", expected_version_id=oxia.EXPECTED_RECORD_DOES_NOT_EXIST)


def test_notifications_go_on_without_gap_or_repetition(server: ServerProcess, restart: Restart) -> None:
    with restarted_client(server.address) as client:
        changes = Collector[Any](client.get_notifications())
        before, told = [f"before-{number}" for number in range(20)], []
        for key in before:
            client.put(key, "v")
            told.append(changes.next().key())
        restart()
        # One after the other on one shard: a client that waits for the other shards would not see the second.
        after = [f"after-{number}" for number in range(5)]
        for key in after:
            until_reconnected(partial(client.put, key, "v", partition_key="home"))
            told.append(changes.next().key())
        assert told == [f"before-{number}" for number in range(20)] + [f"after-{number}" for number in range(5)]


def test_sequence_updates_go_on(server: ServerProcess, restart: Restart) -> None:
    def put() -> str:
        key, _ = client.put("s", "v", partition_key="home", sequence_keys_deltas=[1])
        return str(key)

    with restarted_client(server.address) as client:
        updates = Collector[str](client.get_sequence_updates("s", partition_key="home"))
        first = put()
        assert updates.next() == first
        restart()
        second = until_reconnected(put)
        seen = [updates.next()]
        while seen[-1] != second:
            seen.append(updates.next())
        assert set(seen) <= {first, second}
        assert seen == sorted(seen)
        assert put() == updates.next()
