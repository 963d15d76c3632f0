"""How a topic ceases to be: its leader removes it piece by piece, and whoever has asked for that is told of its end.

The last that goes is the operation's record. The watches may tell of that sooner than the store answers him who removed
it, and then nobody leads the topic any more: what has become of it says the store.
"""

from __future__ import annotations

from controller.layout import TopicName
from controller.operations import Kind, Operation
from controller.topics import paths
from metastore.coordination import Pace
from metastore.coordination.view import wait_gone
from metastore.interface import MetadataStore


class Removal:
    """The deletion of one topic, as anybody sees it."""

    def __init__(self, store: MetadataStore, topic: TopicName, pace: Pace) -> None:
        self._store = store
        self._topic = topic
        self._pace = pace
        self._partition = paths.partition(topic)
        self._operation_key = paths.operation_key(topic)

    async def is_under_way(self) -> bool:
        """Whether the topic is being deleted: that is brought to its end, whoever leads."""
        found = await self._store.get(self._operation_key, partition_key=self._partition)
        return found is not None and Operation.decode(found.value or b"").kind is Kind.DELETE

    async def is_over(self) -> bool:
        """Whether nothing is left of a topic that there was."""
        # In this order: the operation goes last. One that is no deletion makes the topic anew.
        found = await self._store.get(self._topic.path, partition_key=self._partition)
        return (found is None or not found.value) and not await self.is_under_way()

    async def wait_over(self) -> None:
        """Returns when the deletion that is under way is over."""
        await wait_gone(self._store, self._operation_key, partition_key=self._partition, pace=self._pace)
