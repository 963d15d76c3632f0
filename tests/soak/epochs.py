"""One epoch: topics, watches and single records at the same time, each judged at its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from controller.client import connect
from linearizability.history import Progress
from linearizability.operations import Operation
from linearizability.recording import KILLS_PER_ROUND, record
from linearizability.report import violations
from linearizability.versions import wrong_version_ids
from metastore.interface import OutcomeUnknown, Range, Unavailable, open_store
from soak.grounds import RECORDS_GROUND, SHARDS, TOPICS, WATCHED, Considerate, Grounds
from topics_end_to_end.whole_cluster import Cluster
from topics_end_to_end.whole_plan import USE, Trouble, WholePlan
from topics_end_to_end.whole_run import WholeRun
from txn_histories import checker
from watch_contract import verdict
from watch_contract.line import Line
from watch_contract.stage import Plan, Stage
from watch_contract.troubles import Troubles, opener

SEEDS_APART = 6
LOGS = "local"
OF_ALL = 1
"""Seeds with this remainder have topics that split and merge by themselves, and keep what judges read again."""
STORE_KILLS = {Trouble.KILL_STORE: 2}
PATIENCE = "request_timeout=60s"
"""Everything may be away at once."""
EMPTYINGS_MAX = 10
WELL_MESSAGES = 10
WATCH_KILLS, WATCH_BREAKS = 1, 6
WATCH_LEAST = {"changes": 300, "resumes": 4}
ALL_KEYS = Range("", "/" * 40 + "~")
"""The order begins with how many slashes there are."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one is to be."""

    number: int
    is_calm: bool
    use: Mapping[Trouble, int] | None = None
    """What is done to topics; where it is given, brokers are spared."""

    @property
    def seed(self) -> int:
        return OF_ALL + SEEDS_APART * self.number

    @property
    def plan(self) -> WholePlan:
        use = USE if self.use is None else self.use
        has_faults = not self.is_calm and self.use is None
        return WholePlan(LOGS, self.seed, use if self.is_calm else {**use, **STORE_KILLS}, has_faults)


Work = Callable[[Epoch, Counter[str]], Awaitable[None]]


class Epochs:
    """On one set of processes."""

    def __init__(self, grounds: Grounds, cluster: Cluster) -> None:
        self._grounds = grounds
        self._cluster = cluster
        self._rounds = 0
        self._stages = 0

    async def run(self, epoch: Epoch) -> Counter[str]:
        """What happened, by kind; raises what is wrong, with the epoch as a note."""
        counts = Counter[str]({"epochs": 1})
        try:
            async with asyncio.TaskGroup() as group:
                topics = group.create_task(self._topics(epoch, counts))
                group.create_task(self._beside(topics, self._watches, epoch, counts))
                group.create_task(self._beside(topics, self._records, epoch, counts))
        except BaseException as error:
            error.add_note(f"{epoch}: {epoch.plan}")
            raise
        return counts

    @staticmethod
    async def _beside(topics: asyncio.Task[None], work: Work, epoch: Epoch, counts: Counter[str]) -> None:
        """Again and again, until the topics are done; kills the first time only: brokers need a service, too."""
        while True:
            await work(epoch, counts)
            if topics.done():
                return
            epoch = replace(epoch, is_calm=True)

    async def _topics(self, epoch: Epoch, counts: Counter[str]) -> None:
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(await connect(f"{self._cluster.url}?{PATIENCE}")) for _ in range(3)
            ]
            run = WholeRun(epoch.plan, self._cluster, clients)
            watching = asyncio.create_task(self._tell_when_well(run))
            try:
                findings = await run.run()
            finally:
                watching.cancel()
                self._grounds.all_are_well()
            assert not findings.violations, checker.report(findings)
            await run.remove()
            counts.update({f"topics: {what}": count for what, count in findings.counts.items() if "ms" not in what})

    async def _tell_when_well(self, run: WholeRun) -> None:
        """Whenever messages have been confirmed."""
        while True:
            await run.wait_confirmed(WELL_MESSAGES)
            self._grounds.all_are_well()

    async def _watches(self, epoch: Epoch, counts: Counter[str]) -> None:
        """On a namespace that has been emptied: the witness has to know all records."""
        self._stages += 1
        address = f"{self._grounds.address}/{WATCHED}"
        await empty(address)
        # Then without waiting: a run is to be over before sessions expire that nobody ended.
        await asyncio.to_thread(self._grounds.wait_until_all_are_well)
        async with Line(self._grounds.server.port) as line:
            seed = SEEDS_APART * self._stages
            kills, breaks = (0, 0) if epoch.is_calm else (WATCH_KILLS, WATCH_BREAKS)
            plan = Plan(seed, SHARDS[WATCHED], rounds=60, least={} if epoch.is_calm else WATCH_LEAST)
            troubles = Troubles(self._grounds, line, seed, kills, breaks)
            stage = Stage(plan, opener(address), opener(f"{line.address}/{WATCHED}"))
            findings = await stage.run(troubles.make)
        assert not findings.violations, verdict.report(findings)
        counts["watches: runs"] += 1
        counts.update({f"watches: {what}": count for what, count in findings.counts.items()})

    async def _records(self, epoch: Epoch, counts: Counter[str]) -> None:
        progress = Progress()
        self._rounds += 1
        kills = 0 if epoch.is_calm else KILLS_PER_ROUND
        self._grounds.tell(progress)
        try:
            history = await asyncio.to_thread(
                record, Considerate(self._grounds), self._rounds, progress, kills, RECORDS_GROUND
            )
        finally:
            self._grounds.forget(progress)
        await asyncio.to_thread(judge_records, history)
        counts["records: rounds"] += 1
        counts["records: operations"] += len(history)
        counts["records: without an answer"] += sum(each.answer is None for each in history)


async def empty(address: str) -> None:
    """Removes all records of a namespace, whatever befalls its service meanwhile."""
    async with await open_store(f"oxia://{address}") as store:
        for _ in range(EMPTYINGS_MAX):
            try:
                await store.delete_range(ALL_KEYS)
                assert not [key async for key in store.list()]
            except (Unavailable, OutcomeUnknown):
                continue
            return
    raise AssertionError(f"{address} was not emptied in {EMPTYINGS_MAX} attempts")


def judge_records(history: list[Operation]) -> None:
    """Whether it can have happened in one order."""
    found = violations(history)
    assert not found, "\n".join(map(str, found))
    wrong = wrong_version_ids(history)
    assert not wrong, wrong[:10]


def topics_url(grounds: Grounds) -> str:
    """Where brokers have their records."""
    return f"oxia://{grounds.address}/{TOPICS}"
