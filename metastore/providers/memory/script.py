"""What goes wrong, and when: the faults that a test writes down for the stores it gives them to.

    script = Script()
    store = MemoryStore(data, Environment(faults=script))
    script.fail("put", Unavailable("no leader"), prefix="/txn/", times=2)      # the next two, before they apply
    script.fail("put", OutcomeUnknown("cut"), prefix="/txn/", after=True)      # one more that applies, and fails
    lost = script.lose("put", prefix="/txn/")                                  # one that fails, and applies later...
    lost.arrive()                                                              # ...namely now, or never
    gate = script.hold("transact")                                             # all of them wait, until released
    await gate.arrived()
    gate.release()

Every call passes two points: `before` it takes effect and `after` it did (and before the caller learns of it). A call
that reads all shards passes them once for each, a watch passes `before` ahead of every batch. Held calls can be
cancelled, and end when their store is closed. What a plain `Faults` object does at `memory.METHOD.MOMENT` is told as
a store would: a full disk as StoreFull, any other OSError as Unavailable, or as OutcomeUnknown behind a write.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from metastore.faults import NO_FAULTS, Faults
from metastore.interface import OutcomeUnknown, StoreError, StoreFull, Unavailable
from metastore.providers.memory.bells import Bells, wait_until

WRITES = ("put", "delete", "delete_range", "transact")
METHODS = (*WRITES, "get", "list", "scan", "open_session", "close_session", "watch", "watch_sequence")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A call at one of its two points; of a range the keys are its bounds, of a transaction all it names."""

    method: str
    is_after: bool
    keys: tuple[str, ...]

    @property
    def point(self) -> str:
        return f"memory.{self.method}.{'after' if self.is_after else 'before'}"

    def lost(self, message: str) -> StoreError:
        """What the caller is told when the connection breaks at this point."""
        return OutcomeUnknown(message) if self.is_after and self.method in WRITES else Unavailable(message)


@dataclass(frozen=True, slots=True)
class _Filter:
    """Which arrivals something is about."""

    method: str
    prefix: str
    is_after: bool

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"no method is called {self.method!r}: one of {', '.join(METHODS)}")

    def matches(self, arrival: Arrival) -> bool:
        if (arrival.method, arrival.is_after) != (self.method, self.is_after):
            return False
        return not self.prefix or any(key.startswith(self.prefix) for key in arrival.keys)


@dataclass(slots=True)
class _Failure:
    filter: _Filter
    error: StoreError
    skip: int
    times: int | None


@dataclass(eq=False, slots=True)
class Held:
    """A call that waits at a gate."""

    arrival: Arrival
    may_go: bool = False


class Gate:
    """Holds the calls that arrive until it is released: so a test decides what happens in between."""

    def __init__(self, filter: _Filter) -> None:
        self.filter = filter
        self.is_open = False
        self.held: list[Held] = []
        """The calls that wait here now, in their order."""
        self._arrivals = 0
        self._bells = Bells()

    async def arrived(self, count: int = 1) -> None:
        """Returns when so many calls have come here, since the beginning."""
        await wait_until(lambda: self._arrivals >= count, self._bells)

    def release(self, count: int | None = None) -> None:
        """Lets the first that wait here go on; without a count all of them, and those that are yet to come."""
        self.is_open = self.is_open or count is None
        for held in self.held[:count]:
            held.may_go = True
        self._bells.ring()

    async def hold(self, arrival: Arrival, is_over: Callable[[], bool], *others: Bells) -> None:
        """Returns when the call may go on; or when it is over, which one of the other groups tells."""
        held = Held(arrival, may_go=self.is_open)
        self._arrivals += 1
        self.held.append(held)
        self._bells.ring()
        try:
            await wait_until(lambda: held.may_go or is_over(), self._bells, *others)
        finally:
            self.held.remove(held)


class LostWrites:
    """Writes whose callers have been told OutcomeUnknown, and that are still on their way."""

    def __init__(self) -> None:
        self.outcomes: list[StoreError | None] = []
        """What became of those that have arrived; nobody but the test hears of it."""
        self._under_way: list[Callable[[], object]] = []

    def add(self, apply: Callable[[], object]) -> None:
        self._under_way.append(apply)

    def arrive(self) -> None:
        """All of them take effect, or are refused, in their order."""
        writes, self._under_way = self._under_way, []
        for apply in writes:
            try:
                apply()
            except StoreError as error:
                self.outcomes.append(error)
            else:
                self.outcomes.append(None)


@dataclass(slots=True)
class _Loss:
    filter: _Filter
    writes: LostWrites
    times: int


class Script(Faults):
    """Scripted faults; several stores may share one."""

    def __init__(self, beneath: Faults = NO_FAULTS) -> None:
        self.arrivals: Counter[str] = Counter()
        """How many calls have come to each point, `memory.put.before` and so on."""
        self._beneath = beneath
        self._failures: list[_Failure] = []
        self._gates: list[Gate] = []
        self._losses: list[_Loss] = []

    def fail(
        self,
        method: str,
        error: StoreError,
        *,
        prefix: str = "",
        after: bool = False,
        skip: int = 0,
        times: int | None = 1,
    ) -> None:
        """The next calls whose key has that prefix fail, having done nothing, or `after` having done it all.

        The first `skip` of them still succeed; `times` None means all, until the script is cleared.
        """
        self._failures.append(_Failure(_Filter(method, prefix, after), error, skip, times))

    def hold(self, method: str, *, prefix: str = "", after: bool = False) -> Gate:
        """The next calls whose key has that prefix wait, before they do anything or `after` they did it."""
        gate = Gate(_Filter(method, prefix, after))
        self._gates.append(gate)
        return gate

    def lose(self, method: str, *, prefix: str = "", times: int = 1) -> LostWrites:
        """The next writes to such a key have an unknown outcome: they arrive when the test says so, or never."""
        assert method in WRITES, "only writes have an outcome that can be unknown"
        loss = _Loss(_Filter(method, prefix, False), LostWrites(), times)
        self._losses.append(loss)
        return loss.writes

    def clear(self) -> None:
        """Nothing goes wrong any more; what is still held goes on, what is lost is not found."""
        self._failures.clear()
        self._losses.clear()
        for gate in self._gates:
            gate.release()
        self._gates.clear()

    def reach(self, point: str) -> None:
        self._beneath.reach(point)

    async def pass_gates(self, arrival: Arrival, is_over: Callable[[], bool], *bells: Bells) -> None:
        """Waits wherever the call is held."""
        self.arrivals[arrival.point] += 1
        for gate in [gate for gate in self._gates if gate.filter.matches(arrival)]:
            await gate.hold(arrival, is_over, *bells)

    def check_lost(self, arrival: Arrival, apply: Callable[[], object]) -> None:
        """Raises OutcomeUnknown for a write that is to be lost, and keeps it for later."""
        for loss in self._losses:
            if loss.filter.matches(arrival):
                loss.writes.add(apply)
                loss.times -= 1
                if not loss.times:
                    self._losses.remove(loss)
                raise OutcomeUnknown(f"{arrival.method} of {', '.join(arrival.keys)}: the answer was lost")

    def strike(self, arrival: Arrival) -> None:
        """Raises the error that this call is to have, if any."""
        for failure in self._failures:
            if failure.filter.matches(arrival):
                if failure.skip:
                    failure.skip -= 1
                    continue
                if failure.times is not None:
                    failure.times -= 1
                    if not failure.times:
                        self._failures.remove(failure)
                raise failure.error
        try:
            self.reach(arrival.point)
        except OSError as error:
            if error.errno == errno.ENOSPC and not arrival.is_after:
                raise StoreFull(f"{arrival.point}: {error}") from error
            raise arrival.lost(f"{arrival.point}: {error}") from error
