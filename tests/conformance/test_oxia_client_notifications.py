"""The stock Python client: notifications of changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import oxia
import pytest

from support.server import ServerProcess
from support.stock_client import Collector, finishes

CREATED = oxia.NotificationType.KEY_CREATED
MODIFIED = oxia.NotificationType.KEY_MODIFIED
DELETED = oxia.NotificationType.KEY_DELETED
RANGE_DELETED = oxia.NotificationType.KEY_RANGE_DELETED

Change = tuple[Any, str, int, str | None]


class Changes:
    """The notifications about one key space, as tuples."""

    def __init__(self, notifications: Any, space: str) -> None:
        self._collector = Collector[Any](notifications)
        self._space = space

    def next(self) -> Change:
        while True:
            n = self._collector.next()
            if n.key().startswith(self._space):
                return (n.notification_type(), n.key(), n.version_id(), n.key_range_end())

    def take(self, count: int) -> list[Change]:
        return [self.next() for _ in range(count)]

    def end(self) -> bool:
        return self._collector.ends()


Subscribe = Callable[[], Changes]


@pytest.fixture
def subscribe(client: Any, space: str) -> Iterator[Subscribe]:
    """Subscribes until the end of the test."""
    with ExitStack() as subscriptions:

        def start() -> Changes:
            notifications = client.get_notifications()
            changes = Changes(notifications, space)

            def close() -> None:
                assert finishes(notifications.close), "close() of a subscription hangs"
                assert changes.end(), "a closed subscription does not end"

            subscriptions.callback(close)
            return changes

        yield start


def test_changes_of_a_key_are_told_in_order(other: Any, subscribe: Subscribe, space: str) -> None:
    changes = subscribe()
    key = f"{space}a"
    versions = [other.put(key, str(number))[1].version_id() for number in range(3)]
    other.delete(key)
    versions.append(other.put(key, "again")[1].version_id())
    assert changes.take(5) == [
        (CREATED, key, versions[0], None),
        (MODIFIED, key, versions[1], None),
        (MODIFIED, key, versions[2], None),
        (DELETED, key, 0, None),
        (CREATED, key, versions[3], None),
    ]


def test_a_subscriber_is_told_of_nothing_older(other: Any, subscribe: Subscribe, space: str) -> None:
    first = subscribe()
    other.put(f"{space}a", "1")
    assert first.next()[:2] == (CREATED, f"{space}a")
    second = subscribe()
    other.put(f"{space}a", "2")
    assert first.next()[:2] == second.next()[:2] == (MODIFIED, f"{space}a")


def test_what_failed_is_not_told(other: Any, subscribe: Subscribe, space: str) -> None:
    changes = subscribe()
    key = f"{space}a"
    other.put(key, "1")
    with pytest.raises(oxia.ex.UnexpectedVersionId):
        other.put(key, "2", expected_version_id=-1)
    with pytest.raises(oxia.ex.UnexpectedVersionId):
        other.delete(key, expected_version_id=1 << 40)
    other.delete(key)
    assert other.delete(key) is False
    other.put(key, "3")
    assert [change[0] for change in changes.take(3)] == [CREATED, DELETED, CREATED]


def test_a_range_is_told_once_by_every_shard(
    other: Any, subscribe: Subscribe, shared_server: ServerProcess, space: str
) -> None:
    changes = subscribe()
    for number in range(5):
        other.put(f"{space}{number}", "v")
    assert {change[0] for change in changes.take(5)} == {CREATED}
    other.delete_range(f"{space}1", f"{space}4")
    wanted = (RANGE_DELETED, f"{space}1", 0, f"{space}4")
    assert changes.take(shared_server.shards) == [wanted] * shared_server.shards
    other.put(f"{space}1", "v")
    assert changes.next()[0] is CREATED


def test_numbered_keys_are_told_as_they_are_stored(other: Any, subscribe: Subscribe, space: str) -> None:
    changes = subscribe()
    for _ in range(2):
        key, version = other.put(space, "v", partition_key="home", sequence_keys_deltas=[1])
        assert changes.next() == (CREATED, key, version.version_id(), None)


def test_many_changes_are_all_told(other: Any, subscribe: Subscribe, space: str) -> None:
    """More than the client queues."""
    changes = subscribe()
    keys = [f"{space}{number:03d}" for number in range(300)]
    versions = {key: other.put(key, "v")[1].version_id() for key in keys}
    told = changes.take(len(keys))
    assert {key: version for _, key, version, _ in told} == versions
    assert {kind for kind, _, _, _ in told} == {CREATED}
