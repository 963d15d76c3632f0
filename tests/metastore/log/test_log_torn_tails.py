"""The end of the newest segment, as crashes and bad disks leave it: cut, or refused; never guessed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_helpers import ONE_SEGMENT, TIME_MS, all_entries, append_synced, numbered, only_file, opened

from metastore.log import Log, LogDamaged
from metastore.log.format import FRAME_OVERHEAD_BYTES, SECTOR_BYTES, SEGMENT_HEADER_BYTES
from metastore.log.recovery import PIECE_BYTES
from metastore.log.window import write_exactly

KEPT = numbered(0, 3)
LOST = [b"L" * 30, b"o" * 400, b"st" * 50]


def frame_bytes(entries: list[bytes]) -> int:
    used = sum(4 + len(entry) for entry in entries)
    return FRAME_OVERHEAD_BYTES + used + -used % 8


def make_log(directory: Path, kept: list[bytes], lost: list[bytes], synced: bool = True) -> tuple[Path, int]:
    """A log with a synced frame of `kept` and a last frame of `lost`: its file, and where the last begins."""
    with opened(directory) as log:
        append_synced(log, kept)
        log.append(lost, TIME_MS)
        if synced:
            log.sync()
    return only_file(directory), SEGMENT_HEADER_BYTES + frame_bytes(kept)


def check_cut(path: Path, kept: list[bytes], start: int) -> None:
    """The log opens with `kept` alone, all behind is blank on the disk, and appending goes on from there."""
    with opened(path.parent) as log:
        assert all_entries(log) == kept
        assert log.next_offset == len(kept)
        assert not any(path.read_bytes()[start:])
        append_synced(log, [b"next"])
    with opened(path.parent) as log:
        assert all_entries(log) == [*kept, b"next"]


def check_refused(path: Path, position: int | None = None) -> None:
    """The log does not open, says where, and changes nothing."""
    before = path.read_bytes()
    with pytest.raises(LogDamaged) as caught:
        Log.open(path.parent, ONE_SEGMENT)
    assert caught.value.path == path
    if position is not None:
        assert caught.value.position == position
    assert path.read_bytes() == before


def test_a_tail_blank_from_any_byte_on_is_cut(tmp_path: Path) -> None:
    path, start = make_log(tmp_path / "log", KEPT, LOST)
    whole = path.read_bytes()
    for cut in range(start, start + frame_bytes(LOST)):
        path.write_bytes(whole[:cut] + bytes(len(whole) - cut))
        check_cut(path, KEPT, start)


def test_a_file_that_ends_at_any_byte_of_its_last_frame_is_cut(tmp_path: Path) -> None:
    path, start = make_log(tmp_path / "log", KEPT, LOST)
    whole = path.read_bytes()
    for cut in range(start, start + frame_bytes(LOST), 3):
        path.write_bytes(whole[:cut])
        check_cut(path, KEPT, start)


def sector_pieces(start: int, end: int) -> list[tuple[int, int]]:
    """The parts of a frame that a disk writes or does not write, each at once."""
    bounds = [start, *range(start - start % SECTOR_BYTES + SECTOR_BYTES, end, SECTOR_BYTES), end]
    return list(pairwise(bounds))


@pytest.mark.parametrize("distance", range(8, SECTOR_BYTES + 1, 24))
def test_a_tail_without_some_of_its_sectors_is_cut(tmp_path: Path, distance: int) -> None:
    """The last frame begins at any distance from a sector's end, so that its header is also cut in two."""
    kept = [b"k" * (SECTOR_BYTES - SEGMENT_HEADER_BYTES - FRAME_OVERHEAD_BYTES - 4 + SECTOR_BYTES - distance)]
    path, start = make_log(tmp_path / "log", kept, [b"L" * 1200])
    assert SECTOR_BYTES - start % SECTOR_BYTES == distance
    whole = path.read_bytes()
    pieces = sector_pieces(start, start + frame_bytes([b"L" * 1200]))
    for count in range(1, len(pieces) + 1):
        for missing in combinations(pieces, count):
            data = bytearray(whole)
            for begin, end in missing:
                data[begin:end] = bytes(end - begin)
            path.write_bytes(data)
            check_cut(path, kept, start)


def single_bit_flips(data: bytes, start: int, end: int) -> Iterator[bytes]:
    for position in range(start, end):
        for bit in range(8):
            yield data[:position] + bytes([data[position] ^ 1 << bit]) + data[position + 1 :]


def test_every_flipped_bit_in_what_was_durable_is_refused(tmp_path: Path) -> None:
    path, start = make_log(tmp_path / "log", numbered(0, 1), [b"\0" * 30, b"x"])
    whole = path.read_bytes()
    for flipped in single_bit_flips(whole, 0, start + frame_bytes([b"\0" * 30, b"x"])):
        path.write_bytes(flipped)
        check_refused(path)
    path.write_bytes(whole)
    with opened(path.parent) as log:
        assert all_entries(log) == [*numbered(0, 1), b"\0" * 30, b"x"]


@pytest.mark.parametrize("distance", [8, 16, 24, 32, 40])
def test_a_flipped_bit_in_a_header_across_two_sectors_is_refused(tmp_path: Path, distance: int) -> None:
    kept = [b"k" * (SECTOR_BYTES - SEGMENT_HEADER_BYTES - FRAME_OVERHEAD_BYTES - 4 - distance)]
    path, start = make_log(tmp_path / "log", kept, [b"L" * 8])
    assert SECTOR_BYTES - start % SECTOR_BYTES == distance
    for flipped in single_bit_flips(path.read_bytes(), start, start + 40):
        path.write_bytes(flipped)
        check_refused(path, start)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), zeros=st.lists(st.integers(0, 3000), min_size=1, max_size=4))
def test_a_flipped_bit_among_natural_zeros_is_no_torn_tail(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, zeros: list[int]
) -> None:
    """Blank sectors that were written blank prove nothing: the frame's header counts them."""
    lost = [bytes(count) + b"|" for count in zeros]
    path, start = make_log(tmp_path_factory.mktemp("zeros") / "log", KEPT, lost)
    end = start + frame_bytes(lost)
    bit = data.draw(st.integers(start * 8, end * 8 - 1))
    changed = bytearray(path.read_bytes())
    changed[bit // 8] ^= 1 << bit % 8
    path.write_bytes(changed)
    check_refused(path, start)


def test_a_missing_sector_among_natural_zeros_is_seen(tmp_path: Path) -> None:
    lost = [bytes(1400) + b"x" * 600 + bytes(1400)]
    path, start = make_log(tmp_path / "log", KEPT, lost)
    whole = path.read_bytes()
    for begin, end in sector_pieces(start, start + frame_bytes(lost)):
        path.write_bytes(whole[:begin] + bytes(end - begin) + whole[end:])
        if any(whole[begin:end]):
            check_cut(path, KEPT, start)
        else:
            with opened(path.parent) as log:
                assert all_entries(log) == KEPT + lost


@pytest.mark.parametrize("distance", [0, 1, 39, 40, 41, 300, 511])
def test_a_bit_in_the_blank_space_costs_nothing(tmp_path: Path, distance: int) -> None:
    path, start = make_log(tmp_path / "log", KEPT, LOST)
    end = start + frame_bytes(LOST)
    data = bytearray(path.read_bytes())
    data[end + distance] ^= 4
    path.write_bytes(data)
    check_cut(path, KEPT + LOST, end)


def blank(path: Path, start: int, end: int) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:start] + bytes(end - start) + data[end:])


@pytest.mark.parametrize("kept_part", [0, 40, 200])
def test_a_torn_frame_before_a_later_sync_is_damage(tmp_path: Path, kept_part: int) -> None:
    """The frame behind it was written after a sync: so this one had been durable."""
    path, start = make_log(tmp_path / "log", KEPT, LOST, synced=True)
    with opened(path.parent) as log:
        append_synced(log, [b"later"])
    blank(path, start + kept_part, start + frame_bytes(LOST))
    check_refused(path, start)


@pytest.mark.parametrize("kept_part", [0, 40, 200])
def test_a_torn_frame_before_others_of_the_same_sync_is_cut_with_them(tmp_path: Path, kept_part: int) -> None:
    """A disk may write the frames of one sync in any order: the one behind proves nothing."""
    with opened(tmp_path / "log") as log:
        append_synced(log, KEPT)
        log.append(LOST, TIME_MS)
        log.append([b"later"], TIME_MS)
        log.append([b"last"], TIME_MS)
    path, start = only_file(tmp_path / "log"), SEGMENT_HEADER_BYTES + frame_bytes(KEPT)
    blank(path, start + kept_part, start + frame_bytes(LOST))
    check_cut(path, KEPT, start)


@pytest.mark.parametrize("inside", range(-8, 48, 8))
def test_what_proves_a_frame_durable_is_found_wherever_it_stands(tmp_path: Path, inside: int) -> None:
    """The search reads piece by piece; a header may stand across the border of two."""
    large = [b"L" * (PIECE_BYTES - inside - FRAME_OVERHEAD_BYTES - 4)]
    path, start = make_log(tmp_path / "log", KEPT, large)
    with opened(path.parent) as log:
        append_synced(log, [b"later"])
    blank(path, start + 200, start + 5000)
    check_refused(path, start)


def test_a_torn_frame_that_the_caller_knows_to_be_durable_is_damage(tmp_path: Path) -> None:
    path, start = make_log(tmp_path / "log", KEPT, LOST)
    blank(path, start + 200, start + frame_bytes(LOST))
    before = path.read_bytes()
    with pytest.raises(LogDamaged, match="entries below 6 were durable"):
        Log.open(path.parent, ONE_SEGMENT, durable_floor=6)
    assert path.read_bytes() == before
    with opened(path.parent, durable_floor=3) as log:
        assert all_entries(log) == KEPT


def test_no_entry_can_pass_for_a_frame(tmp_path: Path) -> None:
    """An entry holds, well aligned, what in another log would prove that everything before it was durable."""
    source, _ = make_log(tmp_path / "source", KEPT, LOST)
    with opened(source.parent) as log:
        append_synced(log, [b"later"])
    forged = source.read_bytes()[SEGMENT_HEADER_BYTES:1200]
    path, start = make_log(tmp_path / "log", KEPT, [b"1234" + forged])
    whole = path.read_bytes()
    assert whole.index(forged) % 8 == 0
    for cut in range(40, 1200, 8):
        path.write_bytes(whole[: start + cut] + bytes(len(whole) - start - cut))
        check_cut(path, KEPT, start)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
def test_blanking_a_torn_tail_may_itself_be_cut_off(tmp_path: Path, order: tuple[int, ...]) -> None:
    """Whatever the order in which the zeros reach the disk, the next opening sees a torn tail again."""
    lost = [b"L" * 1400]
    path, start = make_log(tmp_path / "log", KEPT, lost)
    pieces = sector_pieces(start, start + frame_bytes(lost))
    blank(path, *pieces[-1])
    for number in order:
        blank(path, *pieces[number])
        torn = path.read_bytes()
        check_cut(path, KEPT, start)
        path.write_bytes(torn)


def test_frames_of_an_unfinished_sync_are_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failed sync left in the kernel's memory only is brought to the disk before it is trusted."""
    synced, unsynced = [b"s" * 100_000], [[b"u" * 100_000], [b"n" * 90_000], [b"s" * 30]]
    with opened(tmp_path / "log") as log:
        append_synced(log, synced)
        for entries in unsynced:
            log.append(entries, TIME_MS)
    start = SEGMENT_HEADER_BYTES + frame_bytes(synced)
    end = start + sum(frame_bytes(entries) for entries in unsynced)
    written: list[tuple[int, int]] = []

    def recorded(fd: int, data: bytes, position: int) -> None:
        written.append((position, position + len(data)))
        write_exactly(fd, data, position)

    monkeypatch.setattr("metastore.log.recovery.write_exactly", recorded)
    with opened(tmp_path / "log") as log:
        assert all_entries(log) == [*synced, *(entry for entries in unsynced for entry in entries)]
    assert written == [(start, end)]
