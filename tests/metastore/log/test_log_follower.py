"""A log that is followed from outside: what is durable, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from metastore.log import Log, LogFollower, LogOptions, LogTrimmed

SMALL = LogOptions(segment_bytes_max=4096, step_bytes_min=1024, reserve_bytes=1024)


def entries(follower: LogFollower, offset: int) -> list[bytes]:
    """All entries from an offset on, in small portions."""
    found: list[bytes] = []
    end = follower.end()
    while offset < end.offset:
        for frame in follower.read(offset, end, 300):
            assert frame.first_offset == offset
            found += frame.entries
            offset = frame.end_offset
    return found


def test_a_follower_reads_what_is_there_over_many_files(tmp_path: Path) -> None:
    follower = LogFollower(tmp_path)
    with_known: LogFollower | None = None
    log = Log.open(tmp_path, SMALL)
    written: list[bytes] = []
    for number in range(60):
        group = [b"%d-%d" % (number, each) + bytes(200) for each in range(number % 3 + 1)]
        log.append(group, number)
        log.sync()
        written += group
        if number % 7 == 0:
            assert entries(follower, 0) == written
            assert follower.end().offset == len(written)
            with_known = LogFollower(tmp_path, follower.end())
    assert log.segment_count > 3
    assert with_known is not None
    assert entries(with_known, 5) == written[5:]
    log.trim(len(written), 1000)
    oldest = log.first_offset
    assert oldest == with_known.first_offset > 0
    with pytest.raises(LogTrimmed):
        with_known.read(0, with_known.end())
    assert entries(with_known, oldest) == written[oldest:]
    log.close()


def test_a_frame_that_is_half_there_is_not_seen_until_it_is_whole(tmp_path: Path) -> None:
    log = Log.open(tmp_path, SMALL)
    log.append([b"first"], 1)
    log.sync()
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()
    log.append([b"second" * 50], 2)
    log.sync()
    after = path.read_bytes()
    log.close()
    end = max(place for place, byte in enumerate(after) if byte) + 1
    start = next(place for place, (old, new) in enumerate(zip(before, after, strict=True)) if old != new)
    for cut in range(start, end, 37):
        path.write_bytes(after[:cut] + bytes(len(after) - cut))
        assert entries(LogFollower(tmp_path), 0) == [b"first"]
    path.write_bytes(after)
    assert entries(LogFollower(tmp_path), 0) == [b"first", b"second" * 50]
