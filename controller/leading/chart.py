"""The live picture that a broker has of topics: which there are, who leads them, and which brokers live."""

from __future__ import annotations

from collections.abc import Iterable

from controller.layout import InvalidName, TopicName
from controller.topics import paths
from metastore.coordination import Pace, View
from metastore.interface import ALL, MetadataStore, Record
from txn.posts import Chart
from txn.segment.bell import Bell


class TopicChart(Chart):
    """The posts are topics, by the paths of their records: those that have a record, and those of an operation.

    So a topic that is to be created is led by somebody before it is there, and one that was deleted for as long as
    there is something left of it.
    """

    def __init__(self, store: MetadataStore, pace: Pace, bell: Bell) -> None:
        super().__init__(store, pace, bell)
        self._keys: dict[str, set[str]] = {}
        """What there is of each topic: the keys of its record, of its operation."""

    def posts(self) -> Iterable[str]:
        """All topics."""
        return self._keys

    def exists(self, post: str) -> bool:
        """Whether there is something of a topic."""
        return post in self._keys

    def is_served(self, post: str) -> bool:
        """The same: whoever leads it sees to its end."""
        return post in self._keys

    def place(self, post: str) -> str | None:
        """Every broker can lead every topic."""
        return None

    def _post_view(self) -> View:
        return View(self._store, ALL, index=paths.TOPICS_BY_PATH, pace=self._pace)

    def _take_post(self, key: str, record: Record | None) -> str | None:
        path = _path(key)
        if path is not None:
            keys = self._keys.setdefault(path, set())
            keys.discard(key) if record is None else keys.add(key)
            if not keys:
                del self._keys[path]
        return path

    def _owner_view(self) -> View:
        return View(self._store, ALL, index=paths.LEADERS_BY_TOPIC, pace=self._pace)

    def _owned(self, key: str) -> str | None:
        return _path(key)


def topic_of(post: str) -> TopicName:
    """The topic that a post is."""
    return paths.topic_of_key(post)


def _path(key: str) -> str | None:
    """The path of the topic that a key belongs to; None if there can be none of that name."""
    try:
        return paths.topic_of_key(key).path
    except InvalidName:
        return None
