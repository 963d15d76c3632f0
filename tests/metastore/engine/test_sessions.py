"""Sessions: the schedule by itself, and many sessions of a shard."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from metastore.clock import ManualClock
from metastore.engine import limits
from metastore.engine.errors import InvalidSessionTimeout, SessionNotFound
from metastore.engine.operations import Get, PutOptions, WriteBatch
from metastore.engine.sessions import HEAP_SLACK, SessionSchedule
from metastore.engine.shard import Shard

MANY = 100_000


def test_a_heartbeat_moves_the_deadline() -> None:
    schedule = SessionSchedule()
    schedule.add(1, 2_000, now_s=0.0)
    schedule.keep_alive(1, now_s=1.5)
    assert schedule.due(2.0, 10) == []
    assert schedule.due(3.5, 10) == [1]
    schedule.remove(1)
    assert schedule.due(9.0, 10) == []
    with pytest.raises(SessionNotFound):
        schedule.keep_alive(1, now_s=9.0)


def test_what_is_due_comes_in_bounded_batches_and_stays_until_removed() -> None:
    schedule = SessionSchedule()
    for session_id in range(1, 301):
        schedule.add(session_id, 2_000, now_s=0.0)
    first = schedule.due(2.0, limits.SESSIONS_PER_EXPIRY_MAX)
    assert len(first) == limits.SESSIONS_PER_EXPIRY_MAX
    assert schedule.due(2.0, limits.SESSIONS_PER_EXPIRY_MAX) == first
    for session_id in first:
        schedule.remove(session_id)
    assert not set(schedule.due(2.0, 1_000)) & set(first)


def test_a_hundred_thousand_sessions_take_less_than_a_kilobyte_each() -> None:
    tracemalloc.start()
    schedule = SessionSchedule()
    for session_id in range(1, MANY + 1):
        schedule.add(session_id, 30_000, now_s=float(session_id))
    for session_id in range(1, MANY + 1):
        schedule.keep_alive(session_id, now_s=float(session_id) + 0.5)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / MANY < 1024
    assert len(schedule) == MANY


def test_ended_sessions_do_not_pile_up_in_the_schedule() -> None:
    schedule = SessionSchedule()
    for session_id in range(1, 20 * HEAP_SLACK):
        schedule.add(session_id, 300_000, now_s=0.0)
        schedule.remove(session_id)
    assert len(schedule._heap) <= HEAP_SLACK + 1


def test_mass_expiry_takes_bounded_writes_and_spares_who_sent_heartbeats(tmp_path: Path) -> None:
    clock = ManualClock()
    with Shard.open(tmp_path / "shard", clock=clock) as shard:
        sessions = [shard.create_session(2_000) for _ in range(300)]
        for session_id in sessions:
            options = PutOptions(session_id=session_id)
            shard.write(WriteBatch(puts=[(b"/e/%d" % session_id, b"", options)]))
        clock.advance_ms(1_500)
        shard.keep_alive(sessions[7])
        clock.advance_ms(1_000)
        before = shard.next_offset
        assert shard.expire_sessions() == 299
        assert shard.next_offset == before + 3  # 299 sessions by 128
        assert shard.get(Get(b"/e/%d" % sessions[7])) is not None
        assert shard.get(Get(b"/e/%d" % sessions[8])) is None
        assert len(shard.sessions) == 1


def test_a_restart_gives_each_session_its_full_timeout(tmp_path: Path) -> None:
    clock = ManualClock()
    with Shard.open(tmp_path / "shard", clock=clock) as shard:
        session_id = shard.create_session(5_000, b"me")
        clock.advance_ms(4_900)
    with Shard.open(tmp_path / "shard", clock=clock) as shard:
        clock.advance_ms(4_900)
        assert shard.expire_sessions() == 0
        clock.advance_ms(200)
        assert shard.expire_sessions() == 1
        with pytest.raises(SessionNotFound):
            shard.keep_alive(session_id)


@pytest.mark.parametrize("timeout_ms", [limits.SESSION_TIMEOUT_MS_MIN - 1, limits.SESSION_TIMEOUT_MS_MAX + 1])
def test_a_timeout_outside_of_the_limits_is_refused(tmp_path: Path, timeout_ms: int) -> None:
    with Shard.open(tmp_path / "shard") as shard:
        with pytest.raises(InvalidSessionTimeout):
            shard.create_session(timeout_ms)
        assert shard.next_offset == 0
