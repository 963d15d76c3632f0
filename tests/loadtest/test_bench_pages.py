"""Pages of stored runs: what stands between the marks, and that the project's own pages agree with their runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadtest.bench.model import Axis, Better, Figure, Point
from loadtest.bench.pages import CHARTS, MARKS, charts_of, names_run, write_page, written
from loadtest.bench.report import Report, Row
from loadtest.bench.stored import PAGES

PROSE = "# A page\n\nBefore.\n\n<!-- run: some.json -->\nold\n<!-- end of run -->\n\nAfter.\n"


def row(line: str, at: float | None = None) -> Row:
    figures = {"ours": Figure((1.0, 2.0, 3.0), 2.0, 1.0)}
    point = None if at is None else Point("put", at)
    group = "plain" if at is None else "curve"
    return Row(group, line, "rate", line, "", "puts/s", Better.HIGHER, figures, (), point)


def stored(folder: Path) -> Report:
    report = Report("2026-01-01T00:00:00+00:00", ["bench"], {}, {"cores": 2}, {}, {"plain": "Plain", "curve": "Curve"})
    report.axes["curve"] = Axis("outstanding")
    report.rows += [row("put"), row("get"), row("put-1", 1.0), row("put-10", 10.0)]
    (folder / "some.json").write_text(json.dumps(report.as_json()))
    return report


def test_a_page_gets_table_and_charts_between_its_marks(tmp_path: Path) -> None:
    stored(tmp_path)
    text, charts = written(PROSE, tmp_path)
    assert text.startswith("# A page\n\nBefore.\n\n<!-- run: some.json -->\n")
    assert text.endswith("<!-- end of run -->\n\nAfter.\n")
    assert "old" not in text
    assert "![Plain](charts/some-plain.svg)" in text
    assert set(charts) == {"some-plain.svg", "some-curve.svg"}
    assert written(text, tmp_path)[0] == text


def test_groups_with_an_axis_become_curves(tmp_path: Path) -> None:
    svgs = {name: svg for name, _title, svg in charts_of(stored(tmp_path))}
    assert "polyline" in svgs["curve"]
    assert "polyline" not in svgs["plain"]


def test_a_page_without_a_run_says_so(tmp_path: Path) -> None:
    text, charts = written(PROSE, tmp_path)
    assert "No run is stored yet." in text
    assert charts == {}


def test_writing_a_page_removes_charts_of_groups_that_are_gone(tmp_path: Path) -> None:
    stored(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PROSE)
    (tmp_path / CHARTS).mkdir()
    (tmp_path / CHARTS / "some-former.svg").write_text("")
    (tmp_path / CHARTS / "other-plain.svg").write_text("")
    write_page(page)
    names = {path.name for path in (tmp_path / CHARTS).iterdir()}
    assert names == {"some-plain.svg", "some-curve.svg", "other-plain.svg"}
    assert names_run(page, "some.json")
    assert not names_run(page, "other.json")
    assert not names_run(tmp_path / "none.md", "some.json")


def test_every_stored_run_has_a_page() -> None:
    named = {match["name"] for page in PAGES.glob("*.md") for match in MARKS.finditer(page.read_text("utf-8"))}
    assert {path.name for path in PAGES.glob("*.json")} <= named


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.name)
def test_pages_agree_with_their_runs(page: Path) -> None:
    """`make bench-pages` writes them."""
    before = page.read_text("utf-8")
    text, charts = written(before, PAGES)
    assert text == before
    folder = PAGES / CHARTS
    assert {name: (folder / name).read_text("utf-8") for name in charts if (folder / name).exists()} == charts
    own = [path for match in MARKS.finditer(before) for path in folder.glob(f"{Path(match['name']).stem}-*.svg")]
    assert {path.name for path in own} == set(charts)
