"""After an error that leaves the disk in doubt, the log promises nothing more, and keeps what it promised."""

from __future__ import annotations

import errno
import os
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

from metastore.log import Log, LogDamaged, LogFailed, LogFull


def check_stopped(log: Log) -> None:
    for _ in range(2):
        with pytest.raises(LogFailed):
            log.append([b"never"], TIME_MS)
        with pytest.raises(LogFailed):
            log.append([b"never"], TIME_MS, from_reserve=True)
        with pytest.raises(LogFailed):
            log.sync()
        with pytest.raises(LogFailed):
            log.trim(log.next_offset, TIME_MS + 1)


@pytest.mark.parametrize("error_number", [errno.EIO, errno.ENOSPC])
def test_a_failed_sync_stops_the_log_for_ever(tmp_path: Path, error_number: int) -> None:
    fault = SwitchedFault("log.sync.after")
    with opened(tmp_path / "log", faults=fault) as log:
        append_synced(log, [b"durable"])
        log.append([b"doubtful"], TIME_MS)
        fault.error_number = error_number
        with pytest.raises(LogFailed, match=": syncing failed"):
            log.sync()
        fault.error_number = 0
        check_stopped(log)
        assert log.durable_end == 1
        assert all_entries(log) == [b"durable"]
    with opened(tmp_path / "log") as log:
        assert all_entries(log) == [b"durable", b"doubtful"]


@pytest.mark.parametrize("error_number", [errno.EIO, errno.ENOSPC])
def test_a_failed_write_stops_the_log(tmp_path: Path, error_number: int) -> None:
    """Even for want of space: the frame may be half there, and nothing may be written over it."""
    fault = SwitchedFault("log.append.after")
    with opened(tmp_path / "log", faults=fault) as log:
        append_synced(log, [b"durable"])
        fault.error_number = error_number
        with pytest.raises(LogFailed, match="writing a frame failed"):
            log.append([b"doubtful"], TIME_MS)
        fault.error_number = 0
        check_stopped(log)
        assert log.next_offset == 1


def test_a_failed_sync_of_the_old_segment_stops_a_roll(tmp_path: Path) -> None:
    fault = SwitchedFault("log.sync.after")
    with opened(tmp_path / "log", small_options(), fault) as log:
        append_synced(log, [b"x" * 600])
        log.append([b"y" * 100], TIME_MS)
        fault.error_number = errno.ENOSPC
        with pytest.raises(LogFailed):
            log.append([b"z" * 600], TIME_MS)
        fault.error_number = 0
        check_stopped(log)
        assert len(segment_files(tmp_path / "log")) == 1
        assert all_entries(log) == [b"x" * 600]


def test_a_roll_makes_all_before_it_durable(tmp_path: Path) -> None:
    with opened(tmp_path / "log", small_options()) as log:
        log.append([b"x" * 600], TIME_MS)
        log.append([b"y" * 600], TIME_MS)
        assert (log.segment_count, log.durable_end) == (2, 1)
        assert all_entries(log) == [b"x" * 600]


@pytest.mark.parametrize("point", ["log.append.before", "log.roll.before", "log.roll.after"])
def test_errors_at_the_points_of_an_append(tmp_path: Path, point: str) -> None:
    fault = SwitchedFault(point)
    with opened(tmp_path / "log", small_options(), fault) as log:
        append_synced(log, [b"x" * 600])
        fault.error_number = errno.ENOSPC
        with pytest.raises(LogFull):
            log.append([b"y" * 600], TIME_MS)
        fault.error_number = 0
        append_synced(log, [b"z" * 600])
        assert all_entries(log) == [b"x" * 600, b"z" * 600]
        fault.error_number = errno.EIO
        with pytest.raises(LogFailed):
            log.append([b"y" * 600], TIME_MS)
        fault.error_number = 0
        check_stopped(log)
    with opened(tmp_path / "log", small_options()) as log:
        assert all_entries(log) == [b"x" * 600, b"z" * 600]


@pytest.mark.parametrize("point", ["log.trim.before", "log.trim.after"])
def test_errors_at_the_points_of_a_trim(tmp_path: Path, point: str) -> None:
    fault = SwitchedFault(point)
    with opened(tmp_path / "log", small_options(), fault) as log:
        append_synced(log, *[[entry] for entry in numbered(0, 60)])
        fault.error_number = errno.ENOSPC
        with pytest.raises(LogFull):
            log.trim(log.next_offset, TIME_MS + 1)
        first_offset = log.first_offset
        assert all_entries(log) == numbered(first_offset, 60 - first_offset)
        fault.error_number = errno.EIO
        with pytest.raises(LogFailed):
            log.trim(log.next_offset, TIME_MS + 1)
        fault.error_number = 0
        check_stopped(log)
        first_offset = log.first_offset
    with opened(tmp_path / "log", small_options()) as log:
        assert log.first_offset == first_offset
        assert all_entries(log) == numbered(first_offset, 60 - first_offset)


def test_a_file_that_cannot_be_deleted_stays_part_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise OSError(errno.ENOSPC, "no space for the journal")

    with opened(tmp_path / "log", small_options()) as log:
        append_synced(log, *[[entry] for entry in numbered(0, 60)])
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", refuse)
            with pytest.raises(LogFull):
                log.trim(log.next_offset, TIME_MS + 1)
        assert log.first_offset == 0
        assert all_entries(log) == numbered(0, 60)
        assert log.trim(log.next_offset, TIME_MS + 1) > 0


@pytest.mark.parametrize("change", ["roll", "trim"])
def test_a_failed_sync_of_the_directory_stops_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    def refuse(directory: Path) -> None:
        raise OSError(errno.ENOSPC, "injected")

    with opened(tmp_path / "log", small_options()) as log:
        append_synced(log, [b"x" * 600], [b"y" * 600])
        monkeypatch.setattr("metastore.log.log.sync_path", refuse)
        with pytest.raises(LogFailed, match="syncing the directory failed"):
            log.append([b"z" * 600], TIME_MS) if change == "roll" else log.trim(1, TIME_MS + 1)
        check_stopped(log)
    monkeypatch.undo()
    with opened(tmp_path / "log", small_options()) as log:
        assert all_entries(log)[-1] == b"y" * 600


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_no_descriptor_is_lost_whatever_fails(tmp_path: Path) -> None:
    before = open_descriptors()
    fault = SwitchedFault()
    for point in ("log.extend", "log.sync.after", "log.append.after", "log.roll.after"):
        fault.point = point
        with opened(tmp_path / point, small_options(), fault) as log:
            append_synced(log, [b"x" * 600])
            fault.error_number = errno.EIO
            with pytest.raises(LogFailed):
                append_synced(log, [b"y" * 600])
            fault.error_number = 0
            assert log.read(0)
    fault.point, fault.error_number = "log.extend", errno.EIO
    with pytest.raises(LogFailed):
        Log.open(tmp_path / "new", small_options(reserve_bytes=100), fault)
    fault.error_number = 0
    with opened(tmp_path / "old", small_options()) as log:
        append_synced(log, [b"x" * 600])
    path = segment_files(tmp_path / "old")[0]
    path.write_bytes(path.read_bytes().replace(b"xx", b"xy", 1))
    with pytest.raises(LogDamaged):
        Log.open(tmp_path / "old", small_options())
    assert open_descriptors() == before
