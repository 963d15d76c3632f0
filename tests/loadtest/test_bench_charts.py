"""Scales and charts: values in, SVG out."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.bench.charts import DARK, LIGHT, Curves, Dots, Mark, curve_chart, dot_chart
from loadtest.drawing.scales import Scale, fitted, tick_text

SVG = "{http://www.w3.org/2000/svg}"
POSITIVE = st.floats(min_value=1e-6, max_value=1e9)
MARK = Mark(20.0, 10.0, 40.0)


@given(st.lists(POSITIVE, min_size=1, max_size=20), st.sampled_from([None, True, False]))
def test_a_fitted_scale_shows_every_value_in_order(values: list[float], is_log: bool | None) -> None:
    scale = fitted(values, 0.0, 100.0, is_log)
    assert scale.least <= min(values)
    assert scale.greatest >= max(values)
    places = [scale.place(value) for value in sorted(values)]
    assert places == sorted(places)
    assert all(-1e-6 <= place <= 100 + 1e-6 for place in places)
    ticks = scale.ticks()
    assert 1 <= len(ticks) <= 12
    assert ticks == sorted(set(ticks))


@given(POSITIVE)
def test_scales_may_run_upwards(value: float) -> None:
    scale = fitted([value, value * 3], 300.0, 0.0)
    assert scale.place(value) >= scale.place(value * 3)


def test_a_scale_of_far_values_is_logarithmic_and_one_with_zero_is_not() -> None:
    assert fitted([1.0, 1000.0], 0, 1).is_log
    assert not fitted([1.0, 3.0], 0, 1).is_log
    assert not fitted([0.0, 1000.0], 0, 1, is_log=True).is_log
    assert fitted([0.0], 0, 1).greatest > 0


def test_ticks_are_round() -> None:
    assert Scale(1, 1000, 0, 1, True).ticks() == [1, 10, 100, 1000]
    assert Scale(1, 50, 0, 1, True).ticks() == [1, 2, 5, 10, 20, 50]
    assert Scale(0, 100, 0, 1, False).ticks() == [0, 20, 40, 60, 80, 100]


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.05, "0.05"), (20, "20"), (1_000, "1k"), (2_500_000, "2.5M"), (3e9, "3G")]
)
def test_ticks_are_short(value: float, text: str) -> None:
    assert tick_text(value) == text


def marks_in(svg: str, number: int) -> list[ElementTree.Element]:
    """The marks of one name: the shapes of its colour that have a title."""
    root = ElementTree.fromstring(svg)
    return [each for each in root if each.get("class") == f"c{number}" and each.find(f"{SVG}title") is not None]


def test_a_dot_chart_has_a_mark_per_figure_and_says_its_units() -> None:
    rows = [("put <one>", {"ours": MARK, "peer": Mark(30.0, 30.0, 30.0)}), ("get", {"ours": MARK})]
    svg = dot_chart("A & B", [Dots("ms (lower is better)", rows)])
    texts = [each.text for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert {"A & B", "ms (lower is better)", "put <one>", "get", "ours", "peer"} <= set(texts)
    # One of the legend's, which has an empty title, and one per row.
    assert [len(marks_in(svg, number)) for number in (0, 1)] == [3, 2]


def test_marks_lie_where_their_values_are() -> None:
    svg = dot_chart("One", [Dots("ms", [("a", {"x": Mark(1.0, 1.0, 1.0)}), ("b", {"x": Mark(2.0, 2.0, 2.0)})])])
    first, second = (float(mark.attrib["cx"]) for mark in marks_in(svg, 0))
    assert first < second


def test_a_curve_chart_labels_both_axes_and_joins_its_points() -> None:
    points = [(1.0, MARK), (10.0, Mark(200.0, 150.0, 300.0)), (1000.0, MARK)]
    panels = [
        Curves("Throughput", "requests outstanding", "puts/s", True, {"put": points, "get": points[:2]}),
        Curves("p99", "requests outstanding", "ms", True, {"put": points}),
    ]
    svg = curve_chart("Concurrency", panels)
    root = ElementTree.fromstring(svg)
    texts = [each.text for each in root.iter(f"{SVG}text")]
    assert texts.count("requests outstanding") == 2
    assert {"Throughput, puts/s", "p99, ms", "put", "get"} <= set(texts)
    lines = [line.attrib["points"].split() for line in root.iter(f"{SVG}polyline")]
    assert [len(line) for line in lines] == [3, 2, 3]
    across = [float(place.split(",")[0]) for place in lines[0]]
    one, two, three = across
    # One decade, then two: the axis is logarithmic.
    assert three - two == pytest.approx(2 * (two - one), abs=0.2)


def test_charts_stay_within_their_card() -> None:
    names = [f"a rather long name, the {number}th" for number in range(8)]
    svg = dot_chart("Many", [Dots("ms", [("a", dict.fromkeys(names, MARK))])])
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    places = [(float(each.attrib["x"]), float(each.attrib["y"])) for each in root.iter(f"{SVG}text")]
    assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


def luminance(colour: str) -> float:
    """As the guidelines for contrast define it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_marks_are_seen_on_both_cards_and_told_apart() -> None:
    assert all(contrast(colour, "#ffffff") >= 2.7 for colour in LIGHT)
    assert all(contrast(colour, "#0d1117") >= 4.5 for colour in DARK)
    for colours in (LIGHT, DARK):
        assert all(one != other for one, other in itertools.combinations(colours, 2))
