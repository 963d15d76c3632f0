"""The files of a log must be all there, and nothing else."""

from __future__ import annotations

import shutil
import zlib
from itertools import pairwise
from pathlib import Path

import pytest
from log_helpers import (
    TIME_MS,
    all_entries,
    append_synced,
    numbered,
    only_file,
    opened,
    segment_files,
    small_options,
)

from metastore.log import Log, LogDamaged
from metastore.log.format import SEGMENT_HEADER_BYTES, decode_segment_header


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log of several segments."""
    with opened(tmp_path / "log", small_options()) as log:
        append_synced(log, *[[entry] for entry in numbered(0, 60)])
        assert log.segment_count >= 4
    return tmp_path / "log"


def check_refused(directory: Path, named: Path, reason: str, durable_floor: int = 0) -> None:
    with pytest.raises(LogDamaged) as caught:
        Log.open(directory, small_options(), durable_floor=durable_floor)
    assert reason in caught.value.reason
    assert caught.value.path == named
    assert str(named) in str(caught.value)


@pytest.mark.parametrize("number", [1, 2])
def test_a_missing_segment_is_refused(directory: Path, number: int) -> None:
    files = segment_files(directory)
    files[number].unlink()
    check_refused(directory, files[number + 1], "a segment is missing")


def test_a_missing_newest_segment_is_found_by_who_knows_what_was_durable(directory: Path) -> None:
    *_, before, newest = segment_files(directory)
    newest.unlink()
    check_refused(directory, before, "entries below 60 were durable", durable_floor=60)


def test_an_empty_directory_is_found_by_who_knows_what_was_durable(tmp_path: Path) -> None:
    check_refused(tmp_path, tmp_path, "entries below 1 were durable", durable_floor=1)
    assert not list(tmp_path.iterdir())


def test_a_copy_under_another_name_is_refused(directory: Path) -> None:
    copy = directory / f"{1000:020d}.log"
    shutil.copy(segment_files(directory)[1], copy)
    check_refused(directory, copy, "belies")


def test_a_segment_of_another_log_is_refused(directory: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "other", first_offset=1000) as log:
        append_synced(log, [b"a"])
    foreign = shutil.copy(only_file(tmp_path / "other"), directory)
    check_refused(directory, Path(foreign), "a segment is missing")


@pytest.mark.parametrize("name", ["notes.txt", "1.log", "00000000000000000000.log.bak", "x.new"])
def test_a_foreign_file_is_refused(directory: Path, name: str) -> None:
    (directory / name).write_bytes(b"hello")
    check_refused(directory, directory / name, "a foreign file")
    assert (directory / name).read_bytes() == b"hello"


def test_a_foreign_directory_is_refused(directory: Path) -> None:
    (directory / f"{5000:020d}.log").mkdir()
    check_refused(directory, directory / f"{5000:020d}.log", "a foreign file")


def test_a_newer_format_is_named_as_such(directory: Path) -> None:
    path = segment_files(directory)[-1]
    data = bytearray(path.read_bytes())
    data[8] = 2
    data[4:8] = zlib.crc32(data[8:SEGMENT_HEADER_BYTES]).to_bytes(4, "little")
    path.write_bytes(data)
    check_refused(directory, path, "format version 2 is newer")


def test_a_damaged_version_is_damage_and_no_newer_format(directory: Path) -> None:
    path = segment_files(directory)[-1]
    data = bytearray(path.read_bytes())
    data[8] = 2
    path.write_bytes(data)
    check_refused(directory, path, "checksum")


@pytest.mark.parametrize("length", [0, 1, SEGMENT_HEADER_BYTES - 1])
def test_a_cut_header_is_refused(directory: Path, length: int) -> None:
    path = segment_files(directory)[-1]
    path.write_bytes(path.read_bytes()[:length])
    check_refused(directory, path, "cut short")


def test_a_blank_header_is_refused(directory: Path) -> None:
    path = segment_files(directory)[-1]
    path.write_bytes(bytes(path.stat().st_size))
    check_refused(directory, path, "not a segment")


def test_an_older_segment_that_is_cut_short_is_refused(directory: Path) -> None:
    path = segment_files(directory)[1]
    path.write_bytes(path.read_bytes()[:-1])
    check_refused(directory, path, "cut short")


def test_what_dying_processes_left_unfinished_is_removed(directory: Path) -> None:
    """A process that dies while it creates a segment leaves any part of it, under a name of its own."""
    header = segment_files(directory)[-1].read_bytes()[:SEGMENT_HEADER_BYTES]
    unfinished = directory / f"{60:020d}.log.new"
    for length in range(SEGMENT_HEADER_BYTES + 1):
        unfinished.write_bytes(header[:length])
        with opened(directory, small_options()) as log:
            assert not unfinished.exists()
            assert all_entries(log) == numbered(0, 60)


def test_a_log_that_died_at_its_birth_is_born_again(tmp_path: Path) -> None:
    (tmp_path / f"{0:020d}.log.new").write_bytes(b"\0\0")
    with opened(tmp_path, first_offset=5) as log:
        append_synced(log, [b"a"])
        assert (log.first_offset, log.next_offset) == (5, 6)


def test_each_segment_says_how_its_predecessor_ended(directory: Path) -> None:
    files = segment_files(directory)
    for path, successor in pairwise(files):
        header = decode_segment_header(successor.read_bytes())
        assert header.previous_first_offset == int(path.stem)
        assert header.previous_end_position == path.stat().st_size
        assert header.previous_last_time_ms == TIME_MS


def test_opening_reads_frames_of_the_newest_segment_only(directory: Path) -> None:
    """Recovery does not depend on what is retained: damage in an older one is left to its readers."""
    path = segment_files(directory)[1]
    data = bytearray(path.read_bytes())
    data[SEGMENT_HEADER_BYTES + 10] ^= 1
    path.write_bytes(data)
    with opened(directory, small_options()) as log:
        assert log.next_offset == 60
        assert log.read(59)[0].entries == numbered(59, 1)
        with pytest.raises(LogDamaged):
            log.read(int(path.stem))
