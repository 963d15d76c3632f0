"""Whether layouts are as they should be at every moment, and whether all is well in the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from topics_simulation.topic_history import TopicHistory
from topics_simulation.topic_lies import TopicLie
from topics_simulation.topic_notes import Gone, Part, Shape, Told
from txn_histories.violations import Findings

HASHES = 1 << 16
WRITABLE_MS = 45_000
"""Within this time after the last fault every range is writable: sessions of the dead end, others have their turns,
what was begun is finished, and whoever fails again and again has paused for as long as it may."""


def judge_shapes(history: TopicHistory, findings: Findings) -> None:
    """All topics."""
    for topic, found in history.shapes.items():
        findings.counts["layouts"] += len(found)
        _judge_lives(topic, found, findings)
    for topic, shape in history.last.items():
        for part in shape.parts.values():
            if part.name not in history.segments.read_to_the_end:
                findings.add(TopicLie.MISSING_SEGMENT, topic, f"{part}")
    for probe in history.notes.rest.probes:
        findings.counts["probes"] += 1
        if probe.after_ms is None or probe.after_ms > WRITABLE_MS:
            findings.add(TopicLie.NOT_WRITABLE, probe.topic, f"{probe}")
    for key in history.notes.rest.leftovers:
        findings.add(TopicLie.LEFT_BEHIND, "the store", key)
    for (topic, subscription), members in history.notes.rest.members.items():
        if topic in history.last and members:
            told = [
                each for each in history.notes.rest.told if (each.topic, each.subscription) == (topic, subscription)
            ]
            drained = history.notes.rest.drained.get((topic, subscription), frozenset())
            _judge_cover(f"{subscription!r} of {topic}", history.last[topic], drained, told, members, findings)


def _judge_lives(topic: str, found: Sequence[Shape | Gone], findings: Findings) -> None:
    """One life of a topic after another."""
    before: Shape | None = None
    known: dict[int, Part] = {}
    for shape in found:
        if isinstance(shape, Gone):
            before, known = None, {}
            continue
        _judge_tiles(topic, shape, findings)
        if before is not None and (shape.epoch < before.epoch or _is_other(before, shape)):
            findings.add(TopicLie.WENT_BACK, topic, f"epoch {shape.epoch} after {before.epoch}: {shape}")
        for segment_id, part in shape.parts.items():
            old = known.get(segment_id)
            is_late = old is None and known and segment_id < max(known)
            is_back = before is not None and old is not None and segment_id not in before.parts
            if is_late or is_back or (old is not None and part.is_active and not old.is_active):
                findings.add(TopicLie.WENT_BACK, topic, f"{part}, which was {old}, at epoch {shape.epoch}")
        _count_changes(known, before, shape, findings)
        known.update(shape.parts)
        before = shape


def _count_changes(known: Mapping[int, Part], before: Shape | None, after: Shape, findings: Findings) -> None:
    families = {part.parents for segment_id, part in after.parts.items() if segment_id not in known}
    for parents in families - {()}:
        kinds = {1: "splits", 2: "merges of two"}
        findings.counts[kinds.get(len(parents), "merges of several")] += 1
    if before is not None and before.parts.keys() - after.parts.keys():
        findings.counts["prunings"] += 1


def _is_other(before: Shape, after: Shape) -> bool:
    """Whether two layouts of one epoch differ."""
    return before.epoch == after.epoch and dict(before.parts) != dict(after.parts)


def _judge_tiles(topic: str, shape: Shape, findings: Findings) -> None:
    bounds = [part.start for part in shape.active] + [HASHES]
    behind = [0] + [part.end + 1 for part in shape.active]
    if bounds != behind or any(part.start > part.end for part in shape.active):
        findings.add(TopicLie.NOT_TILED, topic, f"{shape.active} at epoch {shape.epoch}")


def readable(parts: Iterable[Part], drained: frozenset[int]) -> set[int]:
    """What may be read: segments that are not drained, behind parents that are, all the way."""
    ready: dict[int, bool] = {}
    for part in sorted(parts, key=lambda each: each.segment_id):
        ready[part.segment_id] = all(parent in drained and ready[parent] for parent in part.parents)
    return {segment_id for segment_id, is_ready in ready.items() if is_ready and segment_id not in drained}


def _judge_cover(
    name: str,
    shape: Shape,
    drained: frozenset[int],
    told: Sequence[Told],
    members: frozenset[str],
    findings: Findings,
) -> None:
    """Each segment that may be read is one member's, or shared by several; no other one is anybody's."""
    findings.counts["divisions"] += 1
    missing = members - {each.member for each in told}
    if missing:
        findings.add(TopicLie.UNCOVERED, name, f"{sorted(missing)} were told nothing")
    wanted = readable(shape.parts.values(), drained)
    for segment_id in wanted | {each for one in told for each in one.segments}:
        holders = {each.member: each.segments[segment_id] for each in told if segment_id in each.segments}
        is_shared = len(holders) > 1 and not any(holders.values())
        is_whole = list(holders.values()) == [True]
        if segment_id not in wanted or not (is_shared or is_whole):
            findings.add(TopicLie.UNCOVERED, name, f"segment {segment_id} is read by {holders}; to be read: {wanted}")
