"""The live picture that a broker has of segments: which there are, who owns them, and which brokers live."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from metastore.coordination import Pace, View
from metastore.interface import ALL, MetadataStore, Record
from txn.hosting.descriptor import Descriptor
from txn.model import paths
from txn.posts import Chart
from txn.posts.chart import is_child, read
from txn.segment.bell import Bell


class SegmentChart(Chart):
    """The posts are segments: one for each descriptor, to be had by brokers that serve the place of its log."""

    def __init__(self, store: MetadataStore, pace: Pace, bell: Bell) -> None:
        super().__init__(store, pace, bell)
        self._descriptors: dict[str, Descriptor] = {}
        self._names: dict[str, str] = {}
        """The segments by their descriptors' keys: a record that is gone does not tell its name."""
        self.descriptors: Mapping[str, Descriptor] = MappingProxyType(self._descriptors)

    def posts(self) -> Iterable[str]:
        """All segments."""
        return self._descriptors

    def exists(self, post: str) -> bool:
        """Whether there is such a segment, be it on its way out."""
        return post in self._descriptors

    def is_served(self, post: str) -> bool:
        """Whether there is such a segment that is not on its way out: it is deleted under a term of its own."""
        descriptor = self._descriptors.get(post)
        return descriptor is not None and not descriptor.is_deleting

    def place(self, post: str) -> str | None:
        """Where its log is."""
        return self._descriptors[post].place

    def has_broker_for(self, place: str) -> bool:
        """Whether a live broker serves a place."""
        return any(place in broker.places for broker in self.brokers.values())

    def _post_view(self) -> View:
        return View(self._store, ALL, index=paths.SEGMENTS_BY_NAME, pace=self._pace)

    def _take_post(self, key: str, record: Record | None) -> str | None:
        segment = self._names.pop(key, None)
        if segment is not None:
            del self._descriptors[segment]
        descriptor = None if record is None else read(record, _descriptor)
        if descriptor is not None:
            segment = self._names[key] = descriptor.segment
            self._descriptors[segment] = descriptor
        return segment

    def _owner_view(self) -> View:
        return View(self._store, paths.below(paths.OWNERS, self._store.key_sorting), pace=self._pace)

    def _owned(self, key: str) -> str | None:
        return paths.owned_segment(key) if is_child(key, paths.OWNERS) else None


def _descriptor(record: Record) -> Descriptor:
    return Descriptor.decode(record.value or b"")
