"""A writer is killed at every named point, again and again: what it promised is there, whole, in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import log_writer
import pytest
from log_helpers import all_frames, opened

import metastore
from metastore.faults import ENVIRONMENT_VARIABLE

POINTS = [
    "log.append.before",
    "log.append.after",
    "log.sync.after",
    "log.extend",
    "log.roll.before",
    "log.roll.after",
    "log.trim.before",
    "log.trim.after",
]
ROUNDS = 4


def write_until_killed(directory: Path, point: str, count: int) -> tuple[int, int]:
    """Runs the writer; returns up to where it said that entries are durable, and up to where trimmed."""
    root = str(Path(metastore.__path__[0]).parent)
    writer = subprocess.run(
        [sys.executable, log_writer.__file__, str(directory)],
        env={**os.environ, ENVIRONMENT_VARIABLE: f"{point}:{count}:kill", "PYTHONPATH": root},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert writer.returncode == -signal.SIGKILL, writer.stderr
    said = {"durable": 0, "trimmed": 0}
    for line in writer.stdout.splitlines():
        word, offset = line.split()
        said[word] = int(offset)
    return said["durable"], said["trimmed"]


def check(directory: Path, durable: int, trimmed: int) -> int:
    """Opens the log the writer left: all groups are whole and right. Returns the next offset."""
    with opened(directory, log_writer.OPTIONS, durable_floor=durable) as log:
        assert log.next_offset >= durable
        assert log.first_offset <= trimmed
        for frame in all_frames(log):
            assert frame.entries == log_writer.group_at(frame.first_offset)
            assert frame.time_ms == frame.first_offset
        return log.next_offset


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_writer_keeps_its_promises(tmp_path: Path, point: str) -> None:
    next_offset = durable = trimmed = 0
    for round_number in range(ROUNDS):
        said_durable, said_trimmed = write_until_killed(tmp_path / "log", point, 2 + 3 * round_number)
        durable, trimmed = max(durable, said_durable, next_offset), max(trimmed, said_trimmed)
        reopened_at = check(tmp_path / "log", durable, trimmed)
        assert reopened_at >= next_offset
        next_offset = reopened_at
    assert next_offset > 0
