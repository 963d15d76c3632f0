"""The descriptors of all segments: created, advanced and removed, each by one compare-and-set."""

from __future__ import annotations

from typing import NamedTuple

from metastore.coordination import Backoff, Pace
from metastore.interface import ABSENT, MetadataStore, OutcomeUnknown, UnexpectedVersion
from txn.hosting.descriptor import Descriptor, SegmentState
from txn.hosting.errors import NoSuchSegment, SegmentExists, told
from txn.model import paths
from txn.model.errors import SegmentUnavailable

ATTEMPTS_MAX = 8
"""How often a change is put anew because another came between or its answer was lost. A descriptor changes twice."""


class Found(NamedTuple):
    """A descriptor as it is in the store."""

    descriptor: Descriptor
    version_id: int


class Descriptors:
    """The descriptor records in a store."""

    def __init__(self, store: MetadataStore, pace: Pace) -> None:
        self._store = store
        self._pace = pace

    async def find(self, segment: str) -> Descriptor | None:
        """The descriptor as it is now."""
        with told(segment, "looking for"):
            found = await self._find(segment)
            return None if found is None else found.descriptor

    async def create(self, segment: str, place: str) -> Descriptor:
        """Creates a segment whose log is in that place. SegmentExists if there is one, on its way out or not."""
        now_ms = self._pace.clock.wall_ms()
        descriptor = Descriptor(segment, SegmentState.OPEN, place, self._pace.new_mark(), now_ms)
        with told(segment, "creating"):
            try:
                await self._put(descriptor, ABSENT)
                return descriptor
            except (UnexpectedVersion, OutcomeUnknown) as error:
                found = await self._find(segment)
                if found is not None and found.descriptor.mark == descriptor.mark:
                    return found.descriptor  # one's own put, whose answer was lost
                if found is None:
                    raise SegmentUnavailable(
                        f"whether {segment!r} was created is not known: ask again, until it is there"
                    ) from error
                if found.descriptor.is_deleting:
                    raise SegmentUnavailable(f"{segment!r} is still being deleted: create it afterwards") from error
                raise SegmentExists(f"there is a segment {segment!r} already") from error

    async def advance(self, segment: str, state: SegmentState) -> Descriptor:
        """Brings a segment so far, if it is not further already; NoSuchSegment if there is none."""
        backoff = Backoff(self._pace)
        with told(segment, "changing the state of"):
            for _ in range(ATTEMPTS_MAX):
                found = await self._find(segment)
                if found is None:
                    raise NoSuchSegment(f"there is no segment {segment!r}: it was deleted, or never created")
                after = found.descriptor.advanced(state)
                if after == found.descriptor:
                    return after
                try:
                    await self._put(after, found.version_id)
                except (UnexpectedVersion, OutcomeUnknown):
                    await backoff.pause()
                else:
                    return after
        raise SegmentUnavailable(
            f"the descriptor of {segment!r} was not changed in {ATTEMPTS_MAX} attempts (ATTEMPTS_MAX): try again"
        )

    async def remove(self, descriptor: Descriptor) -> None:
        """Removes what is left of a segment that was deleted; never one that was created since."""
        assert descriptor.is_deleting, "a segment is said to be on its way out before it goes"
        with told(descriptor.segment, "removing the descriptor of"):
            found = await self._find(descriptor.segment)
            if found is None or found.descriptor.mark != descriptor.mark:
                return
            key = paths.descriptor_key(descriptor.segment)
            try:
                await self._store.delete(key, expected=found.version_id, partition_key=descriptor.segment)
            except UnexpectedVersion:
                return  # gone: a descriptor on its way out does not change

    async def _find(self, segment: str) -> Found | None:
        record = await self._store.get(paths.descriptor_key(segment), partition_key=segment)
        if record is None:
            return None
        return Found(Descriptor.decode(record.value or b""), record.version.version_id)

    async def _put(self, descriptor: Descriptor, expected: int) -> None:
        await self._store.put(
            paths.descriptor_key(descriptor.segment),
            descriptor.encode(),
            expected=expected,
            partition_key=descriptor.segment,
            indexes=descriptor.indexes(),
        )
