"""What `tidemark check perf` concludes from figures: pure functions, held against their definitions."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
from io import StringIO
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadtest.bench.figures import percentile
from loadtest.check.command import register
from loadtest.check.evidence import Observer
from loadtest.check.exposition import grown, logs_of, parse, shards_of, total
from loadtest.check.listeners import inodes, is_here, listeners
from loadtest.check.measuring import GRACE_S, Checked, measure
from loadtest.check.profiles import RATES, RECORDS, SIZES, chosen_sizes
from loadtest.check.recorder import SLOWEST_KEPT, Measured, Recorder
from loadtest.check.report import Report
from loadtest.check.usage import (
    LIMITING_SHARE,
    Evidence,
    ProcessUse,
    ShardUse,
    conclusion,
    inside_texts,
    limits,
    usages,
)
from loadtest.check.verdict import (
    DEVIATION_S_MAX,
    P99_S_MAX,
    RATE_SHARE_MIN,
    SLOWEST_S_MAX,
    findings,
    is_passed,
)
from loadtest.check.works import Work
from loadtest.outcomes import Kind, Outcome
from metastore.interface import Overloaded
from support.virtual_time import run_virtually

SECONDS = st.floats(min_value=0.0, max_value=2.0)
PIECES = st.lists(st.tuples(st.floats(min_value=0.0, max_value=10.0), SECONDS), max_size=60)
SHARES = st.floats(min_value=0.0, max_value=1.0)


def recorded(pieces: list[tuple[float, float]], failures: int = 0, planned_s: float = 10.0) -> Measured:
    recorder = Recorder(0.0)
    for number, (intended_s, seconds) in enumerate(pieces):
        recorder.record(Outcome(RECORDS, f"key-{number}", Kind.ARRIVAL, intended_s, seconds))
    for _ in range(failures):
        recorder.record(Outcome(RECORDS, RECORDS, Kind.ARRIVAL, 0.0, 0.0, error="Overloaded"))
    return recorder.measured(planned_s, {"Overloaded": "it was full"})


@given(PIECES, st.integers(min_value=0, max_value=3))
def test_a_recorder_says_what_statistics_say(pieces: list[tuple[float, float]], failures: int) -> None:
    measured = recorded(pieces, failures)
    taken = sorted(seconds for _, seconds in pieces)
    assert measured.failures == ({"it was full": failures} if failures else {})
    assert (measured.answered, measured.failed, measured.due) == (len(pieces), failures, len(pieces) + failures)
    assert measured.elapsed_s == max([10.0, *(intended_s + seconds for intended_s, seconds in pieces)])
    assert [each.seconds for each in measured.slowest] == taken[::-1][:SLOWEST_KEPT]
    if taken:
        assert measured.slowest_s == taken[-1]
        assert (measured.p50_s, measured.p99_s) == (percentile(taken, 0.5), percentile(taken, 0.99))
        assert measured.deviation_s == pytest.approx(pstdev(taken, fmean(taken)))


@given(PIECES, st.integers(min_value=0, max_value=1), st.floats(min_value=0.1, max_value=10.0))
def test_passed_is_within_every_bound(pieces: list[tuple[float, float]], failures: int, rate: float) -> None:
    measured = recorded(pieces, failures)
    assert is_passed(findings(measured, rate)) == (
        measured.answered / measured.elapsed_s >= rate * RATE_SHARE_MIN
        and measured.slowest_s <= SLOWEST_S_MAX
        and measured.p99_s <= P99_S_MAX
        and measured.deviation_s <= DEVIATION_S_MAX
        and not failures
    )


@given(PIECES, st.floats(min_value=0.1, max_value=10.0))
def test_what_is_passed_is_passed_at_a_lower_rate_too_and_not_with_a_failure_more(
    pieces: list[tuple[float, float]], rate: float
) -> None:
    if is_passed(findings(recorded(pieces), rate)):
        assert is_passed(findings(recorded(pieces), rate / 2))
        assert not is_passed(findings(recorded(pieces, failures=1), rate))


def test_nothing_answered_is_nothing_passed() -> None:
    found = findings(recorded([]), 1.0)
    assert [each.name for each in found if not each.is_met] == ["rate"]


@pytest.mark.parametrize("kind", RATES)
@pytest.mark.parametrize("size", SIZES)
def test_a_service_that_answers_everything_in_ten_milliseconds_has_passed(kind: str, size: str) -> None:
    rate = RATES[kind][size]
    pieces = [(number / rate, 0.01) for number in range(round(2 * rate))]
    assert is_passed(findings(recorded(pieces, planned_s=2.0), rate))
    late = [(intended_s, 1.5 * P99_S_MAX) for intended_s, _ in pieces]
    found = findings(recorded(late, planned_s=2.0), rate)
    assert [each.name for each in found if not each.is_met] == ["p99"]


@given(st.lists(SHARES, max_size=3), st.lists(SHARES, max_size=3), SHARES, st.none() | SHARES, st.booleans())
def test_what_is_used_most_stands_first_and_what_is_used_up_is_named(
    processes: list[float], disks: list[float], own: float, machine: float | None, passed: bool
) -> None:
    evidence = Evidence(
        seconds=10.0,
        own_cores=own,
        processes=[ProcessUse(f"process {share}", 2 * share, 2.0) for share in processes],
        machine_share=machine,
        shards=[ShardUse(f"shard {share}", 10.0, 100.0, 10.0 * share, 0.0, 50.0, 1.0) for share in disks],
    )
    found = usages(evidence, 0.01)
    shares = [usage.share for usage in found]
    assert shares == sorted(shares, reverse=True)
    assert len(found) == len(processes) + len(disks) + 1 + (machine is not None)
    assert {usage.resource for usage in limits(found)} == {
        usage.resource for usage in found if usage.share >= LIMITING_SHARE
    }
    text = conclusion(found, passed)
    if own >= LIMITING_SHARE:
        assert "this program" in text
    else:
        assert all(usage.resource in text for usage in limits(found))
        assert limits(found) or found[0].resource in text


def test_the_network_is_judged_by_its_part_of_an_answer() -> None:
    found = {usage.resource: usage.share for usage in usages(Evidence(1.0, 0.1, round_trip_s=0.009), 0.01)}
    assert found["network"] == pytest.approx(0.9)


METRICS = """\
# TYPE oxia_server_db_puts counter
oxia_server_db_puts_total{{oxia_namespace="default",shard="0"}} {puts}
# TYPE tidemark_round_sync_seconds histogram
tidemark_round_sync_seconds_bucket{{oxia_namespace="default",shard="0",le="+Inf"}} {rounds}
tidemark_round_sync_seconds_count{{oxia_namespace="default",shard="0"}} {rounds}
tidemark_round_sync_seconds_sum{{oxia_namespace="default",shard="0"}} {sync}
# TYPE process_cpu_seconds counter
process_cpu_seconds_total {cpu}
"""


def test_metrics_are_subtracted_shard_by_shard() -> None:
    before = parse(METRICS.format(puts=100, rounds=10, sync=0.5, cpu=7.0))
    after = parse(METRICS.format(puts=400, rounds=30, sync=2.5, cpu=8.0))
    difference = grown(before, after)
    assert difference is not None
    assert total(difference, "oxia_server_db_puts_total") == 300
    (shard,) = shards_of(difference, 4.0)
    assert (shard.name, shard.rounds, shard.sync_s) == ("shard 0 of default", 20, 2.0)
    disk = next(usage for usage in usages(Evidence(4.0, 0.1, shards=[shard]), 0.01) if usage.resource == "disk")
    assert disk.share == 0.5
    assert grown(after, before) is None, "a process that was started anew"


BROKER_METRICS = """\
# TYPE tidemark_segment_log_sync_seconds histogram
tidemark_segment_log_sync_seconds_bucket{{log="local",le="+Inf"}} {syncs}
tidemark_segment_log_sync_seconds_count{{log="local"}} {syncs}
tidemark_segment_log_sync_seconds_sum{{log="local"}} {sync}
tidemark_segment_log_sync_seconds_bucket{{log="stored",le="+Inf"}} 0
tidemark_segment_log_sync_seconds_count{{log="stored"}} 0
tidemark_segment_log_sync_seconds_sum{{log="stored"}} 0
"""


def test_of_a_brokers_logs_is_said_how_long_those_took_that_were_written_to() -> None:
    difference = grown(
        parse(BROKER_METRICS.format(syncs=10, sync=0.5)), parse(BROKER_METRICS.format(syncs=50, sync=0.6))
    )
    assert difference is not None
    (text,) = inside_texts(Evidence(4.0, 0.1, logs=logs_of(difference)))
    assert text == (
        "what was written to a local log of a segment was durable 2.50 ms later, on average, 10 times a second"
    )


def test_sizes_are_tried_in_ascending_order() -> None:
    assert chosen_sizes([]) == SIZES
    assert chosen_sizes(["xl", "s", "xl"]) == ("s", "xl")
    assert all(
        list(rates) == list(SIZES) and sorted(rates.values()) == list(rates.values()) for rates in RATES.values()
    )


TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:19F8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0
   1: 0100007F:19F8 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0 20 4 30 10 -1
   2: 0100007F:19FA 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0 100 0 0 10 0
"""


def test_who_listens_is_read_from_the_kernels_table() -> None:
    assert inodes(TABLE, 6648) == ["4711"]
    assert inodes(TABLE, 6649) == []


def test_a_socket_of_this_process_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert os.getpid() in listeners(server.getsockname()[1])
    assert is_here("127.0.0.1")
    assert not is_here("192.0.2.1"), "an address for documentation, which no machine has"


class StallingWork(Work):
    """Answers at once until it stands still; fails some."""

    kind = RECORDS
    text = "nothing"
    under_way_max = 30

    def __init__(self, stands_still_s: float, failing: int) -> None:
        self._stands_still_s = stands_still_s
        self._failing = failing

    async def prepare(self) -> None: ...

    async def clear(self) -> None: ...

    async def do(self, number: int) -> str:
        loop = asyncio.get_running_loop()
        if number < self._failing:
            raise Overloaded("a queue is full")
        if loop.time() >= self._stands_still_s:
            await asyncio.sleep(2 * GRACE_S + 10)
        return str(number)


class LoopClock:
    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()

    def wall_ms(self) -> int:
        return round(self.monotonic_s() * 1000)


class BlindObserver(Observer):
    """Sees nothing."""

    async def begin(self) -> None: ...

    async def end(self) -> Evidence:
        return Evidence(1.0, 0.0)


def outcome_of(work: Work) -> tuple[Checked, list[int]]:
    told: list[int] = []

    async def scenario() -> Checked:
        numbers = iter(range(1_000_000))
        observer = BlindObserver([], [])
        return await measure(work, numbers, "s", 4.0, 1, observer, LoopClock(), lambda _, count: told.append(count))

    return run_virtually(scenario()), told


def test_a_service_that_answers_is_passed() -> None:
    outcome, told = outcome_of(StallingWork(1_000.0, failing=0))
    assert outcome.passed
    assert outcome.measured.answered == 600
    assert told == sorted(told)


def test_who_asks_is_told_the_verdict_and_what_it_follows_from() -> None:
    passed, _ = outcome_of(StallingWork(1_000.0, failing=0))
    failed, _ = outcome_of(StallingWork(1_000.0, failing=1))
    for checked, verdict, code in ((passed, "PASS", True), (failed, "FAIL", False)):
        told = StringIO()
        report = Report(told, as_json=False)
        report.tell("memory://", RECORDS, "nothing", [checked], ("s", "m"))
        assert report.passed == code
        assert told.getvalue().splitlines()[-2] == f"{verdict}: records, profile s"
        assert "not tried" in told.getvalue(), "profile m"
        assert ("1 x Overloaded" in told.getvalue()) == (not code)
        as_json = StringIO()
        Report(as_json, as_json=True).tell("memory://", RECORDS, "nothing", [checked], ("s", "m"))
        (row,) = [row for row in map(json.loads, as_json.getvalue().splitlines()) if row["type"] == "profile"]
        assert (row["verdict"], row["answered"], row["failed"]) == (verdict, 600 - (not code), int(not code))


def test_a_service_that_stands_still_is_not_and_everything_due_is_accounted_for() -> None:
    outcome, _ = outcome_of(StallingWork(2.0, failing=0))
    assert not outcome.passed
    assert outcome.measured.due == 600
    assert outcome.measured.answered == pytest.approx(300, abs=5)
    assert outcome.measured.failures[f"no answer within {GRACE_S:g} s after the end"] == 30
    assert outcome.measured.failures["never begun: too many were under way"] == pytest.approx(270, abs=5)


def test_one_failure_is_enough() -> None:
    outcome, _ = outcome_of(StallingWork(1_000.0, failing=1))
    assert not outcome.passed
    assert outcome.measured.failures == {"Overloaded": 1}


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("--time", "10ms", "from 1s to 60m"),
        ("--time", "2h", "from 1s to 60m"),
        ("--prefix", "/", "is no prefix"),
        ("--prefix", "users", "is no prefix"),
        ("--prefix", "/a//b", "is no prefix"),
        ("--profile", "xxl", "invalid choice"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_done(
    option: str, value: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    register(parser.add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args(["check", "perf", option, value])
    assert says in capsys.readouterr().err
