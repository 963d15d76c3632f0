"""A topic's segments as a picture of characters: the hashes from left to right, time from above to below. Pure.

A row is an epoch in which segments came. A new segment stands there under its number, and the lane below it is empty as
long as it lasts; so whoever is right above a segment is its parent.

             0000                            8000                            ffff
    epoch 0  |------------------------------- 0 -------------------------------|
    epoch 1  |-------------- 1 --------------|============== 2 ================|
    epoch 2  |====== 3 ======|====== 4 ======|                                 |
"""

from __future__ import annotations

from collections.abc import Iterable

from controller.layout import Layout, Segment
from controller.layout.ranges import HASHES

WIDTH = 64
WIDTH_MIN, WIDTH_MAX = 16, 1_000
ROWS_MAX = 50
"""Epochs that are drawn: the newest."""
LEGEND = "= active   - sealed"

BORDER, ACTIVE, SEALED, NARROW = "|", "=", "-", "#"


def draw(layout: Layout, width: int = WIDTH) -> list[str]:
    """The lines of the picture, without line breaks."""
    assert WIDTH_MIN <= width <= WIDTH_MAX
    epochs = sorted({each.created_epoch for each in layout.segments.values()})
    shown = epochs[-ROWS_MAX:]
    labels = [f"epoch {epoch}" for epoch in shown]
    indent = max(map(len, labels))
    lines = [f"{'':{indent}}  {_ruler(width)}"]
    if len(epochs) > len(shown):
        lines.append(f"{'':{indent}}  ... {len(epochs) - len(shown)} older epochs")
    for label, epoch in zip(labels, shown, strict=True):
        lines.append(f"{label:{indent}}  {_row(layout.segments.values(), epoch, width)}")
    return [*lines, LEGEND]


def _ruler(width: int) -> str:
    middle = width // 2
    return "0000".ljust(middle) + "8000".ljust(width + 1 - 4 - middle) + "ffff"


def _row(segments: Iterable[Segment], epoch: int, width: int) -> str:
    cells = [" "] * (width + 1)
    there = [each for each in segments if is_there(each, epoch)]
    spans = {each.segment_id: _span(each, width) for each in there}
    for segment in there:
        first, last = spans[segment.segment_id]
        if segment.created_epoch == epoch:
            fill = ACTIVE if segment.is_active else SEALED
            name = f" {segment.segment_id} "
            text = name if len(name) < last - first else ""
            cells[first + 1 : last] = text.center(max(0, last - first - 1), fill)
    for first, last in spans.values():
        cells[first] = cells[last] = BORDER
    for first, last in spans.values():
        if first == last:
            cells[first] = NARROW
    return "".join(cells).rstrip()


def is_there(segment: Segment, epoch: int) -> bool:
    """Whether a segment was in use at the end of an epoch."""
    return segment.created_epoch <= epoch and (segment.is_active or segment.sealed_epoch > epoch)


def _span(segment: Segment, width: int) -> tuple[int, int]:
    """The columns of a segment's borders; the same one for a segment that is too narrow to be seen."""
    return segment.range.start * width // HASHES, (segment.range.end + 1) * width // HASHES
