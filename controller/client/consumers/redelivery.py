"""When something that was not acknowledged is to come again: by how often it came, and by the clock. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Generic, TypeVar

from controller.client.errors import InvalidRequest

K = TypeVar("K", bound=Hashable)

DELAY_MS_MAX = 24 * 3_600_000
REDELIVERIES_COUNTED_MAX = 64
"""More of them make no delay longer."""


@dataclass(frozen=True, slots=True)
class RedeliveryBackoff:
    """How long a message waits before it comes again: each time longer, up to a limit."""

    first_ms: int = 1_000
    longest_ms: int = 60_000
    factor: float = 2.0

    def __post_init__(self) -> None:
        if not 0 <= self.first_ms <= self.longest_ms <= DELAY_MS_MAX:
            raise InvalidRequest(
                f"redelivery after {self.first_ms} to {self.longest_ms} ms: from 0 up to {DELAY_MS_MAX} ms, in order"
            )
        if not 1.0 <= self.factor <= 100.0:
            raise InvalidRequest(f"each delay {self.factor} times the one before: 1 to 100 are allowed")

    def delay_ms(self, redeliveries: int) -> int:
        """Of a message that was delivered so often before."""
        times = min(max(redeliveries, 0), REDELIVERIES_COUNTED_MAX)
        return int(min(self.first_ms * self.factor**times, self.longest_ms))


AT_ONCE = RedeliveryBackoff(0, 0)
REFUSED = RedeliveryBackoff()


class Agenda(Generic[K]):
    """What is due when. The time is given."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, key: K) -> bool:
        return key in self._due

    def __iter__(self) -> Iterator[K]:
        return iter(self._due)

    def put(self, key: K, due_s: float) -> None:
        """This is due then, and not when it was due before."""
        self._due[key] = due_s
        heapq.heappush(self._heap, (due_s, next(self._numbers), key))
        if len(self._heap) > 2 * len(self._due) + 16:
            self._heap = [(due, next(self._numbers), each) for each, due in self._due.items()]
            heapq.heapify(self._heap)

    def drop(self, key: K) -> bool:
        """This is not due any more; whether it was."""
        return self._due.pop(key, None) is not None

    @property
    def next_s(self) -> float | None:
        """When the next one is due."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, now_s: float) -> list[K]:
        """What is due by now, in its order; it is not on the agenda any more."""
        found: list[K] = []
        while (due_s := self.next_s) is not None and due_s <= now_s:
            _, _, key = heapq.heappop(self._heap)
            del self._due[key]
            found.append(key)
        return found
