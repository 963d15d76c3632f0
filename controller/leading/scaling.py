"""A topic splits and merges by itself: when that is considered, what came of it, and why.

It is considered when something has happened that it depends on: consumers have come or gone, a load was reported, a
policy or the layout has changed, a cooldown is over; and at the broker's ticks, for what was cold long enough by then.
However much happens meanwhile, one consideration follows. There is no timer of its own but for a cooldown that stands
in the way.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from controller.autoscale import Action, AutoScaleConfig, Decision, InvalidAutoScale, Situation, Suppression, decide
from controller.layout import Layout, LayoutError
from controller.topics import TopicError
from metastore.coordination import Backoff, Pace
from txn.coordinator.waiting import first_of

logger = logging.getLogger("tidemark.leading")

DECISIONS_KEPT = 100
"""Of a topic, the newest; equal ones that follow each other count as one."""


@dataclass(slots=True)
class ScaleCounts:
    """What is counted of one topic while it is led, and of all that a broker leads or has led."""

    splits: int = 0
    merges: int = 0
    split_suppressed_max_segments: int = 0
    merge_suppressed_max_depth: int = 0

    def count(self, decision: Decision) -> None:
        """Counts what kept from acting."""
        self.split_suppressed_max_segments += Suppression.MAX_SEGMENTS in decision.suppressed
        self.merge_suppressed_max_depth += Suppression.MAX_DEPTH in decision.suppressed

    def count_done(self, decision: Decision) -> None:
        """Counts what was done."""
        self.splits += decision.action is Action.SPLIT
        self.merges += decision.action is Action.MERGE


@dataclass(frozen=True, slots=True)
class Considered:
    """An entry of the decision log."""

    at_ms: int
    """When it was considered last."""
    triggers: tuple[str, ...]
    """What has happened that it was considered."""
    decision: Decision
    outcome: str = ""
    """What came of it: `done`, or why not."""
    times: int = 1
    """How often in a row it was the same."""


def last_changes(layout: Layout) -> tuple[int | None, int | None]:
    """When a layout was last split and last merged, by what segments say of themselves: pruning changes it not (H7)."""
    grown = [each for each in layout.segments.values() if each.created_epoch > 0]
    splits = [each.created_ms for each in grown if each.segment_id not in each.merges]
    merges = [each.created_ms for each in grown if each.segment_id in each.merges]
    return max(splits, default=None), max(merges, default=None)


class DecisionLog:
    """What was considered, the newest last."""

    def __init__(self) -> None:
        self._entries: deque[Considered] = deque(maxlen=DECISIONS_KEPT)

    @property
    def entries(self) -> Sequence[Considered]:
        """All that are kept."""
        return tuple(self._entries)

    def add(self, entry: Considered) -> None:
        """Adds one, or counts it, if it says the same as the last."""
        last = self._entries[-1] if self._entries else None
        if last is not None and (last.decision, last.outcome) == (entry.decision, entry.outcome):
            self._entries[-1] = replace(entry, times=last.times + 1)
        else:
            self._entries.append(entry)


Act = Callable[[Callable[[Layout], Decision]], Awaitable[Decision]]
"""Judges the newest layout, while nothing else changes it, and does what the decision says."""


class Scaler:
    """Considers one topic, again and again. `run` works until cancelled."""

    def __init__(
        self,
        layout: Callable[[], Layout],
        situation: Callable[[Layout], Situation],
        config: Callable[[], AutoScaleConfig],
        act: Act,
        pace: Pace,
        counts: ScaleCounts,
    ) -> None:
        self._layout = layout
        self._situation = situation
        self._config = config
        self._act = act
        self._pace = pace
        self.counts = ScaleCounts()
        """Of this topic."""
        self._all_counts = (self.counts, counts)
        self._triggers: set[str] = set()
        self._is_wanted = asyncio.Event()
        self.log = DecisionLog()

    def wake(self, trigger: str) -> None:
        """Something has happened."""
        self._triggers.add(trigger)
        self._is_wanted.set()

    def dry_run(self) -> Decision:
        """What would be decided now; nothing is done, counted or logged."""
        return self._judge(self._layout())

    def _judge(self, layout: Layout) -> Decision:
        try:
            return decide(self._situation(layout), self._config())
        except InvalidAutoScale as error:
            return Decision(Action.NONE, reason="invalid-policy", notes=(f"switched off: {error}",))

    async def run(self) -> None:
        """Works until cancelled. What fails is tried again, after a pause."""
        backoff = Backoff(self._pace)
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            triggers, self._triggers = tuple(sorted(self._triggers)), set()
            decision = self._judge(self._layout())
            if decision.action is Action.NONE:
                self._note(triggers, decision)
                await self._wait_cooldown(decision)
                continue
            try:
                decision = await self._act(self._judge)
            except (TopicError, LayoutError) as error:
                logger.warning("%s of %s was not done: %s", decision.action.value, decision.segments, error)
                self._note(triggers, decision, str(error))
                await backoff.pause()
                self.wake("retry")
            else:
                self._note(triggers, decision, "done" if decision.action is not Action.NONE else "")
                for each in self._all_counts:
                    each.count_done(decision)
                self.wake("done")

    def _note(self, triggers: tuple[str, ...], decision: Decision, outcome: str = "") -> None:
        for each in self._all_counts:
            each.count(decision)
        self.log.add(Considered(self._pace.clock.wall_ms(), triggers, decision, outcome))

    async def _wait_cooldown(self, decision: Decision) -> None:
        """Until something happens, or the cooldown is over that keeps from a split which is wanted."""
        if decision.reason != "split-cooldown":
            return
        last_ms, _ = last_changes(self._layout())
        due_ms = (last_ms or 0) + self._config().split_cooldown_ms + 1
        left_s = max(0, due_ms - self._pace.clock.wall_ms()) / 1000
        await first_of(self._is_wanted.wait(), self._pace.sleep(left_s))
        self.wake("cooldown")
