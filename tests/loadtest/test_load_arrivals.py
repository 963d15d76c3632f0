"""The open model: schedules, shapes, distributions of keys, and a pump that nobody can hold up unseen."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.arrivals import DISTRIBUTIONS, SHAPES, Flow, Spacing, points
from loadtest.arrivals.pump import Arrival, Limits, Pump
from loadtest.outcomes import NOT_STARTED, UNFINISHED, Kind, Outcome
from support.virtual_time import run_virtually

rates = st.floats(0.1, 5_000)
seeds = st.integers(0, 2**32)


def taken(flow: Flow, count: int) -> list[float]:
    return [flow.take() for _ in range(count)]


def flow_of(seed: int, spacing: Spacing, *pieces: tuple[float, float]) -> Flow:
    flow = Flow(points(spacing, random.Random(seed)))
    for at_s, rate in pieces:
        flow.set_rate(at_s, rate)
    return flow


@given(seeds, rates, st.sampled_from(Spacing))
def test_a_seed_means_one_schedule(seed: int, rate: float, spacing: Spacing) -> None:
    first, second = (taken(flow_of(seed, spacing, (0.0, rate)), 50) for _ in range(2))
    assert first == second == sorted(first)
    assert first != taken(flow_of(seed + 1, spacing, (0.0, rate)), 50)


@given(rates)
def test_paced_arrivals_are_evenly_apart(rate: float) -> None:
    times = taken(flow_of(0, Spacing.EVEN, (0.0, rate)), 100)
    assert all(math.isclose(b - a, 1 / rate, rel_tol=1e-6) for a, b in itertools.pairwise(times))


@given(seeds, rates)
def test_poisson_arrivals_come_at_the_rate_with_exponential_gaps(seed: int, rate: float) -> None:
    times = taken(flow_of(seed, Spacing.RANDOM, (0.0, rate)), 4_000)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert math.isclose(times[-1], 4_000 / rate, rel_tol=0.12)  # more than 7 standard deviations
    assert math.isclose(sum(gap > 1 / rate for gap in gaps) / len(gaps), math.exp(-1), abs_tol=0.06)


@given(seeds, st.lists(st.tuples(st.floats(0, 10), st.just(0.0) | st.floats(0.01, 200)), min_size=1, max_size=6))
def test_a_rate_holds_from_when_it_was_told(seed: int, steps: list[tuple[float, float]]) -> None:
    """Whatever the rates, the n-th arrival comes when n units have passed: by the same draws, at other times."""
    pieces = list(zip(itertools.accumulate(gap for gap, _ in steps), (rate for _, rate in steps), strict=True))
    flow = flow_of(seed, Spacing.RANDOM, *pieces)
    draws, units = random.Random(seed), 0.0
    for _ in range(30):
        units += draws.expovariate(1.0)
        due_s = flow.next_s()
        if due_s is None:
            assert units_until(pieces, math.inf) < units
            return
        assert math.isclose(units_until(pieces, due_s), units, rel_tol=1e-6, abs_tol=1e-6)
        assert flow.take() == due_s


def units_until(pieces: list[tuple[float, float]], until_s: float) -> float:
    """How many arrivals the rates mean up to a time."""
    ends = [at_s for at_s, _ in pieces[1:]] + [math.inf]
    spans = ((rate, min(end, until_s) - at_s) for (at_s, rate), end in zip(pieces, ends, strict=True))
    return sum(rate * span for rate, span in spans if span > 0 and rate > 0)


@given(st.sampled_from(sorted(SHAPES)), st.floats(0, 1, exclude_max=True))
def test_shapes_are_shares_of_the_rate(name: str, over: float) -> None:
    assert 0 < SHAPES[name].share(over) <= 1


def test_shapes_do_what_they_say() -> None:
    courses = {name: [shape.share(tenth / 10 + 0.05) for tenth in range(10)] for name, shape in SHAPES.items()}
    assert courses["steady"] == [1.0] * 10
    assert courses["ramp"] == pytest.approx([tenth / 10 for tenth in range(1, 11)])
    assert courses["spike"] == [0.25] * 4 + [1.0] * 2 + [0.25] * 4
    assert [SHAPES["soak"].share(0.01), *courses["soak"]] == pytest.approx([0.2] + [1.0] * 10)


@given(st.sampled_from(sorted(DISTRIBUTIONS)), st.integers(1, 500), seeds)
def test_distributions_stay_among_the_keys(name: str, keys: int, seed: int) -> None:
    choose = DISTRIBUTIONS[name](keys)
    assert all(0 <= choose(draw) < keys for draw in [random.Random(seed)] * 50)


def shares(name: str, keys: int, count: int) -> list[float]:
    """How often each key was drawn, the most popular first."""
    choose, draw = DISTRIBUTIONS[name](keys), random.Random(4)
    return [seen / count for _, seen in Counter(choose(draw) for _ in range(count)).most_common()]


def test_distributions_are_what_they_are_called() -> None:
    assert max(shares("uniform", 100, 50_000)) < 0.013
    zipfian = shares("zipfian", 1_000, 50_000)
    assert zipfian[0] == pytest.approx(2 * zipfian[1], rel=0.1)
    assert zipfian[0] == pytest.approx(10 * zipfian[9], rel=0.2)
    hot = shares("hot", 1_000, 50_000)
    assert sum(hot[:10]) == pytest.approx(0.9 + 0.1 * 0.01, abs=0.01)


class Gate:
    """A service that answers at once, and not at all while it is shut."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self.under_way = 0
        self.greatest = 0

    async def serve(self, arrival: Arrival) -> None:
        self.under_way += 1
        self.greatest = max(self.greatest, self.under_way)
        try:
            await self._open.wait()
        finally:
            self.under_way -= 1

    async def stall(self, from_s: float, to_s: float) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(from_s - loop.time())
        self._open.clear()
        await asyncio.sleep(to_s - loop.time())
        self._open.set()


def run_stalled(limits: Limits, from_s: float, to_s: float, for_s: float) -> tuple[list[Outcome], int]:
    """Ten arrivals a second, in no time, by a clock that jumps; what became of them, and how many were under way."""

    async def run() -> tuple[list[Outcome], int]:
        outcomes: list[Outcome] = []
        gate = Gate()
        flow = Flow(itertools.count(1.0))
        pump = Pump("work", flow, gate.serve, outcomes.append, random.Random(1), limits)
        pump.set_rate(10.0)
        running = [asyncio.create_task(pump.run()), asyncio.create_task(gate.stall(from_s, to_s))]
        await asyncio.sleep(for_s)
        await pump.finish()
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        return outcomes, gate.greatest

    return run_virtually(run())


def latencies(outcomes: list[Outcome]) -> dict[float, float]:
    """By when an arrival was meant to begin, in seconds."""
    assert all(outcome.kind is Kind.ARRIVAL for outcome in outcomes)
    found = {round(outcome.began_s, 3): round(outcome.latency_s, 3) for outcome in outcomes}
    assert len(found) == len(outcomes), "every arrival has one outcome"
    return found


def test_a_stall_shows_in_every_arrival_that_was_meant_to_begin_in_it() -> None:
    outcomes, _ = run_stalled(Limits(), 2.05, 7.05, 10.05)
    found = latencies(outcomes)
    assert sorted(found) == [round(0.1 * number, 3) for number in range(1, 101)]
    for began_s, latency_s in found.items():
        assert latency_s == pytest.approx(7.05 - began_s if 2.05 < began_s < 7.05 else 0.0, abs=1e-3)


def test_what_waits_for_room_is_timed_from_when_it_was_meant_to_begin() -> None:
    outcomes, greatest = run_stalled(Limits(outstanding_max=3), 2.05, 7.05, 10.05)
    found = latencies(outcomes)
    assert (len(found), greatest) == (100, 3)
    assert all(found[round(0.1 * n, 3)] == pytest.approx(7.05 - 0.1 * n, abs=1e-3) for n in range(21, 71))
    late = {round(each.began_s, 3): each.late_s for each in outcomes}
    assert late[2.3] == pytest.approx(0.0, abs=1e-3)  # the third that was begun in the stall
    assert late[2.4] == pytest.approx(7.05 - 2.4, abs=1e-3)  # the first that had to wait


def test_what_cannot_be_begun_in_time_is_counted() -> None:
    outcomes, _ = run_stalled(Limits(outstanding_max=3, start_within_s=2.0), 2.05, 7.05, 10.05)
    assert len(latencies(outcomes)) == 100
    missed = [outcome for outcome in outcomes if outcome.error == NOT_STARTED]
    assert [round(each.began_s, 3) for each in missed] == [round(0.1 * n, 3) for n in range(24, 51)]
    assert all(each.latency_s == pytest.approx(2.0, abs=1e-3) for each in missed)


def test_a_stall_to_the_end_leaves_nothing_uncounted() -> None:
    limits = Limits(outstanding_max=3, start_within_s=60.0, finish_within_s=1.0)
    outcomes, _ = run_stalled(limits, 2.05, 100.0, 10.05)
    assert len(latencies(outcomes)) == 100
    errors = Counter(outcome.error for outcome in outcomes)
    assert errors == {None: 20, UNFINISHED: 3, NOT_STARTED: 77}
    assert all(
        each.latency_s == pytest.approx(11.05 - each.began_s, abs=0.01)
        for each in outcomes
        if each.error == NOT_STARTED
    )


def test_what_waits_when_the_run_is_over_may_begin_and_end_in_its_time() -> None:
    limits = Limits(outstanding_max=3, start_within_s=60.0, finish_within_s=1.0)
    outcomes, greatest = run_stalled(limits, 9.05, 10.95, 10.05)
    found = latencies(outcomes)
    assert (len(found), greatest, {each.error for each in outcomes}) == (100, 3, {None})
    assert all(found[round(0.1 * n, 3)] == pytest.approx(10.95 - 0.1 * n, abs=1e-3) for n in range(91, 101))


def test_what_is_under_way_ends_with_the_pump_and_nothing_is_told_of_it() -> None:
    async def run() -> tuple[list[Outcome], int, int]:
        outcomes: list[Outcome] = []
        gate = Gate()
        pump = Pump("work", Flow(itertools.count(1.0)), gate.serve, outcomes.append, random.Random(1))
        running = [asyncio.create_task(pump.run()), asyncio.create_task(gate.stall(2.05, 100.0))]
        pump.set_rate(1.0)
        await asyncio.sleep(5.5)
        before = gate.under_way
        for task in running:
            task.cancel()
        await pump.close()
        return outcomes, before, gate.under_way

    outcomes, before, after = run_virtually(run())
    assert (len(outcomes), before, after) == (2, 3, 0)


@given(seeds, st.integers(1, 40))
def test_an_even_flow_that_ends_by_itself_has_as_many_arrivals_as_it_should(seed: int, count: int) -> None:
    async def run() -> list[Outcome]:
        outcomes: list[Outcome] = []
        flow = flow_of(seed, Spacing.EVEN, (0.0, 10.0), (count / 10, 0.0))
        pump = Pump("work", flow, Gate().serve, outcomes.append, random.Random(1))
        await pump.drain()
        return outcomes

    assert len(run_virtually(run())) == count


def test_an_error_is_the_outcome_of_its_arrival() -> None:
    async def serve(arrival: Arrival) -> None:
        arrival.operation = "refused"
        raise LookupError

    async def run() -> list[Outcome]:
        outcomes: list[Outcome] = []
        pump = Pump("work", Flow(itertools.count(1.0)), serve, outcomes.append, random.Random(1))
        running = asyncio.create_task(pump.run())
        pump.set_rate(1.0)
        await asyncio.sleep(3.5)
        await pump.finish()
        running.cancel()
        await asyncio.wait([running])
        return outcomes

    outcomes = run_virtually(run())
    assert [(each.operation, each.error) for each in outcomes] == [("refused", "LookupError")] * 3
