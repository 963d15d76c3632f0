"""Operations, as they are asked for: what is refused at once, and what is chosen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from controller.layout import Layout, Segment, TopicName, TopicRecord
from controller.operations import Bound, Kind, LeaderRecords, Operation, Phase, Start, data_name
from controller.operations.steps import born
from controller.subscriptions import SubscriptionKind
from controller.topics import paths
from metastore.coordination import Pace

DRAINED_VALUE = b"{}"
"""The record says nothing but that it is there."""


def bound_of_time(segment: Segment, time_ms: int) -> int | Bound:
    """Where what was published since a time begins in a segment: at an end, if that can be told without reading it."""
    if 0 < segment.sealed_ms <= time_ms:
        return Bound.END
    return Bound.BEGINNING if segment.created_ms >= time_ms else time_ms


class Requests:
    """Makes operations on one topic; what cannot be done raises here, and nothing has happened."""

    def __init__(self, topic: TopicName, pace: Pace) -> None:
        self._topic = topic
        self._pace = pace

    def create(self, record: TopicRecord, subscriptions: Mapping[str, SubscriptionKind]) -> Operation:
        """A topic that begins like that."""
        kinds = {name: kind.value for name, kind in subscriptions.items()}
        return Operation(Kind.CREATE, *self._stamp(), subscriptions=kinds, record=record)

    def split(self, layout: Layout, segment_id: int) -> Operation:
        """Of one segment."""
        return self._succession(Kind.SPLIT, layout, [segment_id])

    def merge(self, layout: Layout, segment_ids: Sequence[int]) -> Operation:
        """Of several neighbours."""
        return self._succession(Kind.MERGE, layout, segment_ids)

    def _succession(self, kind: Kind, layout: Layout, segment_ids: Sequence[int]) -> Operation:
        mark, now_ms = self._stamp()
        operation = Operation(kind, mark, now_ms, tuple(segment_ids))
        names = born(self._topic, layout, operation.changed(layout))
        return Operation(kind, mark, now_ms, tuple(segment_ids), names)

    def prune(self, layout: Layout, segment_ids: Collection[int]) -> Operation:
        """Of sealed segments."""
        names = tuple(data_name(self._topic, layout.segment(each)) for each in segment_ids)
        operation = Operation(Kind.PRUNE, *self._stamp(), tuple(segment_ids), names, phase=Phase.DECIDED)
        operation.changed(layout)
        return operation

    def delete(self, layout: Layout) -> Operation:
        """Of the topic."""
        names = tuple(data_name(self._topic, each) for each in layout.segments.values())
        return Operation(Kind.DELETE, *self._stamp(), tuple(layout.segments), names, phase=Phase.DECIDED)

    def subscribe(self, name: str, kind: str, start: Start) -> Operation:
        """A new subscription."""
        paths.checked(name, "subscription")
        return Operation(Kind.SUBSCRIBE, *self._stamp(), subscriptions={name: kind}, start=start)

    def unsubscribe(self, name: str, kind: SubscriptionKind | None) -> Operation:
        """A subscription goes; None for one whose record is damaged."""
        kinds = {name: "" if kind is None else kind.value}
        return Operation(Kind.UNSUBSCRIBE, *self._stamp(), subscriptions=kinds, phase=Phase.DECIDED)

    async def report_drained(self, records: LeaderRecords, name: str, segment_id: int) -> None:
        """Writes down that a subscription has read a segment to its end."""
        key = paths.drained_key(self._topic, segment_id, name)
        await records.ensure(key, DRAINED_VALUE, paths.report_indexes(self._topic))

    def _stamp(self) -> tuple[str, int]:
        return self._pace.new_mark(), self._pace.clock.wall_ms()
