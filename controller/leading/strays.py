"""Reports of segments that a topic does not have any more: its leader takes them away.

Where the store has no `transact` a report can be stored after its segment was pruned, and nobody may be left who looks
again: the answer was lost, or who has written it died. The leader hears of every report, and sees whose it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from controller.layout import Layout
from controller.leading.line import Line
from controller.leading.reports import Reports
from controller.operations import LeaderRecords
from controller.topics import TopicError

logger = logging.getLogger("tidemark.leading")


class Strays:
    """Of one topic, for its leader. `run` works until cancelled."""

    def __init__(self, records: LeaderRecords, reports: Reports, layout: Callable[[], Layout], line: Line) -> None:
        self._records = records
        self._reports = reports
        self._layout = layout
        self._line = line
        self._is_wanted = asyncio.Event()
        self._is_wanted.set()

    def look(self) -> None:
        """Something was reported, or the topic has other segments."""
        self._is_wanted.set()

    async def run(self) -> None:
        """Takes them away. Those of segments that are just being made have their segment when their turn has come."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            if self._found():
                try:
                    await self._line.do(self._remove)
                except TopicError as error:
                    logger.info("reports of segments that are gone are left to whoever leads next: %s", error)

    def _found(self) -> set[int]:
        return self._reports.segments - self._layout().segments.keys()

    async def _remove(self) -> None:
        for segment_id in sorted(self._found()):
            await self._records.delete_reports(segment_id)
