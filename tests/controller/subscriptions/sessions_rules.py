"""What must hold of every division, whatever happened before it."""

from __future__ import annotations

from collections import Counter

from controller.assignment import Assignment, moved, servable
from controller.layout import Layout, bucket_ranges
from controller.subscriptions import Group


def ancestors(layout: Layout, segment_id: int) -> set[int]:
    """All before it that are still in the layout."""
    return {each.segment_id for each in layout.lineage(segment_id) if each.segment_id < segment_id}


def check_division(group: Group) -> None:
    """All that may be read is read, by one wholly or by several in parts; nothing else is, and nobody has much more."""
    wanted = {each.segment_id: each for each in servable(group.layout, group.drained)}
    readers = Counter(share.segment_id for shares in group.assignment.values() for share in shares)
    assert set(readers) == (set(wanted) if group.assignment else set())
    assert set(readers).isdisjoint(group.drained)
    for shares in group.assignment.values():
        for share in shares:
            segment = wanted[share.segment_id]
            assert ancestors(group.layout, share.segment_id) <= group.drained
            if share.is_whole:
                assert readers[share.segment_id] == 1
            else:
                assert 1 < readers[share.segment_id] <= segment.bucket_count
                assert share.buckets == bucket_ranges(segment.bucket_splits)
    sizes = [len(shares) for shares in group.assignment.values()]
    assert not sizes or max(sizes) - min(sizes) <= 1
    for segment in group.layout.active if group.assignment else ():
        line = {segment.segment_id} | ancestors(group.layout, segment.segment_id)
        assert line <= group.drained or line & set(readers), "whatever is not read yet comes behind what is read now"


def check_succession(before: Group, after: Group) -> None:
    """A generation is one more exactly if something is different; who joins or leaves moves as little as can be."""
    is_same = before.assignment == after.assignment
    assert after.generation == before.generation + (not is_same)
    had, has = set(before.assignment), set(after.assignment)
    same_segments = _all(before.assignment) == _all(after.assignment)
    if same_segments and had == has:
        assert is_same
    if same_segments and had and has - had and had <= has and len(has) <= len(_all(after.assignment)):
        limit = sum(len(after.assignment[name]) for name in has - had)
        assert len(moved(before.assignment, after.assignment)) <= limit, "only the new ones get anything"


def _all(assignment: Assignment) -> set[int]:
    return {share.segment_id for shares in assignment.values() for share in shares}
