"""A server is killed at every named point and at random, under writers on several streams, and loses nothing.

After each kill it is started again and audited (crash_audit.py): every acknowledged write is there, with its value
and its version; no batch is half there; offsets and version ids only grow; the notifications are complete, in
order, as they were seen before, and agree with the records; so does the index; sessions live.

TIDEMARK_CRASH_ROUNDS is the number of rounds per point, by default 2; each takes about a second. A data directory
goes through three rounds of each point at the most; more rounds go through more directories, with other seeds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping

import pytest
from crash_rounds import Rounds
from crash_server import FaultyServer, SmallServer

ROUNDS = int(os.environ.get("TIDEMARK_CRASH_ROUNDS", "2"))
ROUNDS_PER_DIRECTORY = 3
SEEDS = range(-(-ROUNDS // ROUNDS_PER_DIRECTORY))

# With the greatest count at which a point is to kill: so that it is reached within a second or so.
POINTS = {
    "round.append.before": 25,
    "log.append.before": 25,
    "log.append.after": 25,
    "log.sync.after": 25,
    "round.sync.after": 25,
}
SMALL_POINTS = {
    "log.append.after": 25,
    "log.extend": 12,
    "log.roll.before": 4,
    "log.roll.after": 4,
    "feeder.commit.before": 12,
    "feeder.commit.after": 12,
    "feeder.grow.before": 1,
    "feeder.grow.after": 1,
}
TRIM_POINTS = {"log.trim.before": 2, "log.trim.after": 2}


def faults(points: Mapping[str, int], kills_from_outside: int, choice: random.Random, seed: int) -> list[str | None]:
    """Every point so many times, and some kills from outside, in random order."""
    rounds = min(ROUNDS_PER_DIRECTORY, ROUNDS - seed * ROUNDS_PER_DIRECTORY)
    chosen: list[str | None] = [None] * (kills_from_outside * rounds)
    for point, count_max in points.items():
        chosen += [f"{point}:{choice.randint(1, count_max)}:kill" for _ in range(rounds)]
    choice.shuffle(chosen)
    return chosen


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_server_keeps_its_promises(seed: int) -> None:
    planned = faults(POINTS, 2, random.Random(seed), seed)
    with FaultyServer() as server:
        rounds = Rounds(server, seed, value_bytes_max=100, growth=0.0)
        rounds.run(planned)
    print(rounds.report())
    assert rounds.kills == len(planned)
    assert rounds.acknowledged_count > 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_server_that_rolls_and_grows_all_the_time_keeps_its_promises(seed: int) -> None:
    planned = faults(SMALL_POINTS, 1, random.Random(seed), seed)
    with SmallServer() as server:
        rounds = Rounds(server, seed, value_bytes_max=600, growth=0.5)
        rounds.run(planned)
    print(rounds.report())
    assert rounds.kills == len(planned)
    assert rounds.acknowledged_count > 0


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_server_that_trims_all_the_time_keeps_its_promises(seed: int) -> None:
    planned = faults(TRIM_POINTS, 0, random.Random(seed), seed)
    with SmallServer(extra_args=["--notifications-retention-time", "100ms"]) as server:
        rounds = Rounds(server, seed, value_bytes_max=600, growth=0.0, is_trimmed=True)
        rounds.run(planned)
    print(rounds.report())
    assert rounds.kills == len(planned)
    assert rounds.oldest_retained > 0, "nothing was trimmed"
