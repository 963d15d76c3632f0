"""What must hold of a topic at every instant, as anybody sees it who looks at the store and at the segments at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from controller.layout import TopicName, TopicRecord
from controller.operations import data_name
from controller.subscriptions import SubscriptionRecord
from controller.topics import paths
from metastore.providers.memory import MemoryData
from support.segments_at_work import Cluster
from txn.model.paths import below


class Promises:
    """Looks at every step of whoever does something."""

    def __init__(self, data: MemoryData, cluster: Cluster, topics: Iterable[TopicName]) -> None:
        self._data = data
        self._cluster = cluster
        self._topics = tuple(topics)
        self._epochs: dict[TopicName, tuple[int, int]] = {}
        self.looks = 0
        cluster.watchers.append(self.check)
        commit = data._commit

        def commit_and_look(*arguments: Any) -> None:
            commit(*arguments)
            self.check()

        vars(data)["_commit"] = commit_and_look

    def check(self) -> None:
        """AssertionError for what must not be."""
        self.looks += 1
        for topic in self._topics:
            self._check_topic(topic)

    def _check_topic(self, topic: TopicName) -> None:
        shard = self._data.shard_of(paths.partition(topic))
        found = shard.find(topic.path)
        if found is None or not found.value:
            return
        layout = TopicRecord.decode(found.value).layout  # the active segments tile the ring, or this raises
        version = (found.version.created_ms, layout.epoch)
        assert version >= self._epochs.get(topic, version), f"{topic} goes back to epoch {layout.epoch}"
        self._epochs[topic] = version
        subscriptions = {
            paths.subscription_of_key(each.key)
            for each in shard.within(below(paths.subscriptions_path(topic), "hierarchical"))
            if SubscriptionRecord.decode(each.value).kind.value != "CHECKPOINT"
        }
        for segment in layout.segments.values():
            name = data_name(topic, segment)
            there = self._cluster.segments.get(name)
            assert there is not None, f"{name} is to be seen and is not there"
            missing = subscriptions - there.cursors.keys()
            assert not missing, f"{name} is to be seen without the cursors of {missing}"
            if segment.is_active:
                for parent in segment.parents:
                    before = self._cluster.segments.get(data_name(topic, layout.segments[parent]))
                    assert before is None or before.is_sealed, f"{name} is open, and so is its parent {parent}"
            else:
                assert there.is_sealed, f"{name} takes messages that nobody will look for"
