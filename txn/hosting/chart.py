"""The live picture that a broker has: which segments there are, who owns them, and which brokers live.

Three watches of the store for the whole broker, however many segments there are. What a record says that cannot be
read is left out and logged: one damaged record does not keep the others from being seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from metastore.coordination import ForeignRecord, Pace, View
from metastore.interface import ALL, MetadataStore, Record
from txn.hosting.brokers import GROUP, Broker, Owner, line_up
from txn.hosting.descriptor import Descriptor
from txn.model import paths
from txn.model.errors import RecordDamaged
from txn.segment.bell import Bell

logger = logging.getLogger("tidemark.hosting")

T = TypeVar("T")


class News(NamedTuple):
    """What has changed in the chart."""

    segments: frozenset[str]
    """These were created, deleted, taken or let go, or have advanced."""
    has_other_brokers: bool
    """Brokers have come or gone: for any segment another one may stand first."""


class Chart:
    """What the watches have told so far. `follow` keeps it up to date."""

    def __init__(self, store: MetadataStore, pace: Pace, bell: Bell) -> None:
        self._store = store
        self._pace = pace
        self._bell = bell
        """Rung at every change."""
        self._descriptors: dict[str, Descriptor] = {}
        self._names: dict[str, str] = {}
        """The segments by their descriptors' keys: a record that is gone does not tell its name."""
        self._owners: dict[str, Owner] = {}
        self._brokers: dict[str, Broker] = {}
        self.descriptors: Mapping[str, Descriptor] = MappingProxyType(self._descriptors)
        self.owners: Mapping[str, Owner] = MappingProxyType(self._owners)
        self.brokers: Mapping[str, Broker] = MappingProxyType(self._brokers)
        self._segments_changed: set[str] = set()
        self._have_brokers_changed = False
        self._views_to_come = 3
        self._news = asyncio.Event()
        self._is_ready = asyncio.Event()

    async def follow(self) -> None:
        """Follows the store until cancelled."""
        store, sorting = self._store, self._store.key_sorting
        descriptors = View(store, ALL, index=paths.SEGMENTS_BY_NAME, pace=self._pace)
        owners = View(store, paths.below(paths.OWNERS, sorting), pace=self._pace)
        brokers = View(store, paths.below(GROUP, sorting), partition_key=GROUP, pace=self._pace)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(descriptors, self._take_descriptor))
            tasks.create_task(self._follow(owners, self._take_owner))
            tasks.create_task(self._follow(brokers, self._take_broker))

    async def ready(self) -> None:
        """Returns when the chart shows what there was at some time since it was made."""
        await self._is_ready.wait()

    async def news(self) -> News:
        """What has changed since the last call, waited for. For the one task that acts on it."""
        await self._is_ready.wait()
        await self._news.wait()
        self._news.clear()
        news = News(frozenset(self._segments_changed), self._have_brokers_changed)
        self._segments_changed, self._have_brokers_changed = set(), False
        return news

    def standing(self, segment: str, broker: str) -> int | None:
        """How many live brokers stand before that one for a segment that nobody owns; None if it is not to be had."""
        descriptor = self._descriptors.get(segment)
        if descriptor is None or segment in self._owners:
            return None
        line = line_up(segment, self._brokers.values(), descriptor.place)
        return line.index(broker) if broker in line else None

    def is_served(self, place: str) -> bool:
        """Whether a live broker serves a place."""
        return any(place in broker.places for broker in self._brokers.values())

    # -- following

    async def _follow(self, view: View, take: Callable[[str, Record | None], str | None]) -> None:
        has_told = False
        async with view:
            while True:
                for key in await view.news():
                    segment = take(key, view.records.get(key))
                    if segment is not None:
                        self._segments_changed.add(segment)
                if not has_told:
                    has_told = True
                    self._views_to_come -= 1
                    if not self._views_to_come:
                        self._is_ready.set()
                self._news.set()
                self._bell.ring()

    def _take_descriptor(self, key: str, record: Record | None) -> str | None:
        segment = self._names.pop(key, None)
        if segment is not None:
            del self._descriptors[segment]
        descriptor = None if record is None else _read(record, _descriptor)
        if descriptor is not None:
            segment = self._names[key] = descriptor.segment
            self._descriptors[segment] = descriptor
        return segment

    def _take_owner(self, key: str, record: Record | None) -> str | None:
        if not _is_child(key, paths.OWNERS):
            return None
        segment = paths.owned_segment(key)
        owner = None if record is None else _read(record, Owner.of_grant)
        if owner is None:
            self._owners.pop(segment, None)
        else:
            self._owners[segment] = owner
        return segment

    def _take_broker(self, key: str, record: Record | None) -> None:
        if _is_child(key, GROUP):
            name = key.removeprefix(f"{GROUP}/")
            broker = None if record is None else _read(record, Broker.of_record)
            if broker is None:
                self._brokers.pop(name, None)
            else:
                self._brokers[name] = broker
            self._have_brokers_changed = True


def _read(record: Record, decode: Callable[[Record], T]) -> T | None:
    """What a record says; None if that cannot be read."""
    try:
        return decode(record)
    except (RecordDamaged, ForeignRecord) as error:
        logger.error("%s is left out: %s", record.key, error)
        return None


def _descriptor(record: Record) -> Descriptor:
    return Descriptor.decode(record.value or b"")


def _is_child(key: str, path: str) -> bool:
    """In the natural order a range has the children's children as well."""
    return key.count("/") == path.count("/") + 1
