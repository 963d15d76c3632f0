"""Readers beside an appender: they see whole frames, in order, durable ones only."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from log_helpers import all_entries, opened, small_options

from metastore.log import Log, LogTrimmed

ENTRIES = 1200


def entry_at(offset: int) -> bytes:
    return f"{offset}|".encode() * (1 + offset % 7)


def append_groups(log: Log, trimming: bool) -> None:
    while log.next_offset < ENTRIES:
        first = log.next_offset
        log.append([entry_at(offset) for offset in range(first, first + 1 + first % 5)], first)
        if first % 3:
            log.sync()
        if trimming and first % 50 == 0:
            log.trim(log.next_offset - 100, first)
    log.sync()


def follow(log: Log, done: threading.Event) -> int:
    """Reads from the beginning to the end, as the log grows and shrinks; returns how many entries it saw."""
    offset = seen = 0
    while not (done.is_set() and offset == log.durable_end):
        previous = offset
        try:
            frames = log.read(offset, 300)
        except LogTrimmed as trimmed:
            frames, offset = [], trimmed.oldest
        assert offset >= previous
        for frame in frames:
            assert frame.first_offset == offset
            assert frame.entries == [entry_at(number) for number in range(offset, frame.end_offset)]
            offset = frame.end_offset
            seen += len(frame.entries)
        assert offset <= log.durable_end
    return seen


def run_readers(log: Log, readers: int, trimming: bool) -> list[int]:
    done = threading.Event()
    with ThreadPoolExecutor(readers) as pool:
        running = [pool.submit(follow, log, done) for _ in range(readers)]
        try:
            append_groups(log, trimming)
        finally:
            done.set()
        return [reader.result() for reader in running]


def test_readers_beside_an_appender_miss_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "log", small_options(4096)) as log:
        assert run_readers(log, 2, trimming=False) == [log.next_offset] * 2
        assert log.segment_count > 5


def test_readers_beside_a_trimming_appender_are_never_misled(tmp_path: Path) -> None:
    with opened(tmp_path / "log", small_options(4096)) as log:
        assert all(seen > 0 for seen in run_readers(log, 2, trimming=True))
        assert log.first_offset > 0


def test_readers_of_unindexed_segments_help_each_other(tmp_path: Path) -> None:
    """After an opening, many threads search the same old segment at once, each for another offset."""
    options = small_options(1 << 20)
    with opened(tmp_path / "log", options) as log:
        for first in range(0, 8000, 10):
            log.append([entry_at(offset) * 20 for offset in range(first, first + 10)], first)
        log.append([bytes(1 << 20)], 1)
        log.sync()
        expected = all_entries(log)
    with opened(tmp_path / "log", options) as log:
        assert log.segment_count > 1
        with ThreadPoolExecutor(4) as pool:
            offsets = [(number * 2654435761) % 8000 for number in range(400)]
            found = list(pool.map(lambda offset: log.read(offset, 1)[0].entries[0], offsets))
        assert found == [expected[offset] for offset in offsets]
