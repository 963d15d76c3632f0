"""A broker with all its clients in one process, which may be killed at any moment: what it noted before then counts.

One life: it opens a store, takes over what an earlier life left, works until it is killed or told to stop, and tells
every note at once. The last life brings everything to rest, and reads all of it.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from metastore.clock import SystemClock
from metastore.coordination import Pace
from metastore.faults import NO_FAULTS, ArmedFault
from metastore.interface import ALL, Environment, MetadataStore, open_store
from txn.coordinator.collector import Collector
from txn.hosting import Host, HostOptions
from txn.hosting.participants import StoredParticipants
from txn.hosting.places import STORED, local_place_of
from txn.model import paths
from txn.model.errors import TxnError
from txn.model.header import Header
from txn.model.position import Position
from txn.segment.entry import Entry
from txn.segment.log import LocalLogs, SegmentLogs, StoredLogs
from txn.segment.subscription import EndOfSegment, SubscriptionKind
from txn_histories.actors import Actors
from txn_histories.clients import Client
from txn_histories.consumers import attach, read
from txn_histories.recorder import Line, Recorder

OPTIONS = HostOptions(session_timeout_ms=2_000, turn_s=0.1, retention_ms=300)
TIMEOUT_MS_MAX = 1_500
CLIENT_HASTE = 50
"""How much faster than they think clients pause."""
SEGMENTS = tuple(f"segment://public/default/crashed/{name}" for name in ("a", "a-1"))
SUBSCRIPTIONS = ("sub-0", "sub-1", "shared", "fresh")
PATIENCE_S = 15.0
"""Of final readers, by the clients' time: nothing more will come."""
TRANSIENT = (f"{paths.HEADERS}/", f"{paths.OPERATIONS}/", f"{paths.APPLIED}/")
REST_WITHIN_S = 30.0

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Life:
    """What a process is started for."""

    number: int
    url: str
    directory: str
    is_local: bool
    """Where segments have their logs: in the directory, or in the store."""
    fault: str | None
    """POINT:COUNT at which it kills itself; None: the last life."""

    @property
    def name(self) -> str:
        """Of the broker: each life is another one."""
        return f"broker-{self.number}"

    def __str__(self) -> str:
        return f"life {self.number} of {self.name}, {'local' if self.is_local else 'stored'} logs, {self.fault}"


class OwnBroker:
    """The broker of this process."""

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self.host: Host | None = host

    async def call(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> T:
        return await function(*arguments, **options)


class Process:
    """The surroundings of this process's clients."""

    def __init__(self, life: Life, host: Host) -> None:
        self.seed = life.number
        self.timeout_ms_max = TIMEOUT_MS_MAX
        self.clock = SystemClock()
        self.pace = Pace(self.clock, random.Random(life.number), lambda seconds: asyncio.sleep(seconds / CLIENT_HASTE))
        self.serving: Sequence[OwnBroker] = [OwnBroker(life.name, host)]


def live(life: Life, notes: Connection) -> None:
    """The process's main function."""
    asyncio.run(_live(life, notes))


async def _live(life: Life, notes: Connection) -> None:
    def tell(line: Line) -> None:
        notes.send_bytes(json.dumps(line).encode())

    point, _, count = (life.fault or "").partition(":")
    faults = ArmedFault(point, int(count), "kill") if point else NO_FAULTS
    recorder = Recorder(f"-{life.name}", tick=time.monotonic_ns, tell=tell)
    root = Path(life.directory)
    async with await open_store(life.url, Environment()) as store:
        pace = Pace()
        local = LocalLogs(root / "segments", pace=pace, faults=faults)
        places: dict[str, SegmentLogs] = {
            local_place_of(root / "segments", pace): local,
            STORED: StoredLogs(store, pace=pace, faults=faults),
        }
        place = next(iter(places)) if life.is_local else STORED
        await look_at_headers(store, recorder)
        async with local, Host(store, places, life.name, life.name, options=OPTIONS, faults=faults) as host:
            work = Work(life, host, place, store, recorder)
            if life.fault is None:
                tell({"what": "rest", "tick": time.monotonic_ns(), **await work.come_to_rest()})
            else:
                await work.go_on_for_ever()


async def look_at_headers(store: MetadataStore, recorder: Recorder) -> None:
    """Notes how the transactions ended of which the life before was not told: before anybody collects them."""
    async for record in store.scan(ALL):
        if record.key.startswith(f"{paths.HEADERS}/"):
            header = Header.decode(record.value or b"")
            if not header.is_open:
                recorder.call("look", txn=str(paths.txn_id_of_key(record.key))).end(state=header.state.value)


class Work:
    """What is done in one life."""

    def __init__(self, life: Life, host: Host, place: str, store: MetadataStore, recorder: Recorder) -> None:
        self._life = life
        self._host = host
        self._place = place
        self._store = store
        self._recorder = recorder
        self._process = Process(life, host)
        self._client = self._make_client("gardener")

    def _make_client(self, name: str) -> Client:
        return Client(self._process, self._recorder, f"{name}-{self._life.name}")

    async def go_on_for_ever(self) -> None:
        """Everybody at once, until the process is killed."""
        for segment in SEGMENTS:
            if segment not in self._host.segments:
                await self._host.create(segment, self._place)
        actors = Actors(list(SEGMENTS), self._make_client)
        async with asyncio.TaskGroup() as tasks:
            for each in [*actors.all(), self._garden()]:
                tasks.create_task(_awaited(each))

    async def _garden(self) -> None:
        """Creates segments and subscriptions, claims and uses them, in transactions, seals, trims, and deletes them."""
        for segment in [name for name in self._host.segments if name not in SEGMENTS]:
            await self._insist(partial(self._host.delete, segment))
        for number in range(1_000_000):
            segment = f"segment://public/default/garden/{self._life.number}-{number}"
            await self._insist(partial(self._host.create, segment, self._place))
            reached = await self._client.reach(segment)
            await reached.segment.set_claim(number + 1, False)
            txn = await self._client.begin()
            sent = reached.segment.publish(Entry(b"planted", "gardener", 1, txn.txn_id))
            plain = reached.segment.publish(Entry(b"plain", "gardener", 2))
            await asyncio.gather(sent, plain, return_exceptions=True)
            passing = await reached.segment.subscribe("passing", Position(0, 0))
            await reached.segment.seal()
            await reached.segment.trim(Position(reached.segment.term, 1))
            assert passing.name == "passing"
            await reached.segment.unsubscribe("passing")
            await reached.segment.set_claim(number + 1, True)
            await self._insist(partial(self._host.delete, segment))

    async def _insist(self, work: Callable[[], Coroutine[Any, Any, object]]) -> None:
        """Tries again what may be tried again."""
        while True:
            try:
                await work()
                return
            except TxnError:
                await self._client.pause()

    # -- the last life

    async def come_to_rest(self) -> dict[str, object]:
        """Waits until nothing is left to be done, reads everything, and tells how it is."""
        for segment in [name for name in self._host.segments if name not in SEGMENTS]:
            await self._insist(partial(self._host.delete, segment))
        # The broker's own collector looks again after a while at what it found too early; this one does at once.
        collector = Collector(self._store, StoredParticipants(self._store), Pace(), retention_ms=0)
        collecting: asyncio.Task[None] | None = None
        end_s = time.monotonic() + REST_WITHIN_S
        while (left := await self._transient()) and time.monotonic() < end_s:
            await asyncio.sleep(0.05)
            is_settled = not any(key.startswith(f"{paths.OPERATIONS}/") for key in left)
            if is_settled and collecting is None:
                collecting = asyncio.ensure_future(collector.run())
        if collecting is not None:
            collecting.cancel()
        ends, oldest = {}, {}
        for segment in sorted(self._host.segments):
            await read(self._client, segment, is_final=True, patience_s=PATIENCE_S)
            for name in SUBSCRIPTIONS:
                await self._drain(segment, name)
            served = (await self._client.reach(segment)).segment
            ends[segment] = [str(served.stats.bound), str(served.stats.end)]
            oldest[segment] = str(served.first or served.stats.end)
        return {"ends": ends, "oldest": oldest, "leftovers": left}

    async def _transient(self) -> list[str]:
        return [key async for key in self._store.list(ALL) if key.startswith(TRANSIENT)]

    async def _drain(self, segment: str, name: str) -> None:
        kind = SubscriptionKind.SHARED if name == "shared" else SubscriptionKind.EXCLUSIVE
        taking = await attach(self._client, segment, name, kind, is_final=True)
        assert taking is not None, "in the end nobody is disturbed"
        try:
            while await taking.receive(PATIENCE_S, messages_max=100):
                pass
        except EndOfSegment:
            return
        await taking.aclose()


async def _awaited(work: Any) -> None:
    await work
