"""What a leader hears of its topic while it leads, all told by watches: what others change, and what they report.

Others change the topic's properties and its policy; the layout is the leader's own. Owners report loads, and what is
read to its end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from controller.layout import TopicRecord
from controller.leading.reports import Reports
from controller.operations import LeaderRecords
from controller.together import together
from metastore.coordination import Pace, View
from metastore.interface import exactly


class Hearer(Protocol):
    """Who is told."""

    def on_record(self, record: TopicRecord) -> None:
        """The topic's record is this one."""

    def on_reports(self, loads: Collection[int], subscriptions: Collection[str]) -> None:
        """Other loads of these segments were reported, and what is drained of these subscriptions."""


class Hearing:
    """Tells one leader, for as long as it runs."""

    def __init__(self, records: LeaderRecords, reports: Reports, pace: Pace) -> None:
        self._topic = records.topic
        self._grant = records.grant
        self._reports = reports
        self._pace = pace

    async def run(self, hearer: Hearer) -> None:
        """Returns never; raises what cannot be watched any more, or what the hearer raises."""
        await together(self._reports.follow(hearer.on_reports), self._follow(hearer))

    async def _follow(self, hearer: Hearer) -> None:
        grant, path = self._grant, self._topic.path
        async with View(grant.store, exactly(path), partition_key=grant.partition_key, pace=self._pace) as view:
            while True:
                await view.news()
                found = view.records.get(path)
                if found is not None and found.value:
                    hearer.on_record(TopicRecord.decode(found.value))
