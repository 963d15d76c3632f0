"""One epoch: topics, watches and single records at the same time, each judged at its end.

Of an epoch that fails, whatever the reason, the notes are kept in a file: processes are never again what they were.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from controller.client import connect
from linearizability.history import Progress
from linearizability.operations import Operation
from linearizability.recording import KILLS_PER_ROUND, record
from metastore.interface import OutcomeUnknown, Range, Unavailable, open_store
from soak.grounds import RECORDS_GROUND, SHARDS, TOPICS, WATCHED, Considerate, Grounds
from soak.judging import wrong_records
from soak.notes import FOLDER, Noted, Notes, NotesTooLarge, store
from topics_end_to_end.whole_cluster import Cluster
from topics_end_to_end.whole_evidence import Evidence
from topics_end_to_end.whole_plan import USE, Trouble, WholePlan
from topics_end_to_end.whole_run import WholeRun
from txn_histories import checker
from watch_contract import verdict
from watch_contract.line import Line
from watch_contract.stage import Plan, Stage
from watch_contract.troubles import Troubles, opener
from watch_contract.verdict import History

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

    @property
    def name(self) -> str:
        return f"epoch-{self.number}-{'calm' if self.is_calm else 'troubled'}"


Work = Callable[[Epoch, Counter[str]], Awaitable[None]]


@dataclass
class UnderWay:
    """What has been noted so far in the latest run of each kind; what they had before was judged, and was well."""

    topics: Callable[[], Evidence] | None = None
    watches: Callable[[], Noted[History]] | None = None
    records: Callable[[], Noted[list[Operation]]] | None = None

    def notes(self, of: str, failure: str) -> Notes:
        """As they are now, to be stored."""
        return Notes(
            of,
            failure,
            None if self.topics is None else self.topics().at_rest(),
            None if self.watches is None else self.watches(),
            None if self.records is None else self.records(),
        )


class NotingStage(Stage):
    """One that says what it has noted, also if it does not come to its end."""

    def noted(self) -> Noted[History]:
        """So far; there is no last look at the store in it."""
        return Noted(replace(self._history([]), final=None), is_over=False)


class Epochs:
    """On one set of processes."""

    def __init__(self, grounds: Grounds, cluster: Cluster, folder: Path = FOLDER) -> None:
        self._grounds = grounds
        self._cluster = cluster
        self._folder = folder
        self.under_way = UnderWay()
        self._rounds = 0
        self._stages = 0

    async def run(self, epoch: Epoch) -> Counter[str]:
        """What happened, by kind; raises what is wrong, with the epoch as a note, and where its notes are."""
        counts = Counter[str]({"epochs": 1})
        self.under_way = UnderWay()
        try:
            async with asyncio.TaskGroup() as group:
                topics = group.create_task(self._topics(epoch, counts))
                group.create_task(self._beside(topics, self._watches, epoch, counts))
                group.create_task(self._beside(topics, self._records, epoch, counts))
        except BaseException as error:
            error.add_note(f"{epoch}: {epoch.plan}")
            told = self._keep_notes(epoch, error)
            error.add_note(told)
            print(told)  # who ends a run by force may never see the error
            raise
        return counts

    def _keep_notes(self, epoch: Epoch, error: BaseException) -> str:
        """Says where they are."""
        try:
            path = store(self.under_way.notes(f"{epoch}: {epoch.plan}", repr(error)), epoch.name, self._folder)
        except NotesTooLarge as too_large:
            return f"its notes were not kept: {too_large}"
        return f"its notes are in {path}; to judge them again: make soak-judge NOTES={path}"

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
            self.under_way.topics = lambda: run.evidence
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
            stage = NotingStage(plan, opener(address), opener(f"{line.address}/{WATCHED}"))
            self.under_way.watches = stage.noted
            history = await stage.record(troubles.make)
            self.under_way.watches = lambda: Noted(history, is_over=True)
            findings = stage.judge(history)
        assert not findings.violations, verdict.report(findings)
        counts["watches: runs"] += 1
        counts.update({f"watches: {what}": count for what, count in findings.counts.items()})

    async def _records(self, epoch: Epoch, counts: Counter[str]) -> None:
        progress = Progress()
        self.under_way.records = lambda: Noted(progress.noted(), is_over=False)
        self._rounds += 1
        kills = 0 if epoch.is_calm else KILLS_PER_ROUND
        self._grounds.tell(progress)
        try:
            history = await asyncio.to_thread(
                record, Considerate(self._grounds), self._rounds, progress, kills, RECORDS_GROUND
            )
        finally:
            self._grounds.forget(progress)
        self.under_way.records = lambda: Noted(history, is_over=True)
        wrong = await asyncio.to_thread(wrong_records, history)
        assert not wrong, "\n".join(wrong)
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


def topics_url(grounds: Grounds) -> str:
    """Where brokers have their records."""
    return f"oxia://{grounds.address}/{TOPICS}"
