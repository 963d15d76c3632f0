"""A process that stood still: who sent heartbeats meanwhile keeps his session; who is dead loses it all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.clock import ManualClock
from metastore.directory import Namespace
from metastore.engine.errors import SessionNotFound
from metastore.engine.sessions import READING_S
from metastore.engine.shard import Shard
from metastore.engine.ticking import TICK_S
from metastore.server.health import HealthService
from metastore.server.host import Host, ShardHost
from metastore.server.housekeeper import TICK_S_MAX, Housekeeper
from metastore.server.router import Router
from metastore.server.security import Authenticator

TIMEOUT_MS = 5_000


class Served:
    """A shard and who looks after it, by a clock that a test holds."""

    def __init__(self, shard: Shard, clock: ManualClock) -> None:
        self.shard = shard
        self.clock = clock
        namespace = Namespace("default", 0, 1, "hierarchical", True)
        host = ShardHost(0, namespace, shard)
        router = Router(Host([namespace], {0: host}, {}), Authenticator(), _report, {})
        health = HealthService(lambda: True)
        self.housekeeper = Housekeeper([host], router, health, retention_ms=3_600_000, clock=clock, report=_report)

    def stand_still(self, milliseconds: int) -> None:
        """Nothing runs for so long; then first of all the housekeeper, of which nobody is heard before."""
        self.clock.advance_ms(milliseconds)
        self.housekeeper.tick()

    def run(self, milliseconds: int) -> None:
        """So much time passes as it should."""
        for _ in range(round(milliseconds / 1000 / TICK_S)):
            self.stand_still(round(TICK_S * 1000))

    def lives(self, session_id: int) -> bool:
        return session_id in self.shard.sessions


def _report(where: str, error: BaseException) -> None:
    raise AssertionError(where) from error


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    clock = ManualClock()
    with Shard.open(tmp_path / "shard", clock=clock) as shard:
        yield Served(shard, clock)


@pytest.mark.parametrize("ran_ms", [0, 3_000, 4_900])
def test_a_session_whose_heartbeats_were_not_read_lives_until_they_are(served: Served, ran_ms: int) -> None:
    session_id = served.shard.create_session(TIMEOUT_MS)
    served.run(ran_ms)
    served.stand_still(60_000)
    served.run(int(READING_S * 500))
    served.shard.keep_alive(session_id)
    served.run(TIMEOUT_MS - 100)
    assert served.lives(session_id)
    served.run(200)
    assert not served.lives(session_id)


def test_a_standstill_gives_nobody_more_than_a_whole_timeout(served: Served) -> None:
    session_id = served.shard.create_session(TIMEOUT_MS)
    served.clock.advance_ms(60_000)
    served.shard.keep_alive(session_id)  # this is read before the housekeeper comes
    served.housekeeper.tick()
    served.run(TIMEOUT_MS - 100)
    assert served.lives(session_id)
    served.run(200)
    assert not served.lives(session_id)


def test_who_is_dead_is_given_the_time_of_the_standstill_and_the_time_to_read_once(served: Served) -> None:
    session_id = served.shard.create_session(TIMEOUT_MS)
    served.run(TIMEOUT_MS - 200)
    served.stand_still(60_000)
    assert served.lives(session_id)
    served.run(int(READING_S * 1000) - 100)
    assert served.lives(session_id)
    served.run(200)
    assert not served.lives(session_id)
    with pytest.raises(SessionNotFound):
        served.shard.keep_alive(session_id)


def test_where_it_stands_still_all_the_time_who_is_dead_ends_as_well(served: Served) -> None:
    living, dead = served.shard.create_session(TIMEOUT_MS), served.shard.create_session(TIMEOUT_MS)
    ticks = 0
    while served.lives(dead):
        served.stand_still(3_000)
        served.shard.keep_alive(living)
        ticks += 1
    assert ticks <= (TIMEOUT_MS / 1000 + READING_S) / TICK_S_MAX + 1
    assert served.lives(living)


def test_a_tick_that_is_a_little_late_is_no_standstill(served: Served) -> None:
    session_id = served.shard.create_session(TIMEOUT_MS)
    served.run(TIMEOUT_MS - 500)
    served.stand_still(int(TICK_S_MAX * 1000))
    assert not served.lives(session_id)
