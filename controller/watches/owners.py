"""Which broker serves a segment, for all who watch topics: one watch of the store for the whole broker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from controller.layout import InvalidName, SegmentName, TopicName
from metastore.coordination import ForeignRecord, Pace, View
from metastore.interface import MetadataStore
from txn.hosting import Owner
from txn.model import paths
from txn.model.errors import RecordDamaged

logger = logging.getLogger("tidemark.watches")

Heard = Callable[[], None]
"""Is called when an owner of one of a topic's segments may have changed."""


class SegmentOwners(Protocol):
    """What a broker knows of the owners of segments."""

    def find(self, segment: str) -> Owner | None:
        """Who owns a segment, by its name."""

    def listen(self, topic: TopicName, heard: Heard) -> None:
        """From now on somebody wants to hear of changes of a topic's segments."""

    def stop_listening(self, topic: TopicName, heard: Heard) -> None:
        """He does not any more."""


class StoredOwners:
    """The owners as they stand in the store. `follow` keeps them up to date."""

    def __init__(self, store: MetadataStore, pace: Pace) -> None:
        self._store = store
        self._pace = pace
        self._owners: dict[str, Owner] = {}
        self._listeners: dict[TopicName, set[Heard]] = {}

    def find(self, segment: str) -> Owner | None:
        """Who owns a segment, by its name."""
        return self._owners.get(segment)

    def listen(self, topic: TopicName, heard: Heard) -> None:
        """From now on somebody wants to hear of changes of a topic's segments."""
        self._listeners.setdefault(topic, set()).add(heard)

    def stop_listening(self, topic: TopicName, heard: Heard) -> None:
        """He does not any more."""
        listeners = self._listeners[topic]
        listeners.discard(heard)
        if not listeners:
            del self._listeners[topic]

    async def follow(self) -> None:
        """Follows the store until cancelled."""
        view = View(self._store, paths.below(paths.OWNERS, self._store.key_sorting), pace=self._pace)
        async with view:
            while True:
                concerned = set[TopicName]()
                for key in await view.news():
                    if key.count("/") == paths.OWNERS.count("/") + 1:
                        concerned |= self._take(key, view)
                for topic in concerned & self._listeners.keys():
                    for heard in list(self._listeners[topic]):
                        heard()

    def _take(self, key: str, view: View) -> set[TopicName]:
        """Takes an owner's record; the topic that it concerns, if it is a scalable one's segment."""
        segment, record = paths.owned_segment(key), view.records.get(key)
        self._owners.pop(segment, None)
        if record is not None:
            try:
                self._owners[segment] = Owner.of_grant(record)
            except (RecordDamaged, ForeignRecord) as error:
                logger.error("%s is left out: %s", key, error)
        try:
            return {SegmentName.parse(segment).topic}
        except InvalidName:
            return set()
