"""The recorded conversations with a real Oxia server, each played against a server of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from support.server import ServerProcess, own_server
from support.transcripts.player import play
from support.transcripts.recording import ServerNeeds, load_recording, recording_paths

PATHS = recording_paths(Path(__file__).parent / "transcripts")
ACCIDENTS = ("upstream-accidents", "upstream-accidents-natural")
"""Recordings that are all accidents of upstream: they say what to survive, not how to answer."""

PLAYED_AT_A_TIME = 3
"""Playing is mostly waiting: for servers to start, for sessions to expire, for silence."""

RECORDINGS = 80
JUDGED_CASES = 373
JUDGED_STEPS = 15_000


def start(needs: ServerNeeds) -> ServerProcess:
    server = ServerProcess(needs.shards, needs.sorting, needs.notifications)
    try:
        server.start()
    except BaseException:
        server.close()
        raise
    return server


def play_file(path: Path) -> list[str]:
    recording = load_recording(path)
    return play(recording, start, recording.judged_cases or recording.cases)


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[list[str]]]]:
    """The problems of the recordings that were chosen, some of which are played at a time."""
    chosen = {item.name.partition("[")[2].rstrip("]") for item in request.session.items}
    with ThreadPoolExecutor(PLAYED_AT_A_TIME) as pool:
        yield {name: pool.submit(play_file, path) for name, path in PATHS.items() if name in chosen}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", [name for name in PATHS if name not in ACCIDENTS])
def test_answers_are_those_of_the_recorded_server(name: str, played: dict[str, Future[list[str]]]) -> None:
    problems = played[name].result()
    assert not problems, "\n".join(problems)


@pytest.mark.skipif(not own_server(), reason="asks what only this project's server promises")
@pytest.mark.parametrize("name", ACCIDENTS)
def test_what_trips_upstream_is_survived(name: str, played: dict[str, Future[list[str]]]) -> None:
    deaths = [line for line in played[name].result() if "process has died" in line]
    assert not deaths, "\n".join(deaths)


def test_no_recording_is_left_out() -> None:
    recordings = {name: load_recording(path) for name, path in PATHS.items()}
    judged = [case for recording in recordings.values() for case in recording.judged_cases]
    steps = [step for case in judged for step in case.steps if "quirk" not in step]
    assert len(recordings) == RECORDINGS
    assert len(judged) == JUDGED_CASES
    assert len(steps) > JUDGED_STEPS
    assert {name for name in recordings if not recordings[name].judged_cases} == set(ACCIDENTS)
