"""Writes a report of a segment beside its topic, where the topic has that segment, and nowhere else.

A report may come late: the segment was pruned meanwhile, or the topic deleted, and maybe created anew with a segment of
the same number. So a report is written on condition that the topic's record is still the one that has the segment, by
that name; where the store has no `transact` that is looked at once more afterwards, and what was in vain is taken back.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.layout import Domain, InvalidName, SegmentName, TopicName
from controller.operations import data_name
from controller.topics import paths
from controller.topics.records import stored
from controller.watches.lives import is_same_life
from metastore.interface import Condition, MetadataStore, Put, UnexpectedVersion, Version


@dataclass(frozen=True, slots=True)
class Reported:
    """A topic's segment, of whatever name."""

    topic: TopicName
    segment_id: int
    name: str


def reported(segment: str) -> Reported | None:
    """Whose segment one of that name is; None if it is no topic's.

    Data of the old kind have the name of their topic, or of the partition that they are. In the layout of a topic that
    was made of it they have that partition's number (H15).
    """
    try:
        if segment.startswith(f"{Domain.PERSISTENT.value}://"):
            old = TopicName.parse(segment)
            return Reported(old.scalable, old.partition or 0, segment)
        name = SegmentName.parse(segment)
    except InvalidName:
        return None
    return Reported(name.topic, name.segment_id, segment)


async def put_report(store: MetadataStore, segment: Reported, key: str, value: bytes, expected: int) -> int | None:
    """The version of the report; None if the topic has no such segment.

    ConditionFailed or UnexpectedVersion if the report is another one than was expected, or the topic changes just now.
    """
    before = await _find(store, segment)
    if before is None:
        return None
    partition, indexes = paths.partition(segment.topic), paths.report_indexes(segment.topic)
    put = Put(key, value, expected, indexes)
    if store.capabilities.transact:
        same = Condition(segment.topic.path, before.version_id)
        (result,) = await store.transact(partition, [put], conditions=[same])
        assert result is not None, "a put has a result"
        return result.version.version_id
    written = await store.put(key, value, expected=expected, partition_key=partition, indexes=indexes)
    version_id = written.version.version_id
    after = await _find(store, segment)
    if after is not None and is_same_life(before, after):
        return version_id
    try:
        await store.delete(key, expected=version_id, partition_key=partition)
    except UnexpectedVersion:
        return None  # it was removed already, or somebody knows better
    return None


async def _find(store: MetadataStore, segment: Reported) -> Version | None:
    """Of the topic's record, if it has the segment."""
    found = await store.get(segment.topic.path, partition_key=paths.partition(segment.topic))
    if found is None or not found.value:
        return None
    there = stored(found).record.layout.segments.get(segment.segment_id)
    return found.version if there is not None and data_name(segment.topic, there) == segment.name else None
