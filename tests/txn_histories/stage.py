"""The stage of a simulation: brokers in one process over one store in memory, and a time that passes when told to.

A broker that is killed ends at once, wherever it is: its line to the store is closed, its tasks are cancelled, and the
store ends its session when its time is over. One that is frozen does nothing and hears nothing, its clock stands still;
when it thaws its clock is right at once, and it goes on where it was. One that is cut off goes on without the store.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from metastore.clock import ManualClock
from metastore.coordination import Pace
from support.world import Process, Sleeper, World
from txn.hosting.host import Host, HostOptions
from txn.hosting.places import STORED
from txn.model.errors import SegmentUnavailable
from txn.segment.log import StoredLogs

TURNS_MAX = 40
"""Turns of the event loop between two steps of the time: so much, or less, happens in between."""
STEP_MS_MAX = 200
TIMEOUT_MS_MAX = 60_000

T = TypeVar("T")
P = ParamSpec("P")


def heard(task: asyncio.Future[Any]) -> None:
    """What comes of a task is taken note of, also if nobody waits for it any more."""
    if not task.cancelled():
        task.exception()


class ConnectionLost(SegmentUnavailable):
    """What a client is told of a broker that is gone: nothing."""


class SimulatedBroker:
    """A broker, from its start to its death."""

    def __init__(self, process: Process, name: str, options: HostOptions, clock: ManualClock) -> None:
        self.name = name
        self.process = process
        self.is_dead = False
        self.host: Host | None = None
        """None until it has started."""
        self._options = options
        self._true_clock = clock
        self._calls: set[asyncio.Task[Any]] = set()
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._task = asyncio.ensure_future(self._serve())

    @property
    def is_frozen(self) -> bool:
        return not self._thawed.is_set()

    async def _serve(self) -> None:
        process = self.process
        logs = {STORED: StoredLogs(process.store, pace=process.pace)}
        host = Host(process.store, logs, self.name, f"{self.name}:1", pace=process.pace, options=self._options)
        async with host:
            self.host = host
            await asyncio.Event().wait()

    async def call(self, function: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> T:
        """A client's call, which ends with the broker, and waits with it."""
        await self._thawed.wait()
        self._require_alive()
        task = asyncio.ensure_future(function(*arguments, **options))
        task.add_done_callback(heard)
        self._calls.add(task)
        try:
            result = await task
            await self._thawed.wait()
        except asyncio.CancelledError:
            task.cancel()
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise  # it is the caller who was cancelled
            raise ConnectionLost(f"{self.name} has died") from None
        finally:
            self._calls.discard(task)
        self._require_alive()
        return result

    def _require_alive(self) -> None:
        if self.is_dead:
            raise ConnectionLost(f"{self.name} is gone")

    def end(self, *, kill: bool) -> None:
        """It ends: in good order, or here and now, so that nothing of it reaches the store any more."""
        self.is_dead = True
        if kill:
            self.process.store.line.close()
            self.process.script.clear()
        for task in [self._task, *self._calls]:
            task.cancel()
        if kill:
            # Whatever it would have liked to do yet, nobody hears of it.
            self._task.add_done_callback(heard)
        self.thaw()

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it runs any more."""
        return self._task.done() and not self._calls

    def freeze(self) -> None:
        self._thawed.clear()
        self.process.store.line.cut()

    def thaw(self) -> None:
        self.set_clock()
        self.process.store.line.mend()
        self._thawed.set()

    def set_clock(self) -> None:
        """Its clock goes right from now on."""
        clock = self.process.clock
        clock.advance_ms(round((self._true_clock.monotonic_s() - clock.monotonic_s()) * 1000))

    def check(self) -> None:
        """Raises what has ended it, if anything has but a test."""
        if self._task.done() and not self._task.cancelled():
            self._task.result()
            raise AssertionError(f"{self.name} has ended by itself")


class Stage:
    """All brokers of a simulation, and its time."""

    def __init__(self, world: World, seed: int, options: HostOptions) -> None:
        self.world = world
        self.seed = seed
        self.random = random.Random(seed)
        self.brokers: list[SimulatedBroker] = []
        """Those that live, in the order in which they were started."""
        self.ending: list[SimulatedBroker] = []
        """Those that were told to end."""
        self._stopping: list[SimulatedBroker] = []
        """Those of them that are to end in good order."""
        self.clock = ManualClock(world.clock.wall_ms(), world.clock.monotonic_s())
        self._sleeper = Sleeper(self.clock)
        self.pace = Pace(self.clock, random.Random(seed + 1), self._sleeper.sleep)
        """That of the clients."""
        self.timeout_ms_max = TIMEOUT_MS_MAX
        self._options = options
        self._number = 0

    def start_broker(self) -> SimulatedBroker:
        """Another broker; it has a name of its own."""
        self._number += 1
        broker = self.make_broker(self.world.process(), f"broker-{self._number}")
        self.brokers.append(broker)
        return broker

    def make_broker(self, process: Process, name: str) -> SimulatedBroker:
        """A broker that begins to serve."""
        return SimulatedBroker(process, name, self._options, self.clock)

    def end_broker(self, broker: SimulatedBroker, *, kill: bool) -> None:
        """It stops, for which it needs some time; or dies."""
        self.brokers.remove(broker)
        self.ending.append(broker)
        broker.end(kill=kill)
        if not kill:
            self._stopping.append(broker)

    @property
    def serving(self) -> list[SimulatedBroker]:
        """The brokers that have started and are not dead; a frozen one as well."""
        return [broker for broker in self.brokers if broker.host is not None]

    async def step(self, milliseconds: int | None = None) -> None:
        """Something happens, and then a little time passes."""
        for _ in range(self.random.randint(1, TURNS_MAX)):
            await asyncio.sleep(0)
        passed_ms = self.random.randint(1, STEP_MS_MAX) if milliseconds is None else milliseconds
        self.world.clock.advance_ms(passed_ms)
        self.clock.advance_ms(passed_ms)
        running = [broker for broker in [*self.brokers, *self.ending] if not broker.is_frozen]
        for broker in running:
            broker.set_clock()
        self.world.data.tick()
        for broker in running:
            broker.process.sleeper.wake()
        self._sleeper.wake()
        for broker in [*self.brokers, *self._stopping]:
            broker.check()

    async def close(self) -> None:
        """All of them die, and leave nothing behind that runs."""
        for broker in list(self.brokers):
            self.end_broker(broker, kill=True)
        await self.until(lambda: all(broker.is_gone for broker in self.ending))

    async def until(self, is_so: Callable[[], bool], steps_max: int = 3_000) -> None:
        """Lets time pass until something is so."""
        for _ in range(steps_max):
            if is_so():
                return
            await self.step()
        raise AssertionError(f"it does not come to pass within {steps_max} steps: {is_so}")
