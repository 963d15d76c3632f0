"""A look at a log from outside finds what opening and reading would find, and touches nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_helpers import TIME_MS, append_synced, numbered, opened, segment_files, small_options

from metastore.log import Frame, inspect


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with opened(tmp_path / "log", small_options(), first_offset=100) as log:
        append_synced(log, *[numbered(100 + 2 * group, 2) for group in range(30)])
    return tmp_path / "log"


def content(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.iterdir()}


def change(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def test_a_healthy_log_is_described(directory: Path) -> None:
    before = content(directory)
    reports = list(inspect(directory))
    assert [report.path for report in reports] == segment_files(directory)
    assert all(report.problem is None and report.torn_bytes == 0 for report in reports)
    assert reports[0].first_offset == 100
    assert [report.end_offset for report in reports[:-1]] == [report.first_offset for report in reports[1:]]
    assert reports[-1].end_offset == 160
    assert sum(report.frame_count for report in reports) == 30
    assert {report.last_time_ms for report in reports} == {TIME_MS}
    assert all(report.written_bytes <= report.size_bytes == report.path.stat().st_size for report in reports)
    frames = [frame for report in reports for frame in report.frames()]
    assert frames == [Frame(100 + 2 * group, TIME_MS, numbered(100 + 2 * group, 2)) for group in range(30)]
    assert content(directory) == before


def test_a_torn_tail_is_announced_and_left_alone(directory: Path) -> None:
    *_, newest = inspect(directory)
    data = newest.path.read_bytes()
    newest.path.write_bytes(data[: newest.written_bytes - 20] + bytes(len(data) - newest.written_bytes + 20))
    before = content(directory)
    *_, torn = inspect(directory)
    assert torn.problem is None
    assert torn.torn_bytes > 0
    assert torn.end_offset == 158
    assert len(list(torn.frames())) == torn.frame_count == newest.frame_count - 1
    assert content(directory) == before


@pytest.mark.parametrize(
    ("number", "position", "reason"),
    [(1, 100, "damaged or missing"), (-1, 100, "had been durable"), (1, 20, "header fails its checksum")],
)
def test_damage_is_reported_for_the_file_that_has_it(directory: Path, number: int, position: int, reason: str) -> None:
    path = segment_files(directory)[number]
    change(path, position)
    problems = {report.path: report.problem for report in inspect(directory) if report.problem is not None}
    assert set(problems) == {path}
    assert str(path) in problems[path]
    assert reason in problems[path]


def test_damage_in_one_file_hides_nothing_of_the_others(directory: Path) -> None:
    change(segment_files(directory)[1], 20)
    reports = list(inspect(directory))
    assert reports[1].frame_count == 0
    assert list(reports[1].frames()) == []
    assert [report.frame_count > 0 for report in reports] == [True, False, *[True] * (len(reports) - 2)]


def test_a_missing_segment_and_foreign_files_are_reported(directory: Path) -> None:
    segment_files(directory)[1].unlink()
    (directory / "notes").write_bytes(b"hello")
    (directory / f"{160:020d}.log.new").write_bytes(b"")
    problems = [report.problem for report in inspect(directory) if report.problem is not None]
    assert len(problems) == 2
    assert "a foreign file" in problems[0]
    assert "a segment is missing" in problems[1]
