"""What the application has of a queue and has not settled: how long it may take, and what it gave back. Pure.

Each message is in one of three states: in work, given back until its time has come, or being acknowledged. A copy of
any of them is not handed out.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from controller.client.consumers.redelivery import AT_ONCE, Agenda, RedeliveryBackoff
from controller.client.values import Part

K = TypeVar("K")

IN_WORK_MAX = 100_000
"""Messages that one consumer has and has not settled; then it is handed no more."""


class State(Enum):
    """Of a message that was handed out."""

    IN_WORK = "in work"
    GIVEN_BACK = "given back"
    ACKNOWLEDGING = "acknowledging"


class Came(NamedTuple):
    """The delivery by which a message came."""

    turn: int
    """Of its segment's consumer: what came over an earlier stream comes again by itself."""
    redeliveries: int
    part: Part | None = None
    """Of its entry, if it stands for more than itself."""


class Due(NamedTuple, Generic[K]):
    """A message that is to be asked for again."""

    key: K
    came: Came | None
    """The last time, here or to nobody because the application had it; None: it is settled, as far as is known."""


class Works(Generic[K]):
    """Keys stand for messages. `due` says which are to be asked for again."""

    def __init__(
        self,
        refusal: RedeliveryBackoff,
        timeout_ms: int | None = None,
        overdue: RedeliveryBackoff = AT_ONCE,
        in_work_max: int = IN_WORK_MAX,
    ) -> None:
        self._refusal = refusal
        self._timeout_ms = timeout_ms
        self._overdue = overdue
        self._in_work_max = in_work_max
        self._states: dict[K, State] = {}
        self._came: dict[K, Came] = {}
        self._deadlines: Agenda[K] = Agenda()
        self._returns: Agenda[K] = Agenda()

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, key: K) -> bool:
        return key in self._states

    @property
    def room(self) -> int:
        """How many more may be handed out."""
        return max(0, self._in_work_max - len(self._states))

    @property
    def next_s(self) -> float | None:
        """When there is something to do."""
        times = [each for each in (self._deadlines.next_s, self._returns.next_s) if each is not None]
        return min(times, default=None)

    def begin(self, key: K, came: Came, now_s: float) -> None:
        """The application gets it."""
        self._came[key] = came
        self._have(key, now_s)

    def came_again(self, key: K, came: Came) -> None:
        """A copy of it has come, and is not handed out."""
        self._came[key] = came

    def _have(self, key: K, now_s: float) -> None:
        self._states[key] = State.IN_WORK
        if self._timeout_ms is not None:
            self._deadlines.put(key, now_s + self._timeout_ms / 1000)

    def give_back(self, key: K, redeliveries: int, now_s: float) -> None:
        """The application does not want it: it comes again when its time has come."""
        self._refuse(key, now_s + self._refusal.delay_ms(redeliveries) / 1000)

    def acknowledge(self, key: K) -> None:
        """It is being acknowledged."""
        self._deadlines.drop(key)
        self._returns.drop(key)
        self._states[key] = State.ACKNOWLEDGING

    def not_acknowledged(self, key: K, now_s: float) -> None:
        """It could not be acknowledged: the application has it as before."""
        if self._states.get(key) is State.ACKNOWLEDGING:
            self._have(key, now_s)

    def forget(self, key: K) -> None:
        """It is nobody's business here any more."""
        self._deadlines.drop(key)
        self._returns.drop(key)
        self._states.pop(key, None)
        self._came.pop(key, None)

    def clear(self) -> None:
        """Nothing that was handed out is of any interest any more."""
        for key in list(self._states):
            self.forget(key)

    def due(self, now_s: float) -> list[Due[K]]:
        """What is to be asked for again now; what took too long is given back first."""
        for key in self._deadlines.take(now_s):
            came = self._came.get(key)
            self._refuse(key, now_s + self._overdue.delay_ms(0 if came is None else came.redeliveries) / 1000)
        found = [Due(key, self._came.get(key)) for key in self._returns.take(now_s)]
        for each in found:
            self.forget(each.key)
        return found

    def _refuse(self, key: K, due_s: float) -> None:
        self._deadlines.drop(key)
        self._states[key] = State.GIVEN_BACK
        self._returns.put(key, due_s)
