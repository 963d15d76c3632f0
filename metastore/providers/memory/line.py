"""What connects one store object with its data, so that tests can cut it: its calls, heartbeats and watches."""

from __future__ import annotations

from enum import Enum

from metastore.clock import Clock
from metastore.interface import SessionLost, StoreClosed
from metastore.providers.memory.bells import Bells
from metastore.providers.memory.script import Arrival

LEASE_SHARE = 0.9
"""The part of its timeout that the owner of a session relies on: it lets go before the store can end the session."""


class Part(Enum):
    """A part of what goes over the line."""

    CALLS = "calls"
    HEARTBEATS = "heartbeats"
    WATCHES = "watches"


class Lease:
    """A session as both ends of its line see it. Heartbeats are so frequent that time between them does not count."""

    def __init__(self, session_id: int, timeout_ms: int, identity: str, clock: Clock, data_clock: Clock) -> None:
        self.session_id = session_id
        self.timeout_ms = timeout_ms
        self.identity = identity
        self.is_given_up = False
        """The owner knows that it is lost or closed. It stays so."""
        self.is_ended = False
        """The data has ended it: its records are gone."""
        self._clock = clock
        self._data_clock = data_clock
        self._renewed_s = clock.monotonic_s()
        self._data_renewed_s = data_clock.monotonic_s()

    def beat(self) -> None:
        """A heartbeat and its answer."""
        self.is_given_up = self.is_given_up or self.is_ended
        if not self.is_given_up:
            self._renewed_s = self._clock.monotonic_s()
            self._data_renewed_s = self._data_clock.monotonic_s()

    def remaining_s(self, is_carried: bool) -> float:
        """How long the owner may rely on it, by the owner's clock."""
        if self.is_given_up:
            return 0.0
        unheard_s = 0.0 if is_carried else self._clock.monotonic_s() - self._renewed_s
        return max(0.0, self.timeout_ms / 1000 * LEASE_SHARE - unheard_s)

    def is_overdue(self) -> bool:
        """Whether the data may end it, by the data's clock."""
        return self._data_clock.monotonic_s() - self._data_renewed_s >= self.timeout_ms / 1000


class Line:
    """One store object's connection. Cut parts can be mended; a closed line is for ever."""

    def __init__(self) -> None:
        self.is_closed = False
        self.news = Bells()
        self.leases: list[Lease] = []
        self.breaks = 0
        """How often the watches were cut off."""
        self._cut: set[Part] = set()

    def carries(self, part: Part) -> bool:
        return not self.is_closed and part not in self._cut

    def cut(self, *parts: Part) -> None:
        """Nothing of these parts gets through any more, in neither direction; without parts, nothing at all.

        Calls fail with Unavailable, or with OutcomeUnknown where they have written by now. Sessions run out. Watches
        wait; a snapshot that was not complete begins anew.
        """
        self.beat_hearts()
        if self.carries(Part.WATCHES) and (not parts or Part.WATCHES in parts):
            self.breaks += 1
        self._cut.update(parts or Part)
        self.news.ring()

    def mend(self, *parts: Part) -> None:
        """These parts get through again; without parts, everything. What was lost in the meantime stays lost."""
        self.beat_hearts()
        self._cut.difference_update(parts or Part)
        self.beat_hearts()
        self.news.ring()

    def close(self) -> None:
        """What is under way ends; sessions are left to expire, and their owner is to rely on none."""
        self.beat_hearts()
        self.is_closed = True
        for lease in self.leases:
            lease.is_given_up = True
        self.leases.clear()
        self.news.ring()

    def beat_hearts(self) -> None:
        """Renews the sessions if that gets through; those that have run out are lost."""
        for lease in self.leases:
            if self.carries(Part.HEARTBEATS):
                lease.beat()
            elif lease.remaining_s(is_carried=False) <= 0:
                lease.is_given_up = True
        self.leases = [lease for lease in self.leases if not lease.is_given_up]

    def is_lost(self, lease: Lease) -> bool:
        return self.remaining_s(lease) <= 0

    def remaining_s(self, lease: Lease) -> float:
        return lease.remaining_s(is_carried=self.carries(Part.HEARTBEATS))

    def check_open(self, arrival: Arrival) -> None:
        if self.is_closed:
            raise StoreClosed(f"the store was closed before {arrival.method} was done: open another one")

    def check(self, arrival: Arrival) -> None:
        """Raises what a call is told that cannot get through at this point."""
        self.check_open(arrival)
        if not self.carries(Part.CALLS):
            raise arrival.lost(f"{arrival.method}: there is no connection to the store: try again later")


def session_lost(lease: Lease) -> SessionLost:
    return SessionLost(f"session {lease.session_id} has expired or was closed: open another one")
