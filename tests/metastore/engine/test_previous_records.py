"""Previous records in the log: kept from an offset on, what the file says of it, and that it never lies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.clock import ManualClock
from metastore.engine.change import Kind, decode
from metastore.engine.errors import EngineError, StoreDamaged, StoreFull
from metastore.engine.operations import PutOptions, WriteBatch
from metastore.engine.previous import FILE_NAME, REFRESHES_PER_RETENTION
from metastore.engine.record import value_of
from metastore.engine.shard import Shard, ShardOptions
from metastore.faults import ENVIRONMENT_VARIABLE, ArmedFault

RETENTION_MS = 80_000
INTERVAL_MS = RETENTION_MS // REFRESHES_PER_RETENTION
OPTIONS = ShardOptions(retention_ms=RETENTION_MS)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shard"


@pytest.fixture
def shard(folder: Path, clock: ManualClock) -> Iterator[Shard]:
    with Shard.open(folder, OPTIONS, clock) as shard:
        yield shard


def write(shard: Shard, value: bytes) -> None:
    shard.write(WriteBatch(puts=[(b"a", value, None)]))


def since(shard: Shard) -> int | None:
    """From which offset on previous records are kept."""
    return shard.previous_since


def told_before(shard: Shard) -> list[list[bytes]]:
    """The values that each log entry tells of what records were before."""
    frames = shard.read_log(0, 1 << 20) if shard.next_offset else []
    return [
        [value_of(value) for kind, _, value in decode(payload).changes if kind == Kind.RECORD_BEFORE]
        for frame in frames
        for payload in frame.entries
    ]


def tend(shard: Shard, is_wanted: bool) -> None:
    shard.rounds.between_rounds(lambda: shard.tend_previous(is_wanted))


def test_they_are_kept_from_when_somebody_asks(shard: Shard) -> None:
    write(shard, b"1")
    write(shard, b"2")
    assert since(shard) is None
    assert shard.rounds.between_rounds(shard.keep_previous) == 2
    write(shard, b"3")
    shard.write(WriteBatch(puts=[(b"b", b"1", PutOptions(secondary_indexes=((b"i", b"1"),)))]))
    shard.write(WriteBatch(puts=[(b"b", b"2", PutOptions())], deletes=[(b"a", None), (b"c", None)]))
    shard.write(WriteBatch(delete_ranges=[(b"", b"z")]))
    assert told_before(shard) == [[], [], [b"2"], [], [b"1", b"3"], [b"2"]]
    assert shard.rounds.between_rounds(shard.keep_previous) == 2


def test_replay_passes_over_them(folder: Path, shard: Shard, clock: ManualClock) -> None:
    shard.keep_previous()
    write(shard, b"1")
    write(shard, b"2")
    shard.abandon()
    with Shard.open(folder, OPTIONS, clock) as again:
        assert since(again) == 0
        write(again, b"3")
        assert told_before(again) == [[], [b"1"], [b"2"]]


def test_they_end_some_time_after_they_were_wanted(folder: Path, shard: Shard, clock: ManualClock) -> None:
    shard.keep_previous()
    for _ in range(3 * REFRESHES_PER_RETENTION):
        clock.advance_ms(INTERVAL_MS)
        tend(shard, is_wanted=True)
    clock.advance_ms(RETENTION_MS + INTERVAL_MS)
    tend(shard, is_wanted=False)
    assert since(shard) == 0
    clock.advance_ms(1)
    tend(shard, is_wanted=False)
    assert since(shard) is None
    assert not (folder / FILE_NAME).exists()
    write(shard, b"1")
    write(shard, b"2")
    assert told_before(shard) == [[], []]
    assert shard.keep_previous() == 2


def test_a_restart_neither_forgets_nor_prolongs_the_wish(folder: Path, shard: Shard, clock: ManualClock) -> None:
    shard.keep_previous()
    clock.advance_ms(RETENTION_MS)
    tend(shard, is_wanted=True)
    shard.close()
    clock.advance_ms(RETENTION_MS)
    with Shard.open(folder, OPTIONS, clock) as again:
        tend(again, is_wanted=False)
        assert since(again) == 0
        clock.advance_ms(INTERVAL_MS + 1)
    with Shard.open(folder, OPTIONS, clock) as again:
        tend(again, is_wanted=False)
        assert since(again) is None


def test_a_clock_that_was_set_back_ends_nothing(folder: Path, shard: Shard) -> None:
    shard.keep_previous()
    shard.close()
    earlier = ManualClock(wall_ms=1_000_000_000_000)
    with Shard.open(folder, OPTIONS, earlier) as again:
        tend(again, is_wanted=False)
        earlier.advance_ms(RETENTION_MS)
        tend(again, is_wanted=False)
        assert since(again) == 0
        earlier.advance_ms(RETENTION_MS)
        tend(again, is_wanted=False)
        assert since(again) is None


def test_tending_what_is_off_does_nothing(folder: Path, shard: Shard) -> None:
    tend(shard, is_wanted=True)
    assert not (folder / FILE_NAME).exists()


def test_one_request_keeps_so_much_and_no_more(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    shard.write(WriteBatch(puts=[(b"%d" % number, b"x" * 100, None) for number in range(5)]))
    shard.keep_previous()
    monkeypatch.setattr("metastore.engine.limits.PREVIOUS_BYTES_MAX", 400)
    shard.write(WriteBatch(delete_ranges=[(b"0", b"4")]))
    shard.write(WriteBatch(deletes=[(b"4", None)]))
    assert [len(values) for values in told_before(shard)] == [0, 2, 1]


def test_each_request_of_a_round_keeps_so_much(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [b"%d" % number for number in range(4)]
    shard.write(WriteBatch(puts=[(key, b"x" * 100, None) for key in keys]))
    shard.keep_previous()
    monkeypatch.setattr("metastore.engine.limits.PREVIOUS_BYTES_MAX", 200)

    def delete_one_by_one() -> None:
        for key in keys:
            shard.submit_write(WriteBatch(deletes=[(key, None)]), lambda *_: None)

    shard.rounds.between_rounds(delete_one_by_one)
    assert [len(values) for values in told_before(shard)] == [0, 1, 1, 1, 1]


@pytest.mark.parametrize("damage", [b"", b"x", b"\0" * 21, b"\0" * 22])
def test_a_damaged_file_is_refused(folder: Path, shard: Shard, damage: bytes) -> None:
    shard.keep_previous()
    shard.close()
    path = folder / FILE_NAME
    path.write_bytes(damage)
    with pytest.raises(StoreDamaged, match=FILE_NAME):
        Shard.open(folder, OPTIONS)


def test_a_file_of_a_newer_format_is_refused(folder: Path, shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metastore.engine.previous.FORMAT", 2)
    shard.keep_previous()
    shard.close()
    monkeypatch.undo()
    with pytest.raises(StoreDamaged, match="format 2; this version reads format 1"):
        Shard.open(folder, OPTIONS)


# -- at every instant


def test_a_full_disk_refuses_to_begin_and_nothing_else(folder: Path, clock: ManualClock) -> None:
    with Shard.open(folder, OPTIONS, clock, ArmedFault("previous.sync.before", 1, "nospace")) as shard:
        with pytest.raises(StoreFull, match="previous records cannot be kept"):
            shard.rounds.between_rounds(shard.keep_previous)
        assert since(shard) is None
        write(shard, b"1")
        write(shard, b"2")
        assert told_before(shard) == [[], []]


@pytest.mark.parametrize("point", ["previous.sync.before", "previous.rename.before", "previous.rename.after"])
def test_a_failure_on_the_way_leaves_file_and_log_in_agreement(folder: Path, clock: ManualClock, point: str) -> None:
    with Shard.open(folder, OPTIONS, clock, ArmedFault(point, 1, "ioerror")) as shard:
        write(shard, b"1")
        with pytest.raises(EngineError, match="previous records cannot be kept"):
            shard.keep_previous()
        write(shard, b"2")
        write(shard, b"3")
        is_kept = (folder / FILE_NAME).exists()
        assert (since(shard) == 1) == is_kept
        assert told_before(shard) == ([[], [b"1"], [b"2"]] if is_kept else [[], [], []])
        assert shard.keep_previous() == (1 if is_kept else 3)


KILLED = """
import sys
from pathlib import Path
from metastore.clock import ManualClock
from metastore.engine.operations import WriteBatch
from metastore.engine.shard import Shard, ShardOptions
from metastore.faults import faults_from_environment
import os

clock = ManualClock()
options = ShardOptions(retention_ms=80_000)
shard = Shard.open(Path(sys.argv[1]), options, clock, faults_from_environment(os.environ))
for number in range(6):
    shard.write(WriteBatch(puts=[(b"a", b"%d" % number, None)]))
    if number in (1, 4):
        shard.rounds.between_rounds(shard.keep_previous)
    if number in (2, 3):
        clock.advance_ms(100_000)
        shard.rounds.between_rounds(lambda: shard.tend_previous(number == 2))
"""
"""Begins, refreshes, ends, and begins again, with a write behind each."""


@pytest.mark.parametrize("point", ["previous.sync.before", "previous.rename.before", "previous.rename.after"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_the_file_claims_is_true_after_a_kill(folder: Path, point: str, count: int) -> None:
    check_after_kill(folder, f"{point}:{count}:kill")


def test_what_the_file_claims_is_true_after_a_kill_at_its_end(folder: Path) -> None:
    check_after_kill(folder, "previous.unlink.after:1:kill")


def check_after_kill(folder: Path, fault: str) -> None:
    environment = {**os.environ, ENVIRONMENT_VARIABLE: fault}
    run = subprocess.run([sys.executable, "-c", KILLED, str(folder)], env=environment, timeout=60, check=False)
    assert run.returncode == -9, "the point was not reached"
    with Shard.open(folder, OPTIONS, ManualClock()) as shard:
        claimed = since(shard)
        write(shard, b"after")
        told = told_before(shard)
        if claimed is not None:
            assert claimed > 0
            assert all(len(values) == 1 for values in told[claimed:])
        assert shard.keep_previous() == (len(told) if claimed is None else claimed)
