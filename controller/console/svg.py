"""A topic's segments as an SVG image: the hashes from left to right, time from above to below. Pure.

Each segment is a box over its range of hashes, as tall as it lasted, and lines lead from parents to children.
"""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape, quoteattr

from controller.layout import Layout, Segment
from controller.layout.ranges import HASHES

WIDTH = 960
LANE_HEIGHT = 56
MARGIN = 24
LEFT = 72
TOP = 56
GAP = 14
"""Between a segment and its children: room for the lines."""
INSET = 1.5
LABEL_WIDTH_MIN = 26.0
"""A narrower box has its number in its title only."""

STYLE = """\
text{font:13px sans-serif;fill:#222}text.small{font-size:11px;fill:#666}
rect{stroke-width:1.5;rx:4}.active{fill:#cfe8d5;stroke:#2e7d46}.sealed{fill:#e6e6ea;stroke:#8a8a99}
path{fill:none;stroke:#8a8a99;stroke-width:1.2}"""


def image(topic: str, layout: Layout) -> str:
    """The whole document."""
    epochs = sorted({each.created_epoch for each in layout.segments.values()})
    rows = {epoch: row for row, epoch in enumerate(epochs)}
    height = TOP + len(epochs) * LANE_HEIGHT + MARGIN
    whole_width = LEFT + WIDTH + MARGIN
    title = f"{topic}, epoch {layout.epoch}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole_width}" height="{height}" '
        f'viewBox="0 0 {whole_width} {height}" role="img" aria-label={quoteattr(title)}>',
        f"<style>{STYLE}</style>",
        f'<text x="{LEFT}" y="20">{escape(title)}</text>',
        *(
            f'<text class="small" x="{LEFT + hash * WIDTH / HASHES:g}" y="44" text-anchor="{anchor}">{label}</text>'
            for hash, label, anchor in ((0, "0000", "start"), (HASHES // 2, "8000", "middle"), (HASHES, "ffff", "end"))
        ),
        *(
            f'<text class="small" x="{MARGIN}" y="{TOP + row * LANE_HEIGHT + 24}">{epoch}</text>'
            for epoch, row in rows.items()
        ),
    ]
    boxes = {each.segment_id: _Box.of(each, rows) for each in layout.segments.values()}
    for segment in layout.segments.values():
        lines += [_line(boxes[parent], boxes[segment.segment_id]) for parent in segment.parents]
    lines += [boxes[each.segment_id].drawn(each) for each in layout.segments.values()]
    return "\n".join([*lines, "</svg>", ""])


class _Box:
    """Where a segment is."""

    def __init__(self, left: float, top: float, width: float, height: float) -> None:
        self.left, self.top, self.width, self.height = left, top, width, height

    @classmethod
    def of(cls, segment: Segment, rows: Mapping[int, int]) -> _Box:
        first = rows[segment.created_epoch]
        # What sealed it may be pruned: then the next row that there is.
        last = len(rows) if segment.is_active else _row_of(segment.sealed_epoch, rows)
        left = LEFT + segment.range.start * WIDTH / HASHES + INSET
        width = max(segment.range.size * WIDTH / HASHES - 2 * INSET, 1.0)
        return cls(left, TOP + first * LANE_HEIGHT, width, max(last - first, 1) * LANE_HEIGHT - GAP)

    @property
    def middle(self) -> float:
        return self.left + self.width / 2

    def drawn(self, segment: Segment) -> str:
        """The box, its number, and what a pointer shows of it."""
        state = segment.state.value.lower()
        title = f"segment {segment.segment_id}, {segment.range.hex}, {state}, epoch {segment.created_epoch}"
        label = ""
        if self.width >= LABEL_WIDTH_MIN:
            label = f'<text x="{self.middle:g}" y="{self.top + 24:g}" text-anchor="middle">{segment.segment_id}</text>'
        return (
            f'<g><title>{title}</title><rect class="{state}" x="{self.left:g}" y="{self.top:g}" '
            f'width="{self.width:g}" height="{self.height:g}"/>{label}</g>'
        )


def _row_of(epoch: int, rows: Mapping[int, int]) -> int:
    return min((row for each, row in rows.items() if each >= epoch), default=len(rows))


def _line(parent: _Box, child: _Box) -> str:
    """From the lower edge of the one to the upper edge of the other."""
    from_x, from_y = parent.middle, parent.top + parent.height
    to_x, to_y = child.middle, child.top
    half = (from_y + to_y) / 2
    return f'<path d="M{from_x:g} {from_y:g}C{from_x:g} {half:g} {to_x:g} {half:g} {to_x:g} {to_y:g}"/>'
