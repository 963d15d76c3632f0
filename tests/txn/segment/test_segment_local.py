"""Logs in files: full disks, failed syncs, damage, and what a directory may hold."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from segment_subjects import OTHER, SEGMENT, SMALL_FILES, entries, placed, read_all

from metastore.faults import NO_FAULTS, ArmedFault, Faults
from txn.model.errors import RecordDamaged
from txn.model.position import Position
from txn.segment.errors import EntriesTrimmed, LogInUse, LogStopped, SegmentFull
from txn.segment.log import START, LedgerLength, LocalLogOptions, LocalLogs
from txn.segment.log.directory import ENTRIES, REMOVED, STATE, directory_name
from txn.segment.log.offsets import offset_of, position_of
from txn.segment.log.state import LogState

OPTIONS = LocalLogOptions(SMALL_FILES, recent_bytes_max=0)


def logs_at(root: Path, faults: Faults = NO_FAULTS) -> LocalLogs:
    return LocalLogs(root, options=OPTIONS, faults=faults)


def test_a_full_disk_refuses_appends_and_changes_nothing(tmp_path: Path) -> None:
    space = tmp_path / "space"

    async def scenario() -> None:
        fault = ArmedFault("log.extend", 6, "nospace", until=space)
        async with await logs_at(tmp_path / "segments", fault).open(SEGMENT, 1) as log:
            confirmed = entries(1)
            await log.append(confirmed)
            full = None
            while full is None:
                try:
                    await log.append([b"%0100d" % len(confirmed)])
                except SegmentFull as error:
                    full = error
                else:
                    confirmed.append(b"%0100d" % len(confirmed))
            assert "Nothing was changed" in str(full)
            assert len(confirmed) > 3
            assert log.next_position == Position(1, len(confirmed))
            for append in [log.append([b"x" * 400]), log.append([b""] * 3)]:  # they share a write
                with pytest.raises(SegmentFull):
                    await append
            assert log.next_position == Position(1, len(confirmed))
            assert await read_all(log) == placed(1, confirmed)
            await log.trim(log.next_position)
            first = log.lengths.oldest
            assert first > Position(1, 1)
            space.touch()
            await log.append([b"there is space again"])
            assert await read_all(log) == placed(1, [*confirmed, b"there is space again"])[first.entry :]

    asyncio.run(scenario())


@pytest.mark.parametrize("point", ["segment.state.before", "segment.state.after"])
def test_a_state_that_cannot_be_written_fails_what_depends_on_it(tmp_path: Path, point: str) -> None:
    async def scenario() -> None:
        async with await logs_at(tmp_path).open(SEGMENT, 1) as log:
            await log.append(entries(2))
        with pytest.raises(SegmentFull, match="opening"):
            await logs_at(tmp_path, ArmedFault(point, 1, "nospace")).open(SEGMENT, 2)
        async with await logs_at(tmp_path, ArmedFault(point, 2, "nospace", tmp_path / "space")).open(SEGMENT, 3) as log:
            with pytest.raises(SegmentFull, match="sealing"):
                await log.seal()
            assert not log.is_sealed
            (tmp_path / "space").touch()
            await log.seal()
            assert await read_all(log) == placed(1, entries(2))

    asyncio.run(scenario())


def test_a_failed_sync_confirms_nothing_and_stops_the_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await logs_at(tmp_path, ArmedFault("log.sync.after", 3, "ioerror")).open(SEGMENT, 1) as log:
            await log.append([b"one"])
            await log.append([b"two"])
            doubtful, behind = log.append([b"three"]), log.append([b"four"])
            for append in (doubtful, behind):
                with pytest.raises(LogStopped, match="in doubt what the disk holds"):
                    await append
            assert log.last_confirmed == Position(1, 1)
            with pytest.raises(LogStopped, match="in doubt"):
                log.append([b"more"])
            with pytest.raises(LogStopped, match="in doubt"):
                await log.seal()
        async with await logs_at(tmp_path).open(SEGMENT, 2) as log:
            found = [each.data for each in await read_all(log)]
            assert found in [[b"one", b"two"], [b"one", b"two", b"three", b"four"]]
            await log.append([b"goes on"])

    asyncio.run(scenario())


def test_a_cancelled_opening_leaves_the_log_to_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        logs = logs_at(tmp_path)
        opening = asyncio.ensure_future(logs.open(SEGMENT, 1))
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        for term in range(2, 10_000):
            try:
                await (await logs.open(SEGMENT, term)).close()
            except LogInUse:
                continue
            return
        raise AssertionError("nobody ever gets the log")

    asyncio.run(scenario())


def test_damaged_files_are_told_and_never_repaired(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await logs_at(tmp_path).open(SEGMENT, 1) as log:
            for number in range(8):
                await log.append([b"%d" % number * 100])
        directory = tmp_path / directory_name(SEGMENT)
        oldest = min((directory / ENTRIES).iterdir())
        content = oldest.read_bytes()
        oldest.write_bytes(content.replace(b"0" * 100, b"0" * 99 + b"?"))
        async with await logs_at(tmp_path).open(SEGMENT, 2) as log:
            with pytest.raises(RecordDamaged, match="checksum"):
                await log.read(Position(1, 0), 1, 1)
        oldest.unlink()
        async with await logs_at(tmp_path).open(SEGMENT, 3) as log:
            assert log.first is not None
            with pytest.raises(EntriesTrimmed):  # the oldest file may also have been trimmed
                await log.read(Position(1, 0), 1, 1)
        newest = max((directory / ENTRIES).iterdir())
        newest.unlink()
        with pytest.raises(RecordDamaged):
            await logs_at(tmp_path).open(SEGMENT, 4)

    asyncio.run(scenario())


def test_a_directory_must_be_the_segments_own_and_whole(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with await logs_at(tmp_path).open(SEGMENT, 1) as log:
            await log.append(entries(2))
        directory = tmp_path / directory_name(SEGMENT)
        directory.rename(tmp_path / directory_name(OTHER))
        with pytest.raises(RecordDamaged, match="not of"):
            await logs_at(tmp_path).open(OTHER, 2)
        (tmp_path / directory_name(OTHER)).rename(directory)
        (directory / STATE).unlink()
        with pytest.raises(RecordDamaged, match=STATE):
            await logs_at(tmp_path).open(SEGMENT, 2)

    asyncio.run(scenario())


def test_a_removal_that_was_cut_off_is_finished(tmp_path: Path) -> None:
    async def scenario() -> None:
        for _ in range(2):
            async with await logs_at(tmp_path).open(SEGMENT, 1) as log:
                await log.append(entries(2))
            directory = tmp_path / directory_name(SEGMENT)
            directory.rename(directory.with_name(directory.name + REMOVED))
        async with await logs_at(tmp_path).open(OTHER, 1):
            assert [path.name for path in tmp_path.iterdir()] == [directory_name(OTHER)]

    asyncio.run(scenario())


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), max_size=6), st.integers(0, 20))
def test_offsets_and_positions_are_each_others_inverse(steps: list[tuple[int, int]], trimmed: int) -> None:
    ledgers, number = [], 0
    for step, length in steps:
        number += step
        ledgers.append(LedgerLength(number, length))
    origin = trimmed + sum(length for _, length in ledgers)
    state = LogState(SEGMENT, number + 1, "", tuple(ledgers), origin=origin)
    positions = [Position(ledger, entry) for ledger, length in ledgers for entry in range(length)]
    positions += [Position(number + 1, entry) for entry in range(3)]
    for offset, position in enumerate(positions, trimmed):
        assert offset_of(state, position) == offset
        assert position_of(state, offset) == (position if offset else START)
