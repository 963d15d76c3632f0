"""Whether a topic is to be split or merged now: a pure function, which also says why, and why not.

One step at a time: a topic that needs several is judged again after each. Splits come first: for consumers that have
no segment of their own, then for what is hot. Merges come last, and only of what has been cold for long, and never so
far that consumers would have to share what they need not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from controller.autoscale.config import AutoScaleConfig, Metric, Rates
from controller.autoscale.load import Load, heat
from controller.layout.layout import Layout
from controller.layout.segments import Segment


class Action(Enum):
    """What is to be done."""

    NONE = "none"
    SPLIT = "split"
    MERGE = "merge"


class Suppression(Enum):
    """What kept from doing what should have been done."""

    MAX_SEGMENTS = "max-segments"
    MAX_DEPTH = "max-depth"


CONSUMERS = "consumer-count"
COLD = "cold"


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be done with which segments, and why."""

    action: Action
    segments: tuple[int, ...] = ()
    reason: str = ""
    """Of a split `consumer-count` or the metric that is too high, of a merge `cold`; of nothing the chief obstacle."""
    notes: tuple[str, ...] = ()
    """What was looked at, in plain words."""
    suppressed: frozenset[Suppression] = frozenset()


@dataclass(frozen=True)
class Situation:
    """What a topic is like at one moment."""

    layout: Layout
    loads: Mapping[int, Load]
    """By segment; one without a record has not been measured."""
    consumers: Mapping[str, int]
    """Consumers of each subscription that gets segments assigned, those in their grace period as well."""
    now_ms: int
    last_split_ms: int | None = None
    last_merge_ms: int | None = None

    @property
    def needed(self) -> int:
        """Segments that the subscription with most consumers needs for each to have one."""
        return max(self.consumers.values(), default=0)


def decide(situation: Situation, config: AutoScaleConfig) -> Decision:
    """The next step, if any."""
    if not config.enabled:
        return Decision(Action.NONE, reason="disabled", notes=("splitting and merging by itself is switched off",))
    split = _split(situation, config)
    if split.action is not Action.NONE:
        return split
    merge = _merge(situation, config)
    return Decision(
        merge.action,
        merge.segments,
        merge.reason if merge.action is Action.MERGE else split.reason or merge.reason,
        split.notes + merge.notes,
        split.suppressed | merge.suppressed,
    )


# -- splits


def _split(situation: Situation, config: AutoScaleConfig) -> Decision:
    active = situation.layout.active
    wanted = _wanted_split(situation, config)
    if wanted is None:
        return Decision(Action.NONE, notes=(f"no segment is hot, and {len(active)} are enough for the consumers",))
    segment, reason, note = wanted
    if segment is None:
        return Decision(Action.NONE, reason="unsplittable", notes=(note,))
    if len(active) >= config.max_segments:
        note += f"; but there are {len(active)} active segments, maxSegments is {config.max_segments}"
        return Decision(Action.NONE, (), "max-segments", (note,), frozenset({Suppression.MAX_SEGMENTS}))
    left_ms = _left_ms(situation.now_ms, situation.last_split_ms, config.split_cooldown_ms)
    if left_ms > 0:
        return Decision(Action.NONE, reason="split-cooldown", notes=(f"{note}; the cooldown lasts {left_ms} ms more",))
    return Decision(Action.SPLIT, (segment.segment_id,), reason, (note,))


def _wanted_split(situation: Situation, config: AutoScaleConfig) -> tuple[Segment | None, str, str] | None:
    """The segment to split if nothing were against it, and why; no segment where none can be split."""
    active = situation.layout.active
    splittable = [segment for segment in active if segment.range.size > 1]
    if situation.needed > len(active):
        why = f"{situation.needed} consumers of one subscription have {len(active)} segments"
        if not splittable:
            return None, CONSUMERS, f"{why}, and none can be split: each has a single hash"
        chosen = min(splittable, key=lambda each: (-_rate_in(situation, each), each.segment_id))
        return chosen, CONSUMERS, f"{why}: split {chosen.segment_id}, which takes most messages"
    measured = ((situation.loads.get(segment.segment_id), segment) for segment in active)
    heats = [(*heat(load.rates, config.split), segment) for load, segment in measured if load is not None]
    hot = [each for each in heats if each[0] > 1.0]
    if not hot:
        return None
    can = [each for each in hot if each[2].range.size > 1]
    if not can:
        ids = ", ".join(str(each[2].segment_id) for each in hot)
        return None, "", f"hot, but of a single hash, so that no split helps: {ids}"
    score, metric, segment = min(can, key=lambda each: (-each[0], each[2].segment_id))
    note = f"segment {segment.segment_id} has {score:.2f} times the {metric.value} that it may have"
    return segment, metric.value, note


def _rate_in(situation: Situation, segment: Segment) -> float:
    load = situation.loads.get(segment.segment_id)
    return 0.0 if load is None else load.rates[Metric.MSG_RATE_IN]


# -- merges


def _merge(situation: Situation, config: AutoScaleConfig) -> Decision:
    active = situation.layout.active
    if len(active) <= config.min_segments:
        return Decision(Action.NONE, reason="min-segments", notes=(f"{len(active)} segments, minSegments is reached",))
    cold = {segment.segment_id for segment in active if _is_cold(situation, config, segment)}
    pairs = [pair for pair in situation.layout.adjacent_pairs() if {each.segment_id for each in pair} <= cold]
    if not pairs:
        return Decision(Action.NONE, notes=(f"no two neighbours are cold; cold are {sorted(cold) or 'none'}",))
    shallow = [pair for pair in pairs if max(each.merge_depth for each in pair) < config.max_dag_depth]
    if not shallow:
        note = f"{len(pairs)} cold pairs, but merged {config.max_dag_depth} times already (maxDagDepth)"
        return Decision(Action.NONE, (), "max-depth", (note,), frozenset({Suppression.MAX_DEPTH}))
    if len(active) <= situation.needed:
        note = f"{len(shallow)} cold pairs, but {situation.needed} consumers need {len(active)} segments"
        return Decision(Action.NONE, reason="consumers", notes=(note,))
    left_ms = _left_ms(situation.now_ms, situation.last_merge_ms, config.merge_cooldown_ms)
    if left_ms > 0:
        note = f"{len(shallow)} cold pairs; the cooldown lasts {left_ms} ms more"
        return Decision(Action.NONE, reason="merge-cooldown", notes=(note,))
    warmth = {each: _warmth(situation.loads[each].rates, config) for each in cold}
    left, right = min(shallow, key=lambda pair: (sum(warmth[each.segment_id] for each in pair), pair[0].range.start))
    note = f"{left.segment_id} and {right.segment_id} are the coldest of {len(shallow)} cold pairs"
    return Decision(Action.MERGE, tuple(sorted((left.segment_id, right.segment_id))), COLD, (note,))


def _is_cold(situation: Situation, config: AutoScaleConfig, segment: Segment) -> bool:
    load = situation.loads.get(segment.segment_id)
    if load is None or situation.now_ms - load.modified_ms < config.merge_window_ms:
        return False
    return all(load.rates[metric] < config.merge[metric] for metric in Metric)


def _warmth(rates: Rates, config: AutoScaleConfig) -> float:
    """How much of what a cold segment may have it has: rates of different kinds, made comparable."""
    return sum(rates[metric] / config.merge[metric] for metric in Metric)


def _left_ms(now_ms: int, last_ms: int | None, cooldown_ms: int) -> int:
    """How long the cooldown still lasts. One that begins in the future, by a clock that was wrong, lasts as well."""
    return 0 if last_ms is None else max(0, last_ms + cooldown_ms - now_ms)
