"""A topic as its leader serves it: the door for everything that changes its layout, its subscriptions, its consumers.

What changes the layout or a subscription stands in line, and goes through an operation's record: see `changing`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Self

from controller.autoscale import Action, Decision, Load, Situation
from controller.layout import Layout, Segment, TopicRecord
from controller.leading.changing import Changing
from controller.leading.claims import Claims
from controller.leading.hearing import Hearing
from controller.leading.line import Line
from controller.leading.pruning import Pruner
from controller.leading.removal import Removal
from controller.leading.reports import Reports
from controller.leading.requests import Requests, bound_of_time
from controller.leading.scaling import Scaler, last_changes
from controller.leading.strays import Strays
from controller.leading.subscribing import ServedSubscriptions
from controller.leading.surroundings import Surroundings
from controller.operations import (
    Bound,
    LeaderRecords,
    Operation,
    Runner,
    Start,
    data_name,
    has_cursors,
    prunable,
)
from controller.operations.retention import with_ancestors
from controller.subscriptions import Attachment, SubscriptionKind, Subscriptions, WrongKind
from controller.subscriptions.coordinator import Outgoing
from controller.together import together
from controller.topics import NotLeader, SubscriptionNotFound, TopicNotFound
from controller.topics.claims import Claim
from metastore.interface import StoreError

logger = logging.getLogger("tidemark.leading")


class TopicLeader:
    """A topic that is led here. When that is over everything raises NotLeader at once."""

    def __init__(
        self,
        records: LeaderRecords,
        runner: Runner,
        record: TopicRecord,
        subscriptions: Subscriptions,
        reports: Reports,
        claim: Claim | None,
        around: Surroundings,
    ) -> None:
        self.topic = records.topic
        self.term = records.grant.term
        self.record = record
        """As this leader has seen it last."""
        self._heard: TopicRecord | None = None
        """As it was told of it last; what others changed while an operation came to its end is in it."""
        self.subscriptions = subscriptions
        self._records = records
        self._runner = runner
        self._reports = reports
        self._around = around
        self._pace = around.pace
        self._requests = Requests(self.topic, self._pace)
        self._served = ServedSubscriptions(subscriptions)
        self._last_split_ms, self._last_merge_ms = last_changes(record.layout)
        self.scaler = Scaler(
            lambda: self.layout,
            self._situation,
            lambda: around.config(self.topic, self.record.auto_scale_policy),
            self._scale,
            self._pace,
            around.counts,
        )
        self.pruner = Pruner(
            lambda: self.layout,
            lambda: around.retention_ms(self.topic),
            self._prunable,
            self._prune,
            self._pace,
        )
        self._line = Line(self._check_serving)
        """Where all stands that changes the layout, a subscription or a claim."""
        self._strays = Strays(records, reports, lambda: self.layout, self._line)
        self._changing = Changing(
            records, runner, self._served, self._line, self._check_serving, took=self._take, doubted=self._end
        )
        self.claims = Claims(
            records, claim, self._active_names, around.work, self._line, self._pace, around.claim_grace_s
        )
        self._failure: Exception | None = None
        self._is_gone = False
        """Whether there is no such topic any more."""
        self._has_ended = asyncio.Event()
        self._run: asyncio.Task[None] | None = None

    # -- what it is like

    @property
    def layout(self) -> Layout:
        """The segments."""
        return self.record.layout

    def _active_names(self) -> list[str]:
        return [data_name(self.topic, each) for each in self.layout.active]

    @property
    def loads(self) -> Mapping[int, Load]:
        """What owners have reported, by segment."""
        return self._reports.loads

    @property
    def drained(self) -> Mapping[str, Collection[int]]:
        """The segments that each subscription has read to their end."""
        return self._reports.drained

    @property
    def is_busy(self) -> bool:
        """Whether an operation is under way."""
        return self._line.is_busy

    # -- changes of the layout

    async def split(self, segment_id: int) -> Layout:
        """Two segments in place of one. OperationUnderWay if the layout is just being changed."""
        return await self._change(lambda record: self._requests.split(record.layout, segment_id))

    async def merge(self, *segment_ids: int) -> Layout:
        """One segment in place of several that lie side by side. OperationUnderWay as in `split`."""
        return await self._change(lambda record: self._requests.merge(record.layout, segment_ids))

    async def delete(self) -> None:
        """The topic with all that belongs to it. Whoever asks for the same meanwhile is answered the same."""
        self._check_serving()

        async def make(record: TopicRecord) -> Operation:
            return self._requests.delete(record.layout)

        try:
            await self._changing.do(make, waits=True)
        except TopicNotFound:
            return  # it was there when it was asked for: another deletion stood in line before this one
        except NotLeader:
            if not await self._is_deleted():
                raise

    async def _is_deleted(self) -> bool:
        """Whether the news that nothing is left of the topic has ended the leader, while the answer was on its way."""
        try:
            return await Removal(self._records.grant.store, self.topic, self._pace).is_over()
        except StoreError as error:
            logger.info("%s: whether it is deleted is not known here: %s", self.topic, error)
            return False

    async def _change(self, request: Callable[[TopicRecord], Operation]) -> Layout:
        async def make(record: TopicRecord) -> Operation:
            return request(record)

        after = await self._changing.do(make, waits=False)
        assert after is not None, "a topic is not deleted by a change of its layout"
        return after.layout

    # -- subscriptions

    async def create_subscription(self, name: str, kind: SubscriptionKind, start: Start = Start.EARLIEST) -> None:
        """Such a subscription is recorded afterwards, and has its cursors; one that was there stays as it is.

        WrongKind if that one is of another kind.
        """

        async def make(record: TopicRecord) -> Operation | None:
            there = self.subscriptions.kinds.get(name)
            if there is not None and there is not kind:
                raise WrongKind(f"subscription {name!r} of {self.topic} is a {there.value}, not a {kind.value}")
            if there is None:
                self.subscriptions.check_room(name)
                return self._requests.subscribe(name, kind.value, start)
            return None

        await self._changing.do(make, waits=True)

    async def delete_subscription(self, name: str) -> None:
        """There is no such subscription afterwards, and no cursor of it."""

        async def make(record: TopicRecord) -> Operation | None:
            known = name in self.subscriptions.names
            return self._requests.unsubscribe(name, self.subscriptions.kinds.get(name)) if known else None

        await self._changing.do(make, waits=True)

    async def seek(self, name: str, time_ms: int) -> None:
        """Everything is delivered again that was published since a time, and nothing before it."""
        await self._set_cursors(name, lambda segment: bound_of_time(segment, time_ms))

    async def skip_all(self, name: str) -> None:
        """All that there is counts as acknowledged."""
        await self._set_cursors(name, lambda segment: Bound.END)

    async def _set_cursors(self, name: str, bound: Callable[[Segment], int | Bound]) -> None:
        async def work() -> None:
            kind = self.subscriptions.kinds.get(name)
            if kind is None:
                raise SubscriptionNotFound(f"{self.topic} has no subscription {name!r}: create it first")
            if not has_cursors(kind.value):
                raise WrongKind(f"subscription {name!r} of {self.topic} is a {kind.value}, which has no cursors")
            for segment in self.layout.segments.values():
                await self._around.work.seek(data_name(self.topic, segment), name, bound(segment))

        await self._line.do(work)

    async def join(self, name: str, consumer: str, kind: SubscriptionKind, outgoing: Outgoing) -> Attachment:
        """A consumer comes, or comes back. See `Subscriptions.join`."""
        self._check_serving()
        return await self.subscriptions.join(name, consumer, kind, outgoing)

    async def note_drained(self, name: str, segment_id: int) -> None:
        """A consumer of checkpoints, which have no cursors, says that its group has read a segment to its end."""

        async def work() -> None:
            if self.subscriptions.kinds.get(name) is not SubscriptionKind.CHECKPOINT:
                raise WrongKind(f"subscription {name!r} of {self.topic}: the owners of segments say what it has read")
            if not self.layout.segment(segment_id).is_active:
                await self._requests.report_drained(self._records, name, segment_id)

        await self._line.do(work)

    # -- by itself

    def _situation(self, layout: Layout) -> Situation:
        split_ms, merge_ms = last_changes(layout)
        return Situation(
            layout,
            self._reports.loads,
            self.subscriptions.consumers(),
            self._pace.clock.wall_ms(),
            _later(split_ms, self._last_split_ms),
            _later(merge_ms, self._last_merge_ms),
        )

    async def _scale(self, judge: Callable[[Layout], Decision]) -> Decision:
        """Does what is decided by the newest layout, while nothing else changes it."""
        decision = Decision(Action.NONE)

        async def make(record: TopicRecord) -> Operation | None:
            nonlocal decision
            decision = judge(record.layout)
            match decision.action:
                case Action.SPLIT:
                    return self._requests.split(record.layout, decision.segments[0])
                case Action.MERGE:
                    return self._requests.merge(record.layout, decision.segments)
            return None

        await self._changing.do(make, waits=True)
        return decision

    def _prunable(self, layout: Layout) -> tuple[int, ...]:
        kinds = self.subscriptions.kinds
        readers = [name for name in self.subscriptions.names if name not in kinds or has_cursors(kinds[name].value)]
        drained = {name: self._reports.drained.get(name, ()) for name in readers}
        return prunable(layout, self._around.retention_ms(self.topic), self._pace.clock.wall_ms(), drained)

    async def _prune(self) -> None:
        async def make(record: TopicRecord) -> Operation | None:
            found = [each for each in self._prunable(record.layout) if await self._is_unneeded(record.layout, each)]
            whole = with_ancestors(record.layout, found)
            return self._requests.prune(record.layout, whole) if whole else None

        await self._changing.do(make, waits=True)

    async def _is_unneeded(self, layout: Layout, segment_id: int) -> bool:
        """Asks the owner once more: a cursor may have been set back since it was reported."""
        name = data_name(self.topic, layout.segment(segment_id))
        for subscription in await self._served.with_cursors():
            if await self._around.work.backlog(name, subscription):
                return False
        return True

    # -- what has become of it

    def _take(self, record: TopicRecord | None) -> None:
        """The topic is as an operation has left it."""
        if record is None:
            self._is_gone = True
            self._end(None)
            return
        heard = self._heard
        self.record = record if heard is None or heard.layout != record.layout else heard  # that is no older, or comes
        split_ms, merge_ms = last_changes(record.layout)
        self._last_split_ms = _later(self._last_split_ms, split_ms)
        self._last_merge_ms = _later(self._last_merge_ms, merge_ms)
        self.subscriptions.on_layout(record.layout)
        self.scaler.wake("layout")
        self.pruner.wake()
        self._strays.look()

    # -- from beginning to end

    def wake(self, trigger: str) -> None:
        """Something has happened on which it depends whether the topic splits or merges, or what is pruned."""
        self.scaler.wake(trigger)
        self.pruner.wake()

    def check(self) -> None:
        """Raises what has ended it, unless that was the end of the topic."""
        if self._failure is not None:
            raise self._failure

    async def wait_ended(self) -> None:
        """Returns when the topic is led here no longer."""
        await self._has_ended.wait()

    def _check_serving(self) -> None:
        if self._is_gone:
            raise TopicNotFound(f"there is no topic {self.topic} any more")
        if self._has_ended.is_set() or not self._records.grant.is_held:
            raise NotLeader(f"{self.topic} is not led here any more: look who leads it")

    def _end(self, failure: Exception | None) -> None:
        if not self._has_ended.is_set():
            self._failure = failure
            self._has_ended.set()
            self.claims.close()

    async def _work(self) -> None:
        self.wake("elected")
        try:
            await together(
                Hearing(self._records, self._reports, self._pace).run(self),
                self.scaler.run(),
                self.pruner.run(),
                self._strays.run(),
                self.claims.run(),
                self.subscriptions.wait_failed(),
            )
        except Exception as error:
            self._end(error)

    # -- what it hears

    def on_record(self, record: TopicRecord) -> None:
        """Others have changed its properties or its policy. The layout is this leader's own."""
        self._heard = record
        if record.layout == self.layout and record != self.record:
            self.record = record
            self.wake("policy")

    def on_reports(self, loads: Collection[int], subscriptions: Collection[str]) -> None:
        """Owners have reported."""
        self._strays.look()
        if loads:
            self.scaler.wake("load")
        for name in subscriptions:
            self.subscriptions.on_drained(name, self._reports.drained.get(name, ()))
        if subscriptions:
            self.pruner.wake()

    # -- its beginning and its end

    async def __aenter__(self) -> Self:
        self._run = asyncio.ensure_future(self._work())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end(None)
        assert self._run is not None
        self._run.cancel()
        await asyncio.wait({self._run})
        await self._line.close()


def _later(one: int | None, other: int | None) -> int | None:
    return max((each for each in (one, other) if each is not None), default=None)
