"""Processes that write a log are killed: nothing confirmed is lost, no group is half there, others take over."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import segment_writer
from segment_subjects import read_all
from segment_writer import SEGMENT, group_entries, logs_at

from metastore.faults import ENVIRONMENT_VARIABLE
from txn.model.position import Position
from txn.segment.errors import Fenced, LogInUse
from txn.segment.log import SegmentLog

ROOT = Path(__file__).resolve().parents[3]
FILE_POINTS = (
    "log.append.before:9",
    "log.append.after:7",
    "log.sync.after:8",
    "log.extend:3",
    "log.roll.before:2",
    "log.roll.after:2",
    "log.trim.before:1",
    "log.trim.after:1",
    "segment.state.before:1",
    "segment.state.after:1",
)
RECORD_POINTS = (
    "segment.append.before:9",
    "segment.append.after:9",
    "segment.state.before:1",
    "segment.state.before:2",
    "segment.state.after:2",
    "segment.trim.before:1",
    "segment.trim.after:1",
)


@contextmanager
def writer(
    place: str, term: int, *arguments: str, fault: str | None = None, stderr: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A writing process; it is dead afterwards."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if fault is not None:
        environment[ENVIRONMENT_VARIABLE] = f"{fault}:kill"
    command = [sys.executable, segment_writer.__file__, place, str(term), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


class Heard:
    """What a writer said."""

    def __init__(self) -> None:
        self.acknowledged: dict[int, Position] = {}
        self.trimmed_to = Position(0, 0)

    def listen(self, process: subprocess.Popen[str], acks_max: int | None = None) -> None:
        """Hears everything, until the process is dead or has said so many acknowledgements."""
        assert process.stdout is not None
        for line in process.stdout:
            kind, *words = line.split()
            if kind == "ack":
                self.acknowledged[int(words[0])] = Position.parse(words[1])
            elif kind == "trim":
                self.trimmed_to = max(self.trimmed_to, Position.parse(words[0]))
            if acks_max is not None and len(self.acknowledged) >= acks_max:
                return


async def check(log: SegmentLog, term: int, heard: Heard) -> None:
    """What was acknowledged is there, unless it is trimmed; what is there is whole groups in their order."""
    found = {each.position: each.data for each in await read_all(log)}
    for group, first in heard.acknowledged.items():
        for place, data in enumerate(group_entries(term, group)):
            position = Position(first.ledger, first.entry + place)
            assert position < log.lengths.oldest or found[position] == data
    assert log.lengths.oldest <= max(heard.trimmed_to, Position(term, 0))
    own = [data.split(b" ") for position, data in found.items() if position.ledger == term]
    while own:
        _, name, begin, count, _ = own[0]
        places = range(int(begin), int(count))
        assert [entry[1:3] for entry in own[: len(places)]] == [[name, b"%d" % place] for place in places]
        assert begin == b"0" or log.lengths.oldest.entry, "only a trimmed log may begin within a group"
        del own[: len(places)]


def test_a_killed_writer_has_lost_nothing_and_left_nothing_half(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = str(tmp_path / "segments")
        for term, acks in ((1, 40), (3, 150)):
            heard = Heard()
            with writer(place, term) as process:
                heard.listen(process, acks)
                process.send_signal(signal.SIGKILL)
                heard.listen(process)
            assert len(heard.acknowledged) >= acks
            async with logs_at(place) as logs, await logs.open(SEGMENT, term + 1) as log:
                await check(log, term, heard)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("kind", "fault"), [*(("", point) for point in FILE_POINTS), *(("lmdb://", point) for point in RECORD_POINTS)]
)
def test_a_writer_killed_at_a_named_point_has_lost_nothing(tmp_path: Path, kind: str, fault: str) -> None:
    async def scenario() -> None:
        place = f"{kind}{tmp_path}/data"
        heard = Heard()
        with writer(place, 1, fault=fault) as process:
            heard.listen(process)
            assert process.wait() == -signal.SIGKILL
        assert heard.acknowledged or "state" in fault
        async with logs_at(place) as logs, await logs.open(SEGMENT, 2) as log:
            await check(log, 1, heard)
            await log.append([b"goes on"])
            assert (await read_all(log, Position(2, 0)))[-1].data == b"goes on"

    asyncio.run(scenario())


def test_a_process_that_lives_keeps_the_log_and_one_that_died_gives_it_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with logs_at(str(tmp_path)) as logs:
            with writer(str(tmp_path), 5, "hold") as process:
                assert process.stdout is not None
                assert process.stdout.readline() == "opened\n"
                for term in (4, 5, 6):
                    with pytest.raises(LogInUse, match="open elsewhere"):
                        await logs.open(SEGMENT, term)
                process.send_signal(signal.SIGKILL)
                process.wait()
            with pytest.raises(Fenced, match="term 5"):
                await logs.open(SEGMENT, 4)
            async with await logs.open(SEGMENT, 6):
                with writer(str(tmp_path), 7, "hold", stderr=subprocess.PIPE) as process:
                    assert "LogInUse" in process.communicate()[1]

    asyncio.run(scenario())
