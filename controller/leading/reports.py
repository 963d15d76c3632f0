"""What owners report of a topic's segments, as its leader hears it: loads, and who has read what to its end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Self

from controller.autoscale import Load
from controller.layout import LayoutError, TopicName
from controller.topics import paths
from metastore.coordination import Pace, View
from metastore.interface import MetadataStore, Record, exactly

logger = logging.getLogger("tidemark.leading")


class Reports:
    """One watch for a topic. To be used in `async with`, which begins once everything is known that there is."""

    def __init__(self, store: MetadataStore, topic: TopicName, pace: Pace) -> None:
        self._view = View(
            store,
            exactly(topic.path),
            index=paths.REPORTS_BY_TOPIC,
            partition_key=paths.partition(topic),
            pace=pace,
        )
        self._loads: dict[int, Load] = {}
        self._drained: dict[str, set[int]] = {}

    @property
    def loads(self) -> Mapping[int, Load]:
        """By segment."""
        return self._loads

    @property
    def drained(self) -> Mapping[str, Collection[int]]:
        """The segments that each subscription has read to their end."""
        return self._drained

    @property
    def segments(self) -> set[int]:
        """All of which anything is reported."""
        return {paths.segment_id_of_key(key) for key in self._view.records}

    async def __aenter__(self) -> Self:
        await self._view.__aenter__()
        try:
            self._take(await self._view.news())
        except BaseException:
            await self._view.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._view.close()

    async def follow(self, heard: Callable[[Collection[int], Collection[str]], None]) -> None:
        """Calls with the segments whose loads have changed, and the subscriptions that have others drained."""
        while True:
            heard(*self._take(await self._view.news()))

    def _take(self, keys: Collection[str]) -> tuple[set[int], set[str]]:
        loads, subscriptions = set[int](), set[str]()
        for key in keys:
            record, segment_id = self._view.records.get(key), paths.segment_id_of_key(key)
            subscription = paths.drained_of_key(key)
            if subscription is None:
                loads.add(segment_id)
                self._take_load(segment_id, record)
            else:
                subscriptions.add(subscription)
                drained = self._drained.setdefault(subscription, set())
                drained.discard(segment_id) if record is None else drained.add(segment_id)
        return loads, subscriptions

    def _take_load(self, segment_id: int, record: Record | None) -> None:
        self._loads.pop(segment_id, None)
        if record is not None:
            try:
                self._loads[segment_id] = Load.decode(record.value or b"", record.version.modified_ms)
            except LayoutError as error:
                logger.error("%s is left out: %s", record.key, error)
