"""A full disk: nothing half-written, nothing lost, and the reserve for what frees space."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from log_helpers import (
    TIME_MS,
    SwitchedFault,
    all_entries,
    append_synced,
    full_disk,
    numbered,
    only_file,
    opened,
    segment_files,
    small_options,
)

from metastore.log import Log, LogFailed, LogFull, LogOptions
from metastore.log.format import FRAME_OVERHEAD_BYTES


def append_until_full(log: Log, from_reserve: bool = False) -> None:
    for entry in numbered(log.next_offset, 10_000):
        try:
            log.append([entry], TIME_MS, from_reserve=from_reserve)
        except LogFull:
            return
    pytest.fail("the log was never full")


def fill(log: Log, fault: SwitchedFault, from_reserve: bool = False) -> int:
    """Appends until the log is full; returns how many fitted."""
    fault.error_number = errno.ENOSPC
    start = log.next_offset
    append_until_full(log, from_reserve)
    log.sync()
    return log.next_offset - start


def test_a_full_disk_changes_nothing_and_is_over_when_space_is_back(tmp_path: Path) -> None:
    fault = SwitchedFault("log.extend")
    with opened(tmp_path / "log", faults=fault) as log:
        written = fill(log, fault)
        before = only_file(tmp_path / "log").read_bytes()
        with pytest.raises(LogFull):
            log.append([bytes(100)], TIME_MS)
        assert only_file(tmp_path / "log").read_bytes() == before
        assert log.size_bytes == len(before)
        fault.error_number = 0
        assert log.append(numbered(written, 1), TIME_MS) == written
        log.sync()
        assert all_entries(log) == numbered(0, written + 1)
    with opened(tmp_path / "log") as log:
        assert all_entries(log) == numbered(0, written + 1)


def test_a_full_disk_at_a_roll_changes_nothing(tmp_path: Path) -> None:
    fault = SwitchedFault("log.roll.before")
    with opened(tmp_path / "log", small_options(), fault) as log:
        written = fill(log, fault)
        fault.point = "log.extend"
        with pytest.raises(LogFull):
            log.append(numbered(written, 1), TIME_MS)
        assert log.segment_count == len(list((tmp_path / "log").iterdir())) == 1
        fault.error_number = 0
        append_synced(log, numbered(written, 1))
        assert log.segment_count == 2
        assert all_entries(log) == numbered(0, written + 1)


@pytest.mark.parametrize("point", ["log.extend", "log.roll.before"])
@pytest.mark.parametrize("reserve_bytes", [0, 1000, 5000])
def test_the_reserve_is_there_for_those_who_may_use_it(tmp_path: Path, point: str, reserve_bytes: int) -> None:
    options = small_options(1024 if point == "log.roll.before" else 1 << 20, reserve_bytes)
    fault = SwitchedFault(point)
    with opened(tmp_path / "log", options, fault) as log:
        fill(log, fault)
        frame_bytes = FRAME_OVERHEAD_BYTES + 4 + 20
        from_reserve = fill(log, fault, from_reserve=True)
        assert from_reserve >= reserve_bytes // frame_bytes
        assert fill(log, fault) == 0
        assert all_entries(log) == numbered(0, log.next_offset)


def test_the_reserve_is_restored_as_soon_as_there_is_space(tmp_path: Path) -> None:
    fault = SwitchedFault("log.extend")
    options = small_options(1 << 20, reserve_bytes=3000)
    with opened(tmp_path / "log", options, fault) as log:
        fill(log, fault)
        assert fill(log, fault, from_reserve=True) > 30
        fault.error_number = 0
        append_synced(log, numbered(log.next_offset, 1))
        fault.error_number = errno.ENOSPC
        assert fill(log, fault, from_reserve=True) > 30


def test_the_reserve_is_not_touched_while_the_disk_has_space(tmp_path: Path) -> None:
    fault = SwitchedFault("log.extend")
    options = small_options(1 << 20, reserve_bytes=3000)
    with opened(tmp_path / "log", options, fault) as log:
        for entry in numbered(0, 200):
            log.append([entry], TIME_MS, from_reserve=True)
        assert fill(log, fault, from_reserve=True) > 30


def test_a_log_opens_on_a_full_disk_and_has_its_reserve_still(tmp_path: Path) -> None:
    fault = SwitchedFault("log.extend")
    options = small_options(1 << 20, reserve_bytes=3000)
    with opened(tmp_path / "log", options, fault) as log:
        written = fill(log, fault)
    with opened(tmp_path / "log", options, full_disk()) as log:
        assert all_entries(log) == numbered(0, written)
        with pytest.raises(LogFull):
            log.append([b"a"], TIME_MS)
        assert fill(log, fault, from_reserve=True) == 0 or log.next_offset > written
    with opened(tmp_path / "log", options) as log:
        log.append([b"a"], TIME_MS)


def test_a_log_opens_on_a_full_disk_with_its_reserve_used_up(tmp_path: Path) -> None:
    fault = SwitchedFault("log.extend")
    options = small_options(1 << 20, reserve_bytes=1000)
    with opened(tmp_path / "log", options, fault) as log:
        fill(log, fault)
        fill(log, fault, from_reserve=True)
        written = log.next_offset
    with opened(tmp_path / "log", options, full_disk()) as log:
        assert all_entries(log) == numbered(0, written)
        with pytest.raises(LogFull):
            log.append(numbered(0, 1), TIME_MS, from_reserve=True)


def test_an_io_error_while_space_is_claimed_stops_the_log(tmp_path: Path) -> None:
    fault = SwitchedFault("log.extend")
    with opened(tmp_path / "log", faults=fault) as log:
        append_synced(log, [b"a"])
        fault.error_number = errno.EIO
        with pytest.raises(LogFailed, match="making room"):
            log.append([bytes(4000)], TIME_MS)
        fault.error_number = 0
        with pytest.raises(LogFailed, match="making room"):
            log.append([b"b"], TIME_MS)
        assert all_entries(log) == [b"a"]
    with opened(tmp_path / "log") as log:
        assert all_entries(log) == [b"a"]


@contextmanager
def file_size_limit(limit_bytes: int) -> Iterator[None]:
    """The kernel itself refuses to let any file of this process grow beyond the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_the_kernel_refusing_a_part_of_an_extension_leaves_nothing_of_it(tmp_path: Path) -> None:
    """3010 bytes are allowed, which end in the middle of a frame: the last extension is half written."""
    options = LogOptions(reserve_bytes=0, step_bytes_min=500, step_bytes_max=500)
    with opened(tmp_path / "log", options) as log:
        with file_size_limit(3010):
            append_until_full(log)
            log.sync()
            written, size = log.next_offset, only_file(tmp_path / "log").stat().st_size
            with pytest.raises(LogFull):
                log.append([bytes(5000)], TIME_MS)
            assert only_file(tmp_path / "log").stat().st_size == size == log.size_bytes < 3010
        assert all_entries(log) == numbered(0, written)
        append_synced(log, [bytes(5000)])
        assert all_entries(log) == [*numbered(0, written), bytes(5000)]


def test_a_long_step_that_does_not_fit_gives_way_to_a_short_one(tmp_path: Path) -> None:
    options = LogOptions(reserve_bytes=0, step_bytes_min=100_000, step_bytes_max=100_000)
    with file_size_limit(104_000), opened(tmp_path / "log", options) as log:
        append_synced(log, [b"x" * 99_000], [b"y" * 2_000])
        assert all_entries(log) == [b"x" * 99_000, b"y" * 2_000]


def test_a_new_segment_that_does_not_fit_leaves_no_file(tmp_path: Path) -> None:
    options = LogOptions(segment_bytes_max=1000, reserve_bytes=0, step_bytes_min=500, step_bytes_max=500)
    with opened(tmp_path / "log", options) as log:
        append_synced(log, [b"x" * 900])
        with file_size_limit(1500), pytest.raises(LogFull):
            log.append([b"y" * 2000], TIME_MS)
        assert list((tmp_path / "log").iterdir()) == segment_files(tmp_path / "log")
        append_synced(log, [b"y" * 2000])
        assert all_entries(log) == [b"x" * 900, b"y" * 2000]
