"""Which consumer of a subscription reads which segments: pure functions of who and what there is.

Both strategies give every servable segment to somebody, no two consumers the same messages, and nobody two segments
more than another. Where there are more consumers than segments, segments with several entry buckets are shared: each
sharer gets the segment with all its buckets, and the segment's owner spreads the buckets over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.layout.buckets import bucket_ranges
from controller.layout.ranges import HashRange
from controller.layout.segments import Segment


@dataclass(frozen=True, slots=True)
class Share:
    """What a consumer has of a segment: all of it, or some of its buckets."""

    segment_id: int
    buckets: tuple[HashRange, ...] = ()
    """All buckets of the segment, if it is shared; nothing if it is the consumer's alone."""

    @property
    def is_whole(self) -> bool:
        """Whether nobody else reads the segment."""
        return not self.buckets


Assignment = Mapping[str, tuple[Share, ...]]
"""What each consumer has, by its name; idle ones have nothing."""


def round_robin(segments: Sequence[Segment], consumers: Iterable[str]) -> Assignment:
    """Segments by turns, whoever had them before."""
    names, ordered = _by_name(consumers), _by_range(segments)
    if not names:
        return {}
    if len(names) > len(ordered):
        return _shared(ordered, names, {})
    found: dict[str, list[Share]] = {name: [] for name in names}
    for place, segment in enumerate(ordered):
        found[names[place % len(names)]].append(Share(segment.segment_id))
    return {name: tuple(shares) for name, shares in found.items()}


def sticky(segments: Sequence[Segment], consumers: Iterable[str], previous: Assignment) -> Assignment:
    """Segments stay where they are, as far as nobody has two more than another; what has to move goes to who has least.

    A segment whose parents were somebody's goes to one of those, if there is room: its keys stay with their consumer.
    """
    names, ordered = _by_name(consumers), _by_range(segments)
    if not names:
        return {}
    if len(names) > len(ordered):
        return _shared(ordered, names, previous)
    held = {name: [each.segment_id for each in previous.get(name, ())] for name in names}
    former = {segment_id: name for name in reversed(names) for segment_id in held[name]}
    wishes = {segment.segment_id: _wish(segment, former) for segment in ordered}
    quotas = _quotas(names, wishes, len(ordered))
    found: dict[str, list[int]] = {name: [] for name in names}
    homeless: list[int] = []
    # Those who keep what they have come first, heirs of parents after them.
    for segment_id in sorted(wishes, key=lambda each: each not in former):
        name = wishes[segment_id]
        if name is not None and len(found[name]) < quotas[name]:
            found[name].append(segment_id)
        else:
            homeless.append(segment_id)
    places = {segment.segment_id: place for place, segment in enumerate(ordered)}
    for segment_id in sorted(homeless, key=places.__getitem__):
        name = min(names, key=lambda each: len(found[each]) - quotas[each])
        found[name].append(segment_id)
    return {name: tuple(Share(each) for each in sorted(ids, key=places.__getitem__)) for name, ids in found.items()}


def _wish(segment: Segment, former: Mapping[int, str]) -> str | None:
    """Who should have a segment: whoever had it, else whoever had a parent of it."""
    known = (each for each in (segment.segment_id, *segment.parents) if each in former)
    return next((former[each] for each in known), None)


def _quotas(names: Sequence[str], wishes: Mapping[int, str | None], segments: int) -> dict[str, int]:
    """How many each may have; those who would have most keep one more where it does not come out even."""
    least, more = divmod(segments, len(names))
    wanted = {name: 0 for name in names}
    for name in wishes.values():
        if name is not None:
            wanted[name] += 1
    greedy = sorted(names, key=lambda name: -min(wanted[name], least + 1))
    return {name: least + (place < more) for place, name in enumerate(greedy)}


def _shared(segments: Sequence[Segment], names: Sequence[str], previous: Assignment) -> Assignment:
    """More consumers than segments: the surplus shares what can be shared, whoever is left is idle."""
    sharers = _sharers(segments, len(names))
    room = {segment.segment_id: sharers[place] for place, segment in enumerate(segments)}
    members: dict[int, list[str]] = {segment.segment_id: [] for segment in segments}
    unplaced: list[str] = []
    for name in names:
        kept = next((e.segment_id for e in previous.get(name, ()) if room.get(e.segment_id, 0) > 0), None)
        if kept is None:
            unplaced.append(name)
        else:
            room[kept] -= 1
            members[kept].append(name)
    for segment in segments:
        while room[segment.segment_id] and unplaced:
            room[segment.segment_id] -= 1
            members[segment.segment_id].append(unplaced.pop(0))
    found: dict[str, tuple[Share, ...]] = {name: () for name in names}
    for segment in segments:
        sharing = members[segment.segment_id]
        buckets = bucket_ranges(segment.bucket_splits) if len(sharing) > 1 else ()
        found.update({name: (Share(segment.segment_id, buckets),) for name in sharing})
    return found


def _sharers(segments: Sequence[Segment], consumers: int) -> list[int]:
    """How many consumers each segment has: one, and by turns one more while it has buckets and there are consumers."""
    sharers = [1] * len(segments)
    surplus = consumers - len(segments)
    while surplus:
        before = surplus
        for place, segment in enumerate(segments):
            if surplus and sharers[place] < segment.bucket_count:
                sharers[place] += 1
                surplus -= 1
        if surplus == before:
            break  # no segment can be shared by more: the rest is idle
    return sharers


def moved(before: Assignment, after: Assignment) -> set[int]:
    """Segments that somebody reads who did not read them before."""
    had = {(name, share.segment_id) for name, shares in before.items() for share in shares}
    has = {(name, share.segment_id) for name, shares in after.items() for share in shares}
    return {segment_id for _, segment_id in has - had}


def _by_name(consumers: Iterable[str]) -> list[str]:
    """In the order of UTF-16, as other software of the kind has it."""
    return sorted(set(consumers), key=lambda name: name.encode("utf-16-be", "surrogatepass"))


def _by_range(segments: Iterable[Segment]) -> list[Segment]:
    return sorted(segments, key=lambda each: (each.range, each.segment_id))
