"""Trimming deletes whole files from the old end, and never what is still wanted."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_helpers import (
    TIME_MS,
    SwitchedFault,
    all_entries,
    append_synced,
    numbered,
    opened,
    segment_files,
    small_options,
)

from metastore.log import Log, LogTrimmed

ENTRY_BYTES = 400  # two in a segment


def ten_entries(log: Log) -> None:
    """Entry n is written at TIME_MS + n; the segments start at 0, 2, 4, 6, 8."""
    for number, entry in enumerate(numbered(0, 10, ENTRY_BYTES)):
        log.append([entry], TIME_MS + number)
        log.sync()
    assert log.segment_count == 5


@pytest.mark.parametrize(
    ("keep_from_offset", "older_than_ms", "first_offset"),
    [
        (0, TIME_MS + 99, 0),
        (1, TIME_MS + 99, 0),
        (2, TIME_MS + 99, 2),
        (5, TIME_MS + 99, 4),
        (99, TIME_MS + 99, 8),
        (99, TIME_MS + 1, 0),
        (99, TIME_MS + 2, 2),
        (99, TIME_MS + 5, 4),
        (3, TIME_MS + 5, 2),
        (99, TIME_MS, 0),
    ],
)
def test_what_is_both_unwanted_and_old_goes(
    tmp_path: Path, keep_from_offset: int, older_than_ms: int, first_offset: int
) -> None:
    with opened(tmp_path / "log", small_options()) as log:
        ten_entries(log)
        assert log.trim(keep_from_offset, older_than_ms) == first_offset
        assert int(segment_files(tmp_path / "log")[0].stem) == log.first_offset == first_offset
        assert all_entries(log) == numbered(0, 10, ENTRY_BYTES)[first_offset:]
    with opened(tmp_path / "log", small_options()) as log:
        assert log.first_offset == first_offset
        assert all_entries(log) == numbered(0, 10, ENTRY_BYTES)[first_offset:]


def test_times_are_known_after_opening_too(tmp_path: Path) -> None:
    with opened(tmp_path / "log", small_options()) as log:
        ten_entries(log)
    with opened(tmp_path / "log", small_options()) as log:
        append_synced(log, [b"x" * ENTRY_BYTES])
        assert log.trim(99, TIME_MS + 9) == 8
        assert log.trim(99, TIME_MS + 10) == 10


def test_what_was_trimmed_is_said_to_be(tmp_path: Path) -> None:
    with opened(tmp_path / "log", small_options()) as log:
        ten_entries(log)
        log.trim(5, TIME_MS + 99)
        with pytest.raises(LogTrimmed) as caught:
            log.read(3)
        assert caught.value.oldest == 4
        assert log.read(4)[0].entries == numbered(4, 1, ENTRY_BYTES)


def test_the_newest_segment_stays_even_if_nobody_wants_it(tmp_path: Path) -> None:
    with opened(tmp_path / "log") as log:
        append_synced(log, [b"a"])
        assert log.trim(99, TIME_MS + 99) == 0
        assert all_entries(log) == [b"a"]


def test_a_reader_that_loses_a_race_against_a_trim_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file goes between the moment the reader chose it and the moment it opens it."""
    with opened(tmp_path / "log", small_options()) as log:
        ten_entries(log)
        segment = type(log._view.segments[0])
        read = segment.read

        def late_read(*arguments: object) -> object:
            log.trim(5, TIME_MS + 99)
            return read(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(segment, "read", late_read)
        with pytest.raises(LogTrimmed) as caught:
            log.read(1)
        assert caught.value.oldest == 4


def test_files_go_one_after_the_other(tmp_path: Path) -> None:
    """A crash in between leaves a log without a gap."""
    faults = SwitchedFault()
    with opened(tmp_path / "log", small_options(), faults) as log:
        ten_entries(log)
        log.trim(99, TIME_MS + 99)
    trims = [point for point in faults.reached if point.startswith("log.trim")]
    assert trims == ["log.trim.before", "log.trim.after"] * 4
