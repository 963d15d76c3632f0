"""Writes a report of a segment beside its topic, where the topic has that segment, and nowhere else.

A report may come late: the segment was pruned meanwhile, or the topic deleted, and maybe created anew with a segment of
the same number. So a report is written on condition that the topic's record is still the one that has the segment;
where the store has no `transact` that is looked at once more afterwards, and what was in vain is taken back.
"""

from __future__ import annotations

from controller.layout import SegmentName
from controller.topics import paths
from controller.topics.records import stored
from controller.watches.lives import is_same_life
from metastore.interface import Condition, MetadataStore, Put, UnexpectedVersion, Version


async def put_report(store: MetadataStore, segment: SegmentName, key: str, value: bytes, expected: int) -> int | None:
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


async def _find(store: MetadataStore, segment: SegmentName) -> Version | None:
    """Of the topic's record, if it has the segment."""
    found = await store.get(segment.topic.path, partition_key=paths.partition(segment.topic))
    if found is None or not found.value:
        return None
    return found.version if segment.segment_id in stored(found).record.layout.segments else None
