"""The stock Python client: keys that the server numbers, and subscriptions to them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import grpc
import oxia
import pytest

from support.server import ServerProcess
from support.stock_client import Collector, finishes, stock_client

Subscribe = Callable[[str], Collector[str]]


def put(client: Any, prefix: str, *deltas: int, **options: Any) -> str:
    key, _ = client.put(prefix, "v", partition_key="home", sequence_keys_deltas=list(deltas), **options)
    return str(key)


def numbered(prefix: str, *numbers: int) -> str:
    return prefix + "".join(f"-{number:020d}" for number in numbers)


@pytest.fixture
def subscribe(client: Any) -> Iterator[Subscribe]:
    """Subscribes to a sequence until the end of the test."""
    with ExitStack() as subscriptions:

        def start(prefix: str) -> Collector[str]:
            updates = client.get_sequence_updates(prefix, partition_key="home")
            collector = Collector[str](updates)

            def close() -> None:
                assert finishes(updates.close), "close() of a subscription hangs"
                assert collector.ends()

            subscriptions.callback(close)
            return collector

        yield start


def test_numbers_add_up(client: Any, space: str) -> None:
    assert put(client, space, 3) == numbered(space, 3)
    assert put(client, space, 1, 6) == numbered(space, 4, 6)
    assert put(client, space, 1, 6) == numbered(space, 5, 12)
    assert put(client, space, 10, 0, 7) == numbered(space, 15, 12, 7)
    assert put(client, f"{space}other", 1) == numbered(f"{space}other", 1)


def test_a_numbered_record_is_like_any_other(client: Any, space: str) -> None:
    key, version = client.put(space, "v", partition_key="home", sequence_keys_deltas=[1])
    found, value, got = client.get(key, partition_key="home")
    assert (found, value, got.version_id()) == (key, b"v", version.version_id())
    assert client.list(f"{space}-", f"{space}.", partition_key="home") == [key]
    assert client.delete(key, partition_key="home") is True


def test_a_hundred_puts_are_numbered_in_order(client: Any, space: str) -> None:
    assert [put(client, space, 1) for _ in range(100)] == [numbered(space, n) for n in range(1, 101)]


def test_concurrent_puts_have_different_numbers(shared_server: ServerProcess, space: str) -> None:
    def work(_: int) -> list[str]:
        with stock_client(shared_server.address) as client:
            return [put(client, space, 1) for _ in range(25)]

    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(work, range(4)))
    assert all(run == sorted(run) for run in runs)
    assert sorted(itertools.chain(*runs)) == [numbered(space, number) for number in range(1, 101)]


def test_other_keys_do_not_disturb(client: Any, space: str) -> None:
    put(client, space, 7)
    for tail in ("", "+xxxx", "-x", "x-00000000000000000099", "/a", "."):
        client.put(space + tail, "v", partition_key="home")
    assert put(client, space, 1) == numbered(space, 8)


def test_sequences_may_be_indexed(client: Any, space: str) -> None:
    keys = [put(client, space, 1, secondary_indexes={f"{space}i": name}) for name in "cab"]
    assert client.list("a", "z", partition_key="home", use_index=f"{space}i") == [keys[1], keys[2], keys[0]]


@pytest.mark.parametrize("deltas", [[0, 1], [1]], ids=["first delta zero", "too few deltas"])
def test_a_bad_sequence_request_changes_nothing(client: Any, space: str, deltas: list[int]) -> None:
    first = put(client, space, 1, 1)
    with pytest.raises(grpc.RpcError) as failure:
        put(client, space, *deltas)
    assert failure.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert client.list(space, f"{space}~", partition_key="home") == [first]
    assert put(client, space, 1, 1) == numbered(space, 2, 2)


def test_what_cannot_be_numbered_is_not_even_sent(client: Any, space: str) -> None:
    with pytest.raises(oxia.ex.InvalidOptions):
        client.put(space, "v", sequence_keys_deltas=[1])
    with pytest.raises(oxia.ex.InvalidOptions):
        put(client, space, 1, expected_version_id=0)
    with pytest.raises(oxia.ex.InvalidOptions):
        client.get_sequence_updates(space)


def test_a_subscription_tells_the_last_key_and_then_each_new_one(client: Any, subscribe: Subscribe, space: str) -> None:
    put(client, space, 1)
    last = put(client, space, 1)
    updates = subscribe(space)
    assert updates.next() == last
    for _ in range(5):
        key = put(client, space, 1)
        assert updates.next() == key


def test_a_subscription_is_silent_until_the_first_put(client: Any, subscribe: Subscribe, space: str) -> None:
    updates = subscribe(space)
    put(client, f"{space}other", 1)
    client.put(f"{space}-x", "v", partition_key="home")
    assert put(client, space, 5) == updates.next() == numbered(space, 5)


def test_every_subscriber_is_told(client: Any, subscribe: Subscribe, space: str) -> None:
    put(client, space, 1)
    subscribers = [subscribe(space) for _ in range(3)]
    assert [updates.next() for updates in subscribers] == [numbered(space, 1)] * 3
    put(client, space, 1)
    assert [updates.next() for updates in subscribers] == [numbered(space, 2)] * 3


def test_a_subscriber_that_lags_gets_to_the_last_key(client: Any, subscribe: Subscribe, space: str) -> None:
    updates = subscribe(space)
    keys = [put(client, space, 1) for _ in range(200)]
    seen = [updates.next()]
    while seen[-1] != keys[-1]:
        seen.append(updates.next())
    assert seen == sorted(set(seen))
    assert set(seen) <= set(keys)


def test_deleting_is_not_an_update(client: Any, subscribe: Subscribe, space: str) -> None:
    keys = [put(client, space, 1) for _ in range(3)]
    updates = subscribe(space)
    assert updates.next() == keys[2]
    client.delete(keys[0], partition_key="home")
    put(client, space, 1)
    assert updates.next() == numbered(space, 4)
