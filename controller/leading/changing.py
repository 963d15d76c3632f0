"""What changes the layout of a topic or its subscriptions: one after another, each through an operation's record.

Who asks for a split or a merge while the active segments are being changed is refused, because what he has looked at is
about to change; everything else waits. Once begun, an operation goes on whether or not somebody waits for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from controller.layout import TopicRecord
from controller.leading.line import Line
from controller.operations import Kind, LeaderRecords, Operation, Runner, SubscriptionRecords
from controller.topics import NotLeader, OperationUnderWay, TopicNotFound

RESHAPING = frozenset({Kind.SPLIT, Kind.MERGE, Kind.DELETE})
"""What changes the active segments."""

Make = Callable[[TopicRecord], Awaitable[Operation | None]]
"""What is to be done, by the newest record; None if nothing is."""


class Changing:
    """The operations of one topic, for its leader."""

    def __init__(
        self,
        records: LeaderRecords,
        runner: Runner,
        subscriptions: SubscriptionRecords,
        line: Line,
        check: Callable[[], None],
        *,
        took: Callable[[TopicRecord | None], None],
        doubted: Callable[[Exception], None],
    ) -> None:
        """`took` is told how an operation has left the topic; `doubted` why the leader has to resign."""
        self._topic = records.topic
        self._records = records
        self._runner = runner
        self._subscriptions = subscriptions
        self._line = line
        self._check = check
        self._took = took
        self._doubted = doubted
        self._reshapings = 0

    async def do(self, make: Make, *, waits: bool) -> TopicRecord | None:
        """Does what is to be done, when its turn has come; the topic's record then, None if there is none any more.

        OperationUnderWay if it does not wait, and the active segments are being changed.
        """
        if not waits and self._reshapings:
            self._check()
            raise OperationUnderWay(f"the layout of {self._topic} is being changed: try again when that is done")
        with self._reshaping(not waits):
            return await self._line.do(lambda: self._operate(make))

    async def _operate(self, make: Make) -> TopicRecord | None:
        await self._finish_others()
        found = await self._records.topic_record()
        if found is None:
            raise TopicNotFound(f"there is no topic {self._topic} any more")
        operation = await make(found.record)
        if operation is None:
            return found.record
        with self._reshaping(operation.kind in RESHAPING):
            try:
                begun = await self._runner.begin(operation)
                if begun is None:
                    raise OperationUnderWay(f"a leader before has just begun to change {self._topic}: try again")
                record = await self._runner.run(begun, self._subscriptions, self._took)
            finally:
                if self._records.is_in_doubt:  # what comes late is refused under the next grant
                    self._doubted(NotLeader(f"{self._topic}: an operation may be written down once more, too late"))
            self._took(record)
            return record

    @contextmanager
    def _reshaping(self, is_so: bool) -> Iterator[None]:
        """While the active segments are being changed, or are about to be, by what somebody has asked for."""
        self._reshapings += is_so
        try:
            yield
        finally:
            self._reshapings -= is_so

    async def _finish_others(self) -> None:
        """What a deposed leader managed to begin, on a store that could not keep it from that."""
        under_way = await self._records.operation()
        if under_way is not None:
            self._took(await self._runner.run_late(under_way, self._subscriptions, self._took))
