"""The threads and the door to the core, by themselves: a queue of a test's own instead of the network's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import SimpleNamespace

import pytest
from grpc._cython import cygrpc

import metastore.server.transport.crew as crew_module
from metastore.clock import Clock, ManualClock
from metastore.server.transport.core import NEEDED_NAMES, require_names
from metastore.server.transport.crew import ACTION_DELAY_S_MAX, Crew

WITHIN_S = 30.0


class Events:
    """A completion queue."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[SimpleNamespace] = SimpleQueue()

    def put(self, callback: Callable[[], object]) -> None:
        self._queue.put(SimpleNamespace(tag=lambda event: callback()))

    def close(self) -> None:
        self._queue.put(SimpleNamespace(tag=None))

    def poll(self) -> SimpleNamespace:
        return self._keep_the_end(self._queue.get(timeout=WITHIN_S))

    def poll_ready(self) -> SimpleNamespace | None:
        try:
            return self._keep_the_end(self._queue.get_nowait())
        except Empty:
            return None

    def _keep_the_end(self, event: SimpleNamespace) -> SimpleNamespace:
        if event.tag is None:
            self._queue.put(event)  # every thread has to see it
        return event


@contextmanager
def working(
    events: Events, size: int = 3, clock: Clock | None = None
) -> Iterator[tuple[Crew, list[tuple[str, BaseException]]]]:
    errors: list[tuple[str, BaseException]] = []

    def on_error(where: str, error: BaseException) -> None:
        errors.append((where, error))

    crew = Crew(events.poll, events.poll_ready, size, on_error, (clock or ManualClock()).monotonic_s)
    yield crew, errors
    events.close()
    crew.join()


def test_one_thread_runs_everything_while_nothing_blocks() -> None:
    events = Events()
    threads: list[int] = []
    for _ in range(100):
        events.put(lambda: threads.append(threading.get_ident()))
    with working(events) as (crew, errors):
        crew.start()
    assert len(threads) == 100
    assert len(set(threads)) == 1
    assert errors == []


def test_an_action_comes_after_the_events_that_are_ready_and_only_once() -> None:
    events = Events()
    told: list[str] = []

    def action() -> None:
        told.append("action")

    def event() -> None:
        told.append("event")
        crew.defer(action)

    with working(events) as (crew, _):
        for _ in range(5):
            events.put(event)
        crew.start()
    assert told == [*["event"] * 5, "action"]


def test_an_action_waits_for_events_only_so_long() -> None:
    clock = ManualClock(monotonic_s=0.0)
    events = Events()
    told: list[str] = []

    def event() -> None:
        told.append("event")
        clock.advance_ms(1)

    with working(events, clock=clock) as (crew, _):
        events.put(lambda: crew.defer(lambda: told.append("action")))
        for _ in range(10):
            events.put(event)
        crew.start()
    assert told.index("action") == ACTION_DELAY_S_MAX * 1_000
    assert told.count("event") == 10


@pytest.fixture
def _blind_watcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody notices a leader that is stuck."""
    monkeypatch.setattr(crew_module, "STUCK_AFTER_S", WITHIN_S)


@pytest.mark.usefixtures("_blind_watcher")
def test_actions_run_in_their_order_and_beside_each_other() -> None:
    events = Events()
    begun: list[str] = []
    second_began = threading.Event()

    def first() -> None:
        begun.append("first")
        assert second_began.wait(WITHIN_S)

    def second() -> None:
        begun.append("second")
        second_began.set()

    def event() -> None:
        crew.defer(first)
        crew.defer(second)

    with working(events) as (crew, errors):
        events.put(event)
        crew.start()
        assert second_began.wait(WITHIN_S)
    assert begun == ["first", "second"]
    assert errors == []


@pytest.mark.usefixtures("_blind_watcher")
def test_after_a_slow_action_the_next_runs_beside_the_events() -> None:
    clock = ManualClock()
    events = Events()
    slow_ran, next_began, event_came = threading.Event(), threading.Event(), threading.Event()
    outcome: list[bool] = []

    def slow() -> None:
        clock.advance_ms(2)
        slow_ran.set()

    def next_one() -> None:
        next_began.set()
        outcome.append(event_came.wait(WITHIN_S))

    with working(events, clock=clock) as (crew, errors):
        events.put(lambda: crew.defer(slow))
        crew.start()
        assert slow_ran.wait(WITHIN_S)
        events.put(lambda: crew.defer(next_one))
        assert next_began.wait(WITHIN_S)
        events.put(event_came.set)
    assert outcome == [True]
    assert errors == []


def test_actions_that_wait_at_the_end_still_run() -> None:
    events = Events()
    told: list[str] = []

    def event() -> None:
        crew.defer(lambda: told.append("one"))
        crew.defer(lambda: told.append("two"))

    with working(events) as (crew, _):
        events.put(event)
        events.close()
        crew.start()
    assert sorted(told) == ["one", "two"]


def test_when_the_leader_is_stuck_another_takes_the_lead() -> None:
    events = Events()
    gate = threading.Event()
    with working(events, size=2) as (crew, errors):
        events.put(lambda: gate.wait(WITHIN_S) or pytest.fail("nobody else took the lead"))
        events.put(gate.set)
        crew.start()
    assert gate.is_set()
    assert errors == []


def test_a_stuck_leader_that_defers_late_runs_the_action_itself() -> None:
    events = Events()
    gate = threading.Event()
    ran_in: list[int] = []
    stuck: list[int] = []

    def block() -> None:
        assert gate.wait(WITHIN_S)
        stuck.append(threading.get_ident())
        crew.defer(lambda: ran_in.append(threading.get_ident()))

    with working(events, size=2) as (crew, errors):
        events.put(block)
        events.put(gate.set)
        crew.start()
    assert ran_in == stuck
    assert errors == []


def test_errors_are_told_and_the_work_goes_on() -> None:
    events = Events()
    told: list[str] = []

    def fail() -> None:
        raise SystemExit("no reason to end the thread")

    with working(events, size=1) as (crew, errors):
        events.put(fail)
        events.put(lambda: crew.defer(fail))
        events.put(lambda: told.append("after"))
        crew.start()
    assert told == ["after"]
    assert [(where, type(error)) for where, error in errors] == [("transport", SystemExit)] * 2


def test_the_core_has_what_is_needed() -> None:
    require_names(cygrpc)


@pytest.mark.parametrize("name", NEEDED_NAMES)
def test_a_core_without_a_needed_name_is_refused_by_name(name: str) -> None:
    def copy(missing: str) -> SimpleNamespace:
        root = SimpleNamespace()
        for path in NEEDED_NAMES:
            if path != missing:
                owner, _, attribute = path.rpartition(".")
                target = root if not owner else root.__dict__.setdefault(owner, SimpleNamespace())
                setattr(target, attribute, object())
        return root

    require_names(copy(missing=""))
    with pytest.raises(ImportError, match=f"its core has no {name};"):
        require_names(copy(missing=name))
