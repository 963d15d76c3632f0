"""The picture of a topic's segments: in characters, and as an image."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st

from controller.console.drawing import ROWS_MAX, WIDTH_MAX, WIDTH_MIN, draw
from controller.console.svg import image
from controller.layout import Layout
from controller.layout.ranges import HASHES

SVG = "{http://www.w3.org/2000/svg}"

FAMILY = """\
         0000                            8000                         ffff
epoch 0  |------------------------------ 0 ------------------------------|
epoch 1  |-------------- 1 --------------|-------------- 2 --------------|
epoch 2  |====== 3 ======|------ 4 ------|                               |
epoch 3  |               |====================== 5 ======================|
= active   - sealed"""


def family() -> Layout:
    """A split, a split of the left half, and a merge across."""
    return Layout.initial(1, 0).split(0, 1).split(1, 2).merge([4, 2], 3)


def test_who_is_right_above_is_the_parent() -> None:
    assert "\n".join(draw(family())) == FAMILY


def test_a_pruned_past_leaves_its_rows_empty() -> None:
    layout = family().prune([0]).prune([1])
    assert draw(layout)[1:4] == [
        "epoch 1                                  |-------------- 2 --------------|",
        "epoch 2  |====== 3 ======|------ 4 ------|                               |",
        "epoch 3  |               |====================== 5 ======================|",
    ]


def test_what_is_too_narrow_is_a_mark() -> None:
    layout = Layout.initial(1, 0)
    for _ in range(8):
        layout = layout.split(layout.active[0].segment_id, 1)
    assert draw(layout, WIDTH_MIN)[-2].startswith("epoch 8  #")


def test_only_the_newest_rows_are_drawn() -> None:
    layout = Layout.initial(1, 0)
    for _ in range(ROWS_MAX):
        active = layout.active
        ids = [each.segment_id for each in active]
        layout = layout.split(ids[0], 1) if len(ids) == 1 else layout.merge(ids, 1)
    lines = draw(layout)
    assert lines[1].strip() == "... 1 older epochs"
    assert len(lines) == ROWS_MAX + 3
    assert lines[2].startswith("epoch 1 ")


@st.composite
def layouts(draw_: st.DrawFn) -> Layout:
    """Any that splits and merges lead to."""
    layout = Layout.initial(draw_(st.integers(1, 5)), 0)
    for number in range(draw_(st.integers(0, 12))):
        active = layout.active
        at = draw_(st.integers(0, len(active) - 1))
        if at + 1 < len(active) and draw_(st.booleans()):
            layout = layout.merge([active[at].segment_id, active[at + 1].segment_id], number)
        elif active[at].range.size > 1:
            layout = layout.split(active[at].segment_id, number)
    return layout


@given(layout=layouts(), width=st.integers(WIDTH_MIN, WIDTH_MAX))
def test_every_segment_is_in_the_picture_if_there_is_room(layout: Layout, width: int) -> None:
    lines = draw(layout, width)[1:-1]
    assert max(map(len, lines)) <= len("epoch 00  ") + width + 1
    drawn = {int(number) for line in lines for number in re.findall(r" (\d+) (?=[=|-])", line.partition("  ")[2])}
    wide = {
        each.segment_id
        for each in layout.segments.values()
        if each.range.size * width // HASHES > len(str(each.segment_id)) + 4
    }
    assert wide <= drawn <= set(layout.segments)


@given(layout=layouts())
def test_the_image_has_a_box_for_each_segment_and_a_line_for_each_parent(layout: Layout) -> None:
    found = ElementTree.fromstring(image("topic://public/default/<a&b>", layout))
    boxes = found.findall(f"{SVG}g/{SVG}rect")
    assert len(boxes) == len(layout.segments)
    assert sum(box.get("class") == "active" for box in boxes) == len(layout.active)
    assert len(found.findall(f"{SVG}path")) == sum(len(each.parents) for each in layout.segments.values())
    height = float(str(found.get("height")))
    assert all(0 < float(str(box.get("height"))) <= height for box in boxes)
    assert found.get("aria-label") == f"topic://public/default/<a&b>, epoch {layout.epoch}"
