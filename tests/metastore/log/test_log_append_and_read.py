"""The everyday life of a log: groups go in, become durable, and come out again."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from log_helpers import (
    ONE_SEGMENT,
    TIME_MS,
    SwitchedFault,
    all_entries,
    all_frames,
    append_synced,
    full_disk,
    numbered,
    only_file,
    opened,
    segment_files,
    small_options,
)

from metastore.log import FRAME_BYTES_MAX, Frame, Log, LogDamaged, LogFailed, LogFull, LogOptions, LogTrimmed
from metastore.log.format import SEGMENT_HEADER_BYTES

MIB = 1 << 20


def test_an_empty_log_has_nothing_to_read(tmp_path: Path) -> None:
    with opened(tmp_path / "log", first_offset=17) as log:
        assert (log.first_offset, log.next_offset, log.durable_end) == (17, 17, 17)
        assert log.read(17) == []
        assert log.read(18) == []
        with pytest.raises(LogTrimmed) as caught:
            log.read(16)
        assert (caught.value.offset, caught.value.oldest) == (16, 17)


def test_the_first_offset_outlives_the_process_that_chose_it(tmp_path: Path) -> None:
    with opened(tmp_path / "log", first_offset=17) as log:
        append_synced(log, [b"a"])
    with opened(tmp_path / "log") as log:
        assert (log.first_offset, log.next_offset) == (17, 18)


def test_entries_are_read_only_once_they_are_durable(tmp_path: Path) -> None:
    with opened(tmp_path / "log") as log:
        assert log.append([b"a", b"b"], TIME_MS) == 0
        assert (log.next_offset, log.durable_end) == (2, 0)
        assert log.read(0) == []
        log.sync()
        assert log.durable_end == 2
        assert log.append([b"c"], TIME_MS + 1) == 2
        assert log.read(0) == [Frame(0, TIME_MS, [b"a", b"b"])]
        log.sync()
        assert log.read(0) == [Frame(0, TIME_MS, [b"a", b"b"]), Frame(2, TIME_MS + 1, [b"c"])]


def test_a_read_inside_a_frame_gets_the_rest_of_it(tmp_path: Path) -> None:
    with opened(tmp_path / "log") as log:
        append_synced(log, [b"a", b"b", b"c"], [b"d"])
        assert log.read(2) == [Frame(2, TIME_MS, [b"c"]), Frame(3, TIME_MS, [b"d"])]


def test_a_read_takes_whole_frames_up_to_its_size_and_at_least_one(tmp_path: Path) -> None:
    with opened(tmp_path / "log") as log:
        append_synced(log, *[[bytes(100)] for _ in range(4)])
        frame_bytes = 40 + 4 + 100 + 8
        limits = (1, frame_bytes, 2 * frame_bytes - 1, 2 * frame_bytes, 3 * frame_bytes - 1)
        assert [len(log.read(0, limit)) for limit in limits] == [1, 1, 1, 2, 2]
        assert len(log.read(1, 10 * frame_bytes)) == 3


@pytest.mark.parametrize("entries", [[b""], [b"", b"", b""], [b"\0" * 2000], [b"x" * n for n in range(17)]])
def test_any_bytes_are_an_entry(tmp_path: Path, entries: list[bytes]) -> None:
    with opened(tmp_path / "log") as log:
        append_synced(log, entries)
        assert all_entries(log) == entries
    with opened(tmp_path / "log") as log:
        assert all_entries(log) == entries


def test_what_is_no_frame_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return FRAME_BYTES_MAX

    with opened(tmp_path / "log") as log:
        with pytest.raises(ValueError, match="at least one entry"):
            log.append([], TIME_MS)
        with pytest.raises(ValueError, match="exceed"):
            log.append([Huge()], TIME_MS)
        with pytest.raises(ValueError, match="not a time"):
            log.append([b"a"], -1)
        append_synced(log, [b"a"])
        assert all_entries(log) == [b"a"]


def test_segments_follow_each_other_and_are_read_as_one_log(tmp_path: Path) -> None:
    entries = numbered(0, 60)
    with opened(tmp_path / "log", small_options()) as log:
        append_synced(log, *[[entry] for entry in entries])
        assert log.segment_count == len(segment_files(tmp_path / "log")) > 3
        assert log.size_bytes == sum(path.stat().st_size for path in segment_files(tmp_path / "log"))
        assert all_entries(log) == entries
    with opened(tmp_path / "log", small_options()) as log:
        assert all_entries(log) == entries
        append_synced(log, [b"more"])
        assert all_entries(log) == [*entries, b"more"]
        assert [log.read(offset)[0].entries[0] for offset in range(60)] == entries


def test_older_segments_keep_no_prepared_space(tmp_path: Path) -> None:
    with opened(tmp_path / "log", small_options(step_bytes=4096)) as log:
        append_synced(log, *[[entry] for entry in numbered(0, 40)])
        *older, _newest = segment_files(tmp_path / "log")
        assert all(path.stat().st_size <= 1024 for path in older)
        with older[0].open("ab") as file:
            file.write(bytes(5000))  # as if the process had died before it gave the space back
        first_size = older[0].stat().st_size
    with opened(tmp_path / "log", small_options()):
        assert older[0].stat().st_size == first_size - 5000


def test_a_frame_larger_than_a_segment_gets_one_of_its_own(tmp_path: Path) -> None:
    big = bytes(range(1, 256)) * 40
    with opened(tmp_path / "log", small_options()) as log:
        append_synced(log, [b"before"], [big, b"beside"], [b"after"])
        assert log.segment_count == 3
        assert all_entries(log) == [b"before", big, b"beside", b"after"]
    with opened(tmp_path / "log", small_options()) as log:
        assert all_entries(log, bytes_max=1) == [b"before", big, b"beside", b"after"]


def test_the_largest_entries_and_groups_work(tmp_path: Path) -> None:
    big = b"0123456789abcdef" * (130 * MIB // 16)
    many = numbered(0, 50_000)
    with opened(tmp_path / "log", LogOptions()) as log:
        append_synced(log, [big], many)
    with opened(tmp_path / "log", LogOptions()) as log:
        (frame,) = log.read(0, 1)
        assert frame.entries == [big]
        assert log.read(25_001)[0].entries == many[25_000:]


def test_an_idle_log_takes_little_space(tmp_path: Path) -> None:
    with opened(tmp_path / "log", LogOptions()) as log:
        assert log.size_bytes == only_file(tmp_path / "log").stat().st_size <= 2 * MIB


def test_prepared_steps_double_up_to_their_limit(tmp_path: Path) -> None:
    sizes = []
    with opened(tmp_path / "log") as log:
        for _ in range(200):
            log.append([bytes(100)], TIME_MS)
            sizes.append(log.size_bytes)
    steps = [b - a for a, b in pairwise(sizes) if b > a]
    assert steps[:2] == [1024, 2048]
    assert set(steps[2:]) == {2048}
    assert ONE_SEGMENT.step_bytes_max == 2048


def test_sync_without_news_touches_nothing(tmp_path: Path) -> None:
    faults = SwitchedFault()
    with opened(tmp_path / "log", faults=faults) as log:
        append_synced(log, [b"a"])
        before = faults.reached.count("log.sync.after")
        log.sync()
        assert faults.reached.count("log.sync.after") == before == 1


def test_a_log_that_need_not_sync_does_not_but_still_hides_what_was_not_committed(tmp_path: Path) -> None:
    faults = SwitchedFault()
    with opened(tmp_path / "log", small_options(1 << 20, sync=False), faults) as log:
        log.append([b"a"], TIME_MS)
        assert log.read(0) == []
        log.sync()
        assert all_entries(log) == [b"a"]
        assert "log.sync.after" not in faults.reached


def test_a_closed_log_takes_nothing_and_closing_twice_is_harmless(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "log")
    append_synced(log, [b"a"])
    log.close()
    log.close()
    for change in (lambda: log.append([b"b"], TIME_MS), log.sync, lambda: log.trim(1, 1)):
        with pytest.raises(LogFailed, match="the log is closed"):
            change()


def test_a_damaged_older_frame_is_found_by_the_read_that_meets_it(tmp_path: Path) -> None:
    with opened(tmp_path / "log", small_options()) as log:
        append_synced(log, *[[entry] for entry in numbered(0, 40)])
    path = segment_files(tmp_path / "log")[0]
    data = bytearray(path.read_bytes())
    second_frame = SEGMENT_HEADER_BYTES + 40 + 24 + 8
    data[second_frame + 50] ^= 1
    path.write_bytes(data)
    with opened(tmp_path / "log", small_options()) as log:
        assert log.read(0, 1)[0].entries == numbered(0, 1)
        with pytest.raises(LogDamaged, match="fails its checksum") as caught:
            log.read(0)
        assert (caught.value.path, caught.value.position) == (path, second_frame)
        assert log.read(log.durable_end - 1)


def test_a_file_that_vanishes_is_damage_and_no_trim(tmp_path: Path) -> None:
    with opened(tmp_path / "log", small_options()) as log:
        append_synced(log, *[[entry] for entry in numbered(0, 40)])
        segment_files(tmp_path / "log")[1].unlink()
        with pytest.raises(LogDamaged, match="the file is missing"):
            all_frames(log)


@pytest.mark.parametrize(
    "wrong",
    [
        {"segment_bytes_max": 0},
        {"reserve_bytes": -1},
        {"step_bytes_min": 0},
        {"step_bytes_min": 8, "step_bytes_max": 4},
    ],
)
def test_impossible_options_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must"):
        LogOptions(**wrong)  # type: ignore[arg-type]


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogFailed, match="cannot be opened"):
        Log.open(tmp_path / "missing" / "log")
    with pytest.raises(LogFull, match="cannot be opened"):
        Log.open(tmp_path / "log", faults=full_disk())
