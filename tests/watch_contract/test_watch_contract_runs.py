"""The watch contract on stores in this process: lines cut, logs trimmed under lagging tokens, clocks set back.

TIDEMARK_WATCH_ROUNDS is the number of runs of each kind, by default 1; each takes less than a second. A run is named by
its seed, which decides everything that writers and watchers do.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from metastore.clock import ManualClock, SystemClock
from metastore.engine.shard import ShardOptions
from metastore.interface import Environment, MetadataStore
from metastore.log import LogOptions
from metastore.providers.local.data import OpenDirectory
from metastore.providers.local.settings import Settings
from metastore.providers.local.store import LocalStore
from metastore.providers.memory import MemoryData, MemoryStore, Part
from support.local_shard import SMALL_STORE
from watch_contract.coalesced_stage import CoalescedStage
from watch_contract.stage import OpenStore, Plan, Stage, Trouble
from watch_contract.verdict import report
from watch_contract.violations import Findings

RUNS = int(os.environ.get("TIDEMARK_WATCH_ROUNDS", "1"))
SMALL_LOG = LogOptions(
    segment_bytes_max=16 << 10, step_bytes_min=4 << 10, step_bytes_max=8 << 10, reserve_bytes=4 << 10, sync=False
)
WRITES_BETWEEN_MAX = 25
WATCHERS = 12
LEAST = {"changes": 500, "resumes": 5}
CLOCK_STEPS_MS = (-3_600_000, -1, 0, 1, 1_000, 3_600_000)


class JumpingClock(SystemClock):
    """The machine's, but the time of day is what a test makes of it."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


class MemoryTroubles:
    """Cuts the line of the watchers, and trims what the witness has seen."""

    def __init__(self, data: MemoryData, seed: int) -> None:
        self.cuts = 0
        self._data = data
        self._random = random.Random(seed)
        self._watched: list[MemoryStore] = []

    def opener(self, lacks: tuple[str, ...] = (), is_watched: bool = False) -> OpenStore:
        """Opens stores; those of watchers are remembered."""

        @asynccontextmanager
        async def open_one() -> AsyncIterator[MetadataStore]:
            async with MemoryStore(self._data, Environment(self._data.clock), lacks=lacks) as store:
                if is_watched:
                    self._watched.append(store)
                yield store

        return open_one

    def trouble(self, trims: bool) -> Trouble:
        """Until all is written."""

        async def make(stage: Stage) -> None:
            for _ in range(stage.plan.rounds // 4):
                await stage.notes.until_written(self._random.randint(1, WRITES_BETWEEN_MAX))
                for store in self._watched:
                    store.line.cut(Part.WATCHES)
                self.cuts += 1
                await stage.notes.until_written(self._random.randint(0, WRITES_BETWEEN_MAX))
                if trims:
                    self._trim(stage.witness_offsets)
                for store in self._watched:
                    store.line.mend()

        return make

    def _trim(self, seen: list[int]) -> None:
        for shard, offset in zip(self._data.shards, seen, strict=True):
            shard.trim(max(self._random.randint(0, 2 * WRITES_BETWEEN_MAX), shard.next_offset - offset))


def run_in_memory(seed: int, sorting: str, trims: bool) -> tuple[Findings, int]:
    """A run on three shards, and how often the line was cut."""
    clock = ManualClock()
    data = MemoryData(shards=3, key_sorting=sorting, clock=clock)
    troubles = MemoryTroubles(data, seed)
    least = {"changes": 500, "expiries": 1} if trims else {"changes": 500, "resumes": 5}
    plan = Plan(
        seed,
        3,
        rounds=160,
        least=least,
        watchers=WATCHERS,
        sorting=sorting,
        clock=clock,
        retention_ms=0 if trims else None,
    )
    stage = Stage(plan, troubles.opener(), troubles.opener(is_watched=True))
    return asyncio.run(stage.run(troubles.trouble(trims))), troubles.cuts


@pytest.mark.parametrize("sorting", ["hierarchical", "natural"])
def test_watchers_in_memory_that_are_cut_off_see_everything_once(sorting: str) -> None:
    counts = Counter[str]()
    for seed in range(RUNS):
        findings, cuts = run_in_memory(seed, sorting, trims=False)
        assert not findings.violations, f"seed {seed}: {report(findings)}"
        counts.update(findings.counts, cuts=cuts)
    print(dict(counts))
    # So much is planned, and every watcher has to begin with a snapshot.
    assert counts["changes"] >= 500 * RUNS
    assert counts["resumes"] >= 5 * RUNS
    assert counts["cuts"] == 40 * RUNS
    assert counts["snapshots"] >= WATCHERS * RUNS


def test_watchers_in_memory_are_told_what_was_trimmed_under_them() -> None:
    counts = Counter[str]()
    for seed in range(100, 100 + RUNS):
        findings, _ = run_in_memory(seed, "hierarchical", trims=True)
        assert not findings.violations, f"seed {seed}: {report(findings)}"
        counts.update(findings.counts)
    print(dict(counts))
    assert counts["changes"] >= 500 * RUNS
    assert counts["expiries"] >= RUNS


def test_a_store_that_tells_several_changes_as_one_keeps_the_rest_of_the_contract() -> None:
    counts = Counter[str]()
    for seed in range(200, 200 + RUNS):
        clock = ManualClock()
        troubles = MemoryTroubles(MemoryData(shards=3, clock=clock), seed)
        watched = troubles.opener(("every_change",), is_watched=True)
        plan = Plan(seed, 3, rounds=160, least=LEAST, watchers=WATCHERS, clock=clock)
        stage = CoalescedStage(plan, troubles.opener(), watched)
        findings = asyncio.run(stage.run(troubles.trouble(trims=False)))
        assert not findings.violations, f"seed {seed}: {report(findings)}"
        counts.update(findings.counts)
    print(dict(counts))
    assert counts["changes"] >= 500 * RUNS
    assert counts["resumes"] >= 5 * RUNS


def run_embedded(path: Path, plan: Plan, environment: Environment, trouble: Trouble | None = None) -> Findings:
    """A run on one store object, which all share."""
    retention_ms = 1 << 40 if plan.retention_ms is None else plan.retention_ms
    options = ShardOptions(retention_ms=retention_ms, store=SMALL_STORE, log=SMALL_LOG)
    settings = Settings(path, "default", plan.shards, None, options)

    async def run() -> Findings:
        async with LocalStore(OpenDirectory(settings, environment)) as store:

            @asynccontextmanager
            async def lend() -> AsyncIterator[MetadataStore]:
                yield store

            return await Stage(plan, lend).run(trouble)

    return asyncio.run(run())


@pytest.mark.parametrize("retention_ms", [None, 0])
def test_watchers_of_an_embedded_store(tmp_path: Path, retention_ms: int | None) -> None:
    """Without a retention its log is trimmed all the time, under the tokens of those who lag."""
    counts = Counter[str]()
    for seed in range(300, 300 + RUNS):
        plan = Plan(seed, 2, rounds=80, least=LEAST, retention_ms=retention_ms)
        findings = run_embedded(tmp_path / str(seed), plan, Environment())
        assert not findings.violations, f"seed {seed}: {report(findings)}"
        counts.update(findings.counts)
    print(dict(counts))
    assert counts["changes"] >= 500 * RUNS
    assert counts["resumes"] >= 5 * RUNS


def test_a_clock_that_is_set_back_changes_nothing(tmp_path: Path) -> None:
    """Times are told as they were; order, tokens and trimming do not go by them."""
    counts = Counter[str]()
    for seed in range(400, 400 + RUNS):
        clock = JumpingClock()
        choice = random.Random(seed)

        async def turn(stage: Stage, clock: JumpingClock = clock, choice: random.Random = choice) -> None:
            while not stage.notes.are_writers_done and len(stage.notes.writes) < 150:
                await stage.notes.until_written(1)
                clock.ahead_ms = choice.choice(CLOCK_STEPS_MS)

        findings = run_embedded(tmp_path / str(seed), Plan(seed, 2, least=LEAST, clock=clock), Environment(clock), turn)
        assert not findings.violations, f"seed {seed}: {report(findings)}"
        counts.update(findings.counts)
    assert counts["changes"] >= 500 * RUNS
