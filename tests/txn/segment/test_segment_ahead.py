"""What was read ahead of a log: the same bytes, within its bounds, and not read a second time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from segment_subjects import SEGMENT, entries, placed, read_all

from txn.model.position import Position
from txn.segment.log import LocalLogOptions, LocalLogs, LocalSegmentLog
from txn.segment.log.ahead import RUNS_MAX, ReadAhead
from txn.segment.log.waiting import weight

LOGS = ("one", "other")
CONTENTS = {log: [b"%s-%d" % (log.encode(), number) for number in range(40)] for log in LOGS}
PLACES = st.tuples(st.sampled_from(LOGS), st.integers(1, 2), st.integers(0, 39), st.integers(1, 20))
STEPS = st.lists(st.tuples(st.sampled_from(["keep", "read", "read", "forget"]), PLACES), max_size=60)


@given(STEPS, st.integers(0, 2_000))
def test_what_is_there_is_what_the_log_says_from_there_on(
    steps: list[tuple[str, tuple[str, int, int, int]]], bytes_max: int
) -> None:
    ahead = ReadAhead(bytes_max)
    known: set[tuple[str, int, int]] = set()
    for what, (log, ledger, entry, count) in steps:
        if what == "keep":
            ahead.keep(log, Position(ledger, entry), CONTENTS[log][entry : entry + count])
            known |= {(log, ledger, each) for each in range(entry, entry + count)}
        elif what == "forget":
            ahead.forget(log)
            known = {each for each in known if each[0] != log}
        else:
            found = ahead.read(log, Position(ledger, entry), count)
            assert list(found) == CONTENTS[log][entry : entry + len(found)]
            assert len(found) <= count
            assert not found or (log, ledger, entry) in known


def test_what_was_not_used_for_longest_goes_first() -> None:
    size = weight(CONTENTS["one"][:10])
    ahead = ReadAhead(2 * size)
    for ledger in (1, 2):
        ahead.keep("one", Position(ledger, 0), CONTENTS["one"][:10])
    assert ahead.read("one", Position(1, 0), 1)
    ahead.keep("one", Position(3, 0), CONTENTS["one"][:10])
    assert [bool(ahead.read("one", Position(ledger, 0), 1)) for ledger in (1, 2, 3)] == [True, False, True]


def test_places_are_bounded_however_small() -> None:
    ahead = ReadAhead()
    for ledger in range(RUNS_MAX + 1):
        ahead.keep("one", Position(ledger, 0), [b"", b""])
    there = [bool(ahead.read("one", Position(ledger, 0), 1)) for ledger in range(RUNS_MAX + 1)]
    assert there == [False] + [True] * RUNS_MAX


def test_what_was_written_together_is_read_once_by_whoever_reads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Position] = []
    read_stored = LocalSegmentLog._read_stored

    async def counted(log: LocalSegmentLog, at: Position, entries_max: int, bytes_max: int) -> Sequence[bytes]:
        reads.append(at)
        return await read_stored(log, at, entries_max, bytes_max)

    monkeypatch.setattr(LocalSegmentLog, "_read_stored", counted)

    async def scenario() -> None:
        logs = LocalLogs(tmp_path, options=LocalLogOptions(recent_bytes_max=0))
        for term in (1, 2):
            async with await logs.open(SEGMENT, term) as log:
                await log.append(entries(100))
                assert await read_all(log, Position(term, 0)) == placed(term, entries(100))
                await log.read(Position(term, 0), 1, 1)
        await logs.close()

    asyncio.run(scenario())
    # Once from its beginning; once more when it had been read to its end, and then the log was closed.
    assert reads == [Position(1, 0), Position(1, 0), Position(2, 0), Position(2, 0)]
