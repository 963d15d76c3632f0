"""What outcomes come to: percentiles, timelines that add up, thresholds, the result; and the page that shows it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.arrivals import Settings, Spacing
from loadtest.arrivals.pump import Limits
from loadtest.engine.messages import Order, decode_outcomes, encode_news
from loadtest.outcomes import (
    NOT_STARTED,
    Histogram,
    Kind,
    Mark,
    Outcome,
    Plan,
    Result,
    Thresholds,
    Timeline,
    Violation,
    violations_of,
)
from loadtest.report import page_of
from loadtest.report.axes import time_axis, time_scale
from support.browser import Browser

PNG = b"\x89PNG"
latencies = st.floats(1e-6, 100.0)
names = st.sampled_from(["alpha", "beta"])
outcomes = st.builds(
    Outcome, names, names, st.sampled_from(Kind), st.floats(0, 5), latencies, latencies, st.none() | names, st.just(3)
)
PLAN = Plan("metadata-mixed", ("memory://",), 10.0, "steady", 60.0, "random", 0)


@given(st.lists(latencies, min_size=1), st.floats(0, 1))
def test_percentiles_are_close_and_the_greatest_is_exact(values: list[float], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    wanted = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    assert histogram.percentile_s(share) == pytest.approx(wanted, rel=0.021)
    assert histogram.percentile_s(1.0) <= histogram.greatest_s == max(values)


def timeline_of(taken: list[Outcome]) -> Timeline:
    timeline = Timeline()
    for outcome in taken:
        timeline.add(int(outcome.began_s), outcome)
    return timeline


@given(st.lists(outcomes), st.integers(0, 10))
def test_timelines_of_several_processes_add_up(taken: list[Outcome], cut: int) -> None:
    whole = timeline_of(taken)
    told = [Timeline.decode(json.loads(json.dumps(timeline_of(part).encode()))) for part in (taken[:cut], taken[cut:])]
    together = Timeline()
    for each in told:
        together.merge(each)
    first, second = (Result(PLAN, each).as_json() for each in (whole, together))
    for column in ("arrivals", "errors", "not_started", "late_p99_ms"):
        assert first[column] == pytest.approx(second[column])
    assert [(row["operation"], row["count"], row["errors"]) for row in first["operations"]] == [
        (row["operation"], row["count"], row["errors"]) for row in second["operations"]
    ]


@given(st.lists(outcomes))
def test_what_an_engine_tells_is_what_is_heard(taken: list[Outcome]) -> None:
    said = json.loads(encode_news(taken, [Mark(3, "alpha", "split")]))
    assert decode_outcomes(said["outcomes"]) == taken
    assert [Mark(*mark) for mark in said["marks"]] == [Mark(3, "alpha", "split")]


def test_an_order_is_read_as_it_was_written() -> None:
    settings = Settings(("oxia://host:1",), "mark", seed=4, distribution="hot")
    order = Order(("watches",), settings, Limits(outstanding_max=3), Spacing.EVEN)
    assert Order.decode(order.encode()) == order


def arrival(latency_s: float, error: str | None = None, kind: Kind = Kind.ARRIVAL, second: float = 1.0) -> Outcome:
    return Outcome("metadata-mixed", "get", kind, second, latency_s, 0.0, error)


def test_thresholds_judge_every_operation_by_itself() -> None:
    timeline = timeline_of([arrival(0.010)] * 1_000)
    timeline.merge(timeline_of([Outcome("transactions", "commit", Kind.ARRIVAL, 1.0, 0.5)]))
    assert violations_of(timeline, Thresholds(p99_ms=600)) == []
    (violation,) = violations_of(timeline, Thresholds(p99_ms=400))
    assert violation == Violation("p99 in ms of transactions: commit", violation.value, 400)
    assert violation.value == pytest.approx(500, rel=0.02)
    assert violations_of(timeline, Thresholds()) == []


def test_steps_are_not_judged_and_events_are() -> None:
    slow = [arrival(9.0, kind=Kind.STEP)]
    assert violations_of(timeline_of([arrival(0.01), *slow]), Thresholds(100, 0.0)) == []
    assert len(violations_of(timeline_of([arrival(0.01), arrival(9.0, kind=Kind.EVENT)]), Thresholds(100))) == 1


def test_what_was_not_started_is_an_error() -> None:
    timeline = timeline_of([arrival(0.01)] * 98 + [arrival(5.0, NOT_STARTED), arrival(0.1, "Unavailable")])
    assert violations_of(timeline, Thresholds(error_ratio=0.02)) == []
    assert [each.value for each in violations_of(timeline, Thresholds(error_ratio=0.01))] == [0.02]
    result = Result(PLAN, timeline).as_json()
    assert (result["arrivals"], result["errors"], result["not_started"]) == (100, 2, 1)


def test_long_runs_have_longer_steps_and_lose_nothing() -> None:
    timeline = timeline_of([arrival(0.01, second=float(second)) for second in range(7_000, 8_000)])
    result = Result(PLAN, timeline).as_json()
    whole = [row for row in result["timeline"] if not row["scenario"]]
    assert (result["step_s"], result["seconds"], result["began_ms"]) == (4, 1_000, 7_000_000)
    assert [row["second"] for row in whole] == list(range(0, 1_000, 4))
    assert sum(row["count"] for row in whole) == 1_000


def test_a_run_that_begins_in_the_middle_of_a_second_is_no_longer_for_that() -> None:
    plan = replace(PLAN, time_s=5.0)
    timeline = timeline_of([arrival(0.01, second=100.5 + number / 10) for number in range(50)])
    result = Result(plan, timeline).as_json()
    assert (result["seconds"], result["operations"][0]["rate"]) == (5.0, 10.0)
    cut = timeline_of([arrival(0.01, second=100.5 + number / 10) for number in range(20)])
    assert Result(plan, cut).as_json()["seconds"] == 3, "an interrupted run is as long as it was"


# -- the page


def course() -> Iterator[Outcome]:
    """Two minutes with a stall, errors, and what was not started."""
    draw = random.Random(7)
    for number in range(2_400):
        began_s = number / 20
        stalled = 60 <= began_s < 64
        latency_s = 64 - began_s if stalled else draw.lognormvariate(-5, 0.6)
        error = NOT_STARTED if 60 <= began_s < 60.5 else "Unavailable" if number % 397 == 0 else None
        yield Outcome("metadata-mixed", draw.choice(["get", "put"]), Kind.ARRIVAL, began_s, latency_s, 0.0, error, 128)
        if number % 4 == 0:
            yield Outcome("topics-reshaping", "send", Kind.ARRIVAL, began_s, latency_s * 2)
            yield Outcome("topics-reshaping", "delivered to a stream", Kind.EVENT, began_s, latency_s * 3)
            yield Outcome("topics-reshaping", "acknowledged", Kind.STEP, began_s, latency_s / 2)
        if number % 600 == 300:
            yield Outcome("topics-reshaping", "split", Kind.EVENT, began_s, 0.2)


@pytest.fixture(scope="module")
def result() -> Result:
    timeline = timeline_of(list(course()))
    timeline.marks += [Mark(second, "topics-reshaping", text) for second, text in ((15, "split"), (75, "merge"))]
    plan = Plan("<b>bold</b>", ("oxia://<host>",), 25.0, "steady", 120.0, "random", 0)
    violations = violations_of(timeline, Thresholds(100, 0.001))
    return Result(plan, timeline, violations, {"processor": "<i>"}, {"python": "3"})


def test_a_page_shows_what_was_found_in_light_and_dark_rooms(result: Result, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(page_of(result.as_json()), encoding="utf-8")
    with Browser() as browser:
        light, dark = (browser.open(page.as_uri(), width=1100, is_dark=is_dark) for is_dark in (False, True))
        text = light.evaluate("document.body.innerText")
        for said in (
            "Load: <b>bold</b>",
            "failed",
            "3,000",
            "Not started in time".lower(),
            "Why it failed",
            "oxia://<host>",
        ):
            assert said in text
        for title in ("Arrivals", "Latency", "p99 by scenario", "Delivery", "Splits and merges", "Operations"):
            assert title in light.evaluate("[...document.querySelectorAll('h2')].map(each => each.innerText)")
        assert light.evaluate("document.querySelectorAll('section > svg').length") == 5
        assert light.evaluate("document.querySelectorAll('section:nth-of-type(2) g.mark.split').length") == 1
        assert light.evaluate("document.querySelectorAll('b i, p b, dd i').length") == 0
        for each in (light, dark):
            assert (each.errors, each.overflowing()) == ([], [])
        strips = light.evaluate("[...document.querySelectorAll('text.strip')].map(each => each.textContent)")
        assert strips == ["metadata-mixed", "topics-reshaping", "delivered to a stream"]
        assert light.evaluate("document.querySelectorAll('line.stem.five').length") == 4, "the splits, each by itself"
        for each, curves, card in ((light, "#2f6fdb", "#ffffff"), (dark, "#5b95f5", "#1a212c")):
            picture = each.screenshot()
            assert picture.startswith(PNG)
            colours = each.colours(picture)
            assert min(colours[curves], colours[card] / 100) > 1_000, "the charts are there to be seen, on their cards"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (5, ["0 s", "1 s", "2 s", "3 s", "4 s", "5 s"]),
        (121, ["0 s", "20 s", "40 s", "60 s", "80 s", "100 s", "120 s"]),
        (600, ["0:00", "1:00", "2:00", "3:00", "4:00", "5:00", "6:00", "7:00", "8:00", "9:00", "10:00"]),
        (7_200, ["0:00:00", "0:20:00", "0:40:00", "1:00:00", "1:20:00", "1:40:00", "2:00:00"]),
        (10_000_000, None),
    ],
)
def test_times_along_a_chart_are_round_and_few(seconds: int, told: list[str] | None) -> None:
    parts = [part for part in time_axis(time_scale(seconds), 200) if part.startswith("<text")]
    texts = [part.partition(">")[2].partition("<")[0] for part in parts]
    assert texts == told if told is not None else 5 < len(texts) <= 11


def test_a_narrow_window_keeps_the_page(result: Result, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(page_of(result.as_json()), encoding="utf-8")
    with Browser() as browser:
        narrow = browser.open(page.as_uri(), width=420)
        assert narrow.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert narrow.errors == []


def test_a_run_in_which_nothing_arrived_has_a_page_that_says_so(tmp_path: Path) -> None:
    text = page_of(Result(PLAN, Timeline(), failure="Unavailable: nobody listens").as_json())
    assert "Unavailable: nobody listens" in text
    assert "<svg" not in text
