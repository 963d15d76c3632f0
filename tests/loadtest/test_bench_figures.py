"""Percentile, spread, ratio and verdict, held against their definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.bench.figures import judge, percentile, ratio, relative_spread, summarize
from loadtest.bench.model import AtLeast, AtMost, Better, Metric, Summary

POSITIVE = st.floats(min_value=1e-6, max_value=1e9)


@given(st.lists(POSITIVE, min_size=1), st.floats(min_value=0.001, max_value=1.0))
def test_a_percentile_is_the_least_value_that_covers_its_fraction(values: list[float], fraction: float) -> None:
    values.sort()
    found = percentile(values, fraction)
    assert found in values
    assert sum(value <= found for value in values) >= fraction * len(values) - 1e-9
    assert sum(value < found for value in values) < fraction * len(values) + 1e-9


def test_percentiles_of_a_hundred_values() -> None:
    values = list(range(1, 101))
    assert [percentile(values, fraction) for fraction in (0.01, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]


def test_spread_is_relative_to_the_median() -> None:
    assert relative_spread([90.0, 100.0, 120.0]) == pytest.approx(0.3)
    assert relative_spread([5.0]) == 0
    assert relative_spread([0.0, 0.0]) == 0


@given(POSITIVE, POSITIVE)
def test_a_ratio_above_one_means_better_whichever_way_the_unit_points(ours: float, other: float) -> None:
    higher, lower = ratio(ours, other, Better.HIGHER), ratio(ours, other, Better.LOWER)
    assert higher is not None
    assert lower is not None
    assert (higher > 1) == (ours > other)
    assert (lower > 1) == (ours < other)


def test_a_zero_has_no_ratio() -> None:
    assert ratio(1.0, 0.0, Better.HIGHER) is None
    assert ratio(0.0, 1.0, Better.LOWER) is None


@pytest.mark.parametrize(
    ("check", "better", "ours", "word"),
    [
        (AtLeast("peer", 0.6), Better.HIGHER, 100.0, "goal"),
        (AtLeast("peer", 0.6), Better.HIGHER, 60.0, "floor"),
        (AtLeast("peer", 0.6), Better.HIGHER, 59.0, "missed"),
        (AtLeast("peer"), Better.HIGHER, 59.0, "short"),
        (AtLeast("peer", 0.6), Better.LOWER, 99.0, "goal"),
        (AtLeast("peer", 0.6), Better.LOWER, 150.0, "floor"),
        (AtLeast("peer", 2.0, goal=2.0), Better.HIGHER, 199.0, "missed"),
        (AtMost(50.0), Better.LOWER, 50.0, "goal"),
        (AtMost(50.0), Better.LOWER, 50.1, "missed"),
    ],
)
def test_words_of_verdicts(check: AtLeast | AtMost, better: Better, ours: float, word: str) -> None:
    verdict = judge(check, better, ours, {"ours": ours, "peer": 100.0})
    assert verdict is not None
    assert verdict.word == word


def test_an_absent_peer_is_not_judged() -> None:
    assert judge(AtLeast("peer", 0.6), Better.HIGHER, 1.0, {"ours": 1.0}) is None


def test_a_figure_is_the_median_or_the_worst_of_its_repeats() -> None:
    samples = [{"wait": 3.0, "cpu": 1.0}, {"wait": 9.0, "cpu": 2.0}, {"wait": 4.0, "cpu": 7.0}]
    hidden = frozenset({"wait"})
    median = summarize(Metric("wait", "", "ms", Better.LOWER), samples, hidden)
    longest = summarize(Metric("wait", "", "ms", Better.LOWER, summary=Summary.WORST), samples, hidden)
    lowest = summarize(Metric("wait", "", "ms", Better.HIGHER, summary=Summary.WORST), samples, hidden)
    assert (median.value, longest.value, lowest.value) == (4.0, 9.0, 3.0)
    assert median.repeats == (3.0, 9.0, 4.0)
    assert median.spread == pytest.approx(1.5)
    assert median.details == {"cpu": 2.0}
