"""The processes of a run, and what the store says of them: who is there, who has what."""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from controller.layout import NamespaceName
from controller.topics import paths
from metastore.coordination import Pace, View
from metastore.interface import ALL, BatchKind, MetadataStore, Range, children_of, open_store
from support.broker_process import BrokerProcess
from support.server import ServerProcess
from topics_end_to_end.whole_plan import BROKERS, WholePlan
from topics_simulation.topic_notes import Gone, Shape
from topics_simulation.topic_observer import shape
from txn.model import paths as txn_paths
from txn.posts.brokers import GROUP
from txn.segment.bell import Bell

SESSION_MS = 2_000
EAGER = (
    *("--scalable-topic-auto-scale-interval-s", "1", "--scalable-topic-load-report-interval-s", "0.5"),
    *("--scalable-topic-split-cooldown-s", "2", "--scalable-topic-merge-cooldown-s", "2"),
    *("--scalable-topic-merge-window-s", "2", "--scalable-topic-max-segments", "5"),
    *("--scalable-topic-split-msg-rate-in-threshold", "40", "--scalable-topic-merge-msg-rate-in-threshold", "8"),
    *("--scalable-topic-split-msg-rate-out-threshold", "4000", "--scalable-topic-merge-msg-rate-out-threshold", "800"),
)


def _arguments(plan: WholePlan, data: Path) -> list[str]:
    return [
        *("--log", plan.log, "--data-dir", str(data), "--session-timeout-ms", str(SESSION_MS)),
        *("--scalable-topic-retention-minutes", str(plan.retention_minutes)),
        *("--scalable-topic-consumer-session-grace-period-s", "4"),
        *("--scalable-topic-producer-claim-grace-period-s", "2"),
        *(EAGER if plan.is_eager else ("--no-scalable-topic-auto-scale-enabled",)),
    ]


class Watched:
    """A range of the store as it is."""

    def __init__(self, store: MetadataStore, range: Range, index: str | None = None) -> None:
        self._view = View(store, range, index=index, pace=Pace())
        self._bell = Bell()
        self.is_known = False

    async def run(self) -> None:
        """Follows it."""
        async with self._view as view:
            while True:
                await view.news()
                self.is_known = True
                self._bell.ring()

    def of(self, broker: str) -> list[str]:
        """The keys whose grant a broker has."""
        return [key for key, record in self._view.records.items() if _names(record.value or b"", broker)]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Returns when that is so."""
        await self._bell.until(lambda: self.is_known and holds())


def _names(value: bytes, broker: str) -> bool:
    told = json.loads(value.partition(b"\n")[2])
    return broker in (told.get("broker"), told.get("address"))


class Cluster:
    """The brokers of a run."""

    def __init__(self, store: MetadataStore, brokers: list[BrokerProcess], kill_store: Callable[[], None]) -> None:
        self.store = store
        self.brokers = brokers
        self.kill_store = kill_store
        """Kills the metadata service, and returns when it serves again."""
        self.moved_ms: list[int] = []
        """How long it took until others had what a broker had had that was killed or frozen."""
        self._present = Watched(store, children_of(GROUP))
        self._owners = Watched(store, children_of(txn_paths.OWNERS))
        self._leaders = Watched(store, ALL, paths.LEADERS_BY_TOPIC)

    @property
    def url(self) -> str:
        """Where clients come."""
        return "tidemark://" + ",".join(each.address for each in self.brokers)

    async def run(self) -> None:
        """Follows what the store says."""
        await asyncio.gather(self._present.run(), self._owners.run(), self._leaders.run())

    async def start(self, broker: BrokerProcess) -> None:
        """Returns when it serves, and the others know."""
        broker.start()
        await broker.ready()
        await self.wait_present(broker)

    async def wait_present(self, broker: BrokerProcess) -> None:
        """Returns when the others know it."""
        await self._present.until(lambda: bool(self._present.of(broker.address)))

    async def wait_forgotten(self, broker: BrokerProcess) -> None:
        """Returns when its session is over."""
        await self._present.until(lambda: not self._present.of(broker.address))

    async def wait_moved(self, broker: BrokerProcess) -> None:
        """Returns when it has no segment and leads no topic."""
        since_s = time.monotonic()
        await self.wait_forgotten(broker)
        await self._owners.until(lambda: not self._owners.of(broker.address))
        await self._leaders.until(lambda: not self._leaders.of(broker.address))
        self.moved_ms.append(round((time.monotonic() - since_s) * 1000))

    def has(self, broker: BrokerProcess) -> list[str]:
        """What a broker has."""
        return [*self._owners.of(broker.address), *self._leaders.of(broker.address)]


async def watch_shapes(
    store: MetadataStore, parent: NamespaceName, tick: Callable[[], int], tell: Callable[[Shape | Gone], None]
) -> None:
    """Tells every layout of a namespace's topics, in their order."""
    watch = store.watch(children_of(parent.path))
    async with watch:
        async for batch in watch:
            if batch.kind is BatchKind.SNAPSHOT:
                there = [each.key for each in batch.records if paths.is_topic_key(each.key) and each.value]
                assert not there, f"the watch begins before there is any topic: {there}"
            for change in batch.changes:
                if not paths.is_topic_key(change.key):
                    continue
                name = paths.topic_of_key(change.key)
                if change.record is None or not change.record.value:
                    tell(Gone(tick(), str(name)))
                else:
                    tell(shape(tick(), name, change.record.value))


@asynccontextmanager
async def clustered(plan: WholePlan) -> AsyncIterator[Cluster]:
    """A metadata service, and brokers that serve."""
    with ServerProcess(shards=1 + plan.seed % 3) as server:
        async with brokers_on(f"oxia://{server.address}", plan, lambda: server.restart("kill")) as cluster:
            yield cluster


@asynccontextmanager
async def brokers_on(url: str, plan: WholePlan, kill_store: Callable[[], None]) -> AsyncIterator[Cluster]:
    """Brokers that serve, on a metadata service that is there."""
    async with AsyncExitStack() as stack:
        folder = tempfile.TemporaryDirectory(prefix="tidemark-whole-", ignore_cleanup_errors=True)
        data = Path(stack.enter_context(folder))
        brokers = [stack.enter_context(BrokerProcess(url, *_arguments(plan, data))) for _ in range(BROKERS)]
        await asyncio.gather(*(each.ready() for each in brokers))
        cluster = Cluster(await stack.enter_async_context(await open_store(url)), brokers, kill_store)
        running = asyncio.create_task(cluster.run())
        try:
            for each in brokers:
                await cluster.wait_present(each)
            yield cluster
        except BaseException as error:
            for each in brokers:
                error.add_note(f"the log of {each.address} ends with:\n{each.log[-3000:]}")
            raise
        finally:
            running.cancel()
            await asyncio.wait([running])
