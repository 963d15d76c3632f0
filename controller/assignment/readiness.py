"""Which segments may be read now, so that a key's messages come in their order over any number of splits and merges."""

from __future__ import annotations

from collections.abc import Collection

from controller.layout.layout import Layout
from controller.layout.segments import Segment


def servable(layout: Layout, drained: Collection[int]) -> tuple[Segment, ...]:
    """Segments that are not drained and behind none that is not: parents are read before their children, all the way.

    What is drained counts for nothing. A pruned parent was drained before it was pruned.
    """
    found: dict[int, bool] = {}
    for segment_id in sorted(layout.segments):  # parents have smaller ids than their children
        parents = layout.segments[segment_id].parents
        found[segment_id] = all(each in drained and found[each] for each in parents)
    return tuple(
        segment for segment_id, segment in layout.segments.items() if found[segment_id] and segment_id not in drained
    )
