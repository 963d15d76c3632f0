"""The report in a real browser: it shows its charts, fits into the window, and runs nothing that a record says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from audit_stage import plant
from pyspark.sql import SparkSession

from metastore.clock import SystemClock
from metastore.commandline import main
from support.browser import Browser
from txn.audit.faults import plant_fault
from txn.audit.planting import LONG_AGO_MS, Planter, Subject
from txn.model.header import TxnState

NASTY = "segment://<script>document.title='caught'</script>/" + "a-long-name-of-one-word-" * 8 + "/0"
CHARTS = (
    "Transactions by state and age",
    "Top violations",
    "Operations by segment",
    "Horizon lag",
    "Commit to visible",
    "Slowest owners",
)
COLOURS_LEAST = 100
"""Letters and bars have at least so many shades."""
IMAGE = Path(__file__).parents[2] / "docs" / "images" / "audit-report.png"
IMAGE_BYTES_MAX = 200_000


async def plant_some(planter: Planter) -> None:
    await planter.plant_clean(100)
    for rule in ("committed-but-skipped", "horizon-held", "half-applied"):
        await plant_fault(planter, rule, 2)
    await planter.put_segment(NASTY)
    header = planter.ended(TxnState.COMMITTED, LONG_AGO_MS)
    await planter.put(Subject(header, [planter.write(NASTY, LONG_AGO_MS + 1)]))


@pytest.fixture(scope="module")
def page(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a store with some faults."""
    folder = tmp_path_factory.mktemp("report")
    url, _ = plant(folder / "store", plant_some, SystemClock().wall_ms())
    rules = ("committed-but-skipped", "horizon-held", "half-applied", "outcome-not-applied", "id-never-given")
    only = [argument for rule in rules for argument in ("--rule", rule)]
    assert main(["audit", "run", "--store", url, "--report", str(folder / "report.html"), *only]) == 5
    return folder / "report.html"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for all tests."""
    with Browser() as browser:
        yield browser


@pytest.mark.parametrize(("width", "is_dark"), [(1200, False), (1200, True), (700, False), (400, False)])
def test_everything_is_shown_and_fits(page: Path, browser: Browser, width: int, is_dark: bool) -> None:
    shown = browser.open(page.as_uri(), width=width, is_dark=is_dark)
    assert shown.evaluate("[...document.querySelectorAll('.charts h3')].map(each => each.textContent)") == [*CHARTS]
    assert shown.evaluate("document.querySelectorAll('svg').length") == 2
    bars = "[...document.querySelectorAll('svg rect, .track i')].map(each => each.getBoundingClientRect())"
    assert shown.evaluate(f"{bars}.filter(each => each.width < 1 || each.height < 1).length") == 0
    assert shown.evaluate(f"{bars}.length") > len(CHARTS)
    tops = shown.evaluate("[...document.querySelectorAll('.tile')].map(each => each.getBoundingClientRect().top)")
    assert len(set(Counter(tops).values())) == 1, "every row of tiles is full"
    assert shown.evaluate("document.querySelectorAll('.rule').length") == 4
    assert shown.evaluate("document.querySelector('.verdict').textContent") == "2 critical"
    assert shown.overflowing() == []
    colours = shown.colours(shown.screenshot())
    assert len(colours) > COLOURS_LEAST
    ground = "#10151e" if is_dark else "#f3f5f9"
    assert colours[ground] > width
    assert shown.errors == []


def test_what_records_say_is_shown_and_never_run(page: Path, browser: Browser) -> None:
    shown = browser.open(page.as_uri())
    assert shown.evaluate("document.scripts.length") == 0
    assert shown.evaluate("document.title") == "Audit of transactions"
    assert shown.evaluate(f"document.body.textContent.includes({NASTY!r})")


def test_it_is_well_made_and_needs_no_network(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert "http://" not in text
    assert "https://" not in text
    Tags().check(text)


class Tags(HTMLParser):
    """Whether what is opened is closed."""

    VOID = ("meta",)

    def check(self, page: str) -> None:
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Closed at once."""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_guide_shows_one() -> None:
    image = IMAGE.read_bytes()
    assert image.startswith(b"\x89PNG")
    assert len(image) < IMAGE_BYTES_MAX
    assert f"images/{IMAGE.name}" in (IMAGE.parents[1] / "audit.md").read_text(encoding="utf-8")
