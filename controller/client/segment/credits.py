"""Credits: how much brokers may send ahead of being asked, over all segments that one consumer reads. Pure.

There is one bound for all of them, in messages' entries and in bytes. Each segment may have its part of it; what others
have been granted and not used yet, or what they have brought and nobody has taken, is not granted a second time. But
for a little: however much the others have, a segment always gets `LEAST_ENTRIES`, or one that is idle would stop it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from controller.client.errors import InvalidRequest

ENTRIES_MAX = 1_000
"""Where nothing else is said."""
BYTES_MAX = 32 << 20
LEAST_ENTRIES = 8
LEAST_BYTES = 256 << 10


class Credit(NamedTuple):
    """What a broker may deliver."""

    entries: int
    bytes: int


NOTHING = Credit(0, 0)


class Budget:
    """Room for what has come and was not taken, and for what may come."""

    def __init__(self, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX) -> None:
        if entries_max < 1 or bytes_max < 1:
            raise InvalidRequest(f"a buffer of {entries_max} entries and {bytes_max} bytes: at least 1 of each")
        self.entries_max = entries_max
        self.bytes_max = bytes_max
        self.entries = 0
        """Granted and not used, or here and not taken."""
        self.bytes = 0
        self._members: dict[Allowance, None] = {}

    def join(self, wake: Callable[[], None]) -> Allowance:
        """Another segment's part; `wake` is called when there may be something to grant."""
        joined = Allowance(self, wake)
        self._members[joined] = None
        return joined

    def rejoin(self, member: Allowance) -> None:
        """A segment that rested does so no longer."""
        self._members[member] = None

    def share(self) -> Credit:
        """What each segment may have."""
        count = max(1, len(self._members))
        return Credit(max(1, self.entries_max // count), max(1, self.bytes_max // count))

    def leave(self, member: Allowance) -> None:
        """One segment less."""
        self._members.pop(member, None)
        self.wake()

    def wake(self) -> None:
        """There is room again: whoever got less than his part looks once more."""
        for each in self._members:
            if each.is_short:
                each.wake()


class Allowance:
    """One segment's part: what its stream was granted, and what it has brought."""

    def __init__(self, budget: Budget, wake: Callable[[], None]) -> None:
        self.wake = wake
        self.is_short = False
        """It has less than its part, because others have the rest."""
        self._budget = budget
        self._granted = NOTHING
        """What the broker has not used yet. Of bytes it may have used more than there was, by one entry."""
        self._held = NOTHING
        """What has come and was not taken."""

    @property
    def held_entries(self) -> int:
        """Entries that have come and were not taken."""
        return self._held.entries

    def grant(self) -> Credit | None:
        """What is to be granted now, if that is worth a request; then it is."""
        given = self._due()
        if given is not None:
            self._change(granted=given)
        return given

    def _due(self) -> Credit | None:
        share = self._budget.share()
        entries, bytes_ = self._granted.entries + self._held.entries, self._granted.bytes + self._held.bytes
        free = Credit(self._budget.entries_max - self._budget.entries, self._budget.bytes_max - self._budget.bytes)
        wanted = Credit(share.entries - entries, share.bytes - bytes_)
        given = Credit(
            max(0, min(wanted.entries, max(free.entries, LEAST_ENTRIES - entries))),
            max(0, min(wanted.bytes, max(free.bytes, LEAST_BYTES - bytes_))),
        )
        self.is_short = given.entries < wanted.entries or given.bytes < wanted.bytes
        return given if self._is_worth(given, share) else None

    def _is_worth(self, given: Credit, share: Credit) -> bool:
        """Whether it is much, or the segment has nothing."""
        is_much = given.entries * 2 >= share.entries or given.bytes * 2 >= share.bytes
        has_none = (self._granted.entries < 1 <= given.entries) or (self._granted.bytes < 1 <= given.bytes)
        return is_much or has_none

    def arrived(self, size: int) -> None:
        """An entry of so many bytes has come."""
        self._budget.rejoin(self)
        self._change(granted=Credit(-1, -size), held=Credit(1, size))

    def brought(self, size: int) -> None:
        """An entry has come to somebody who grants nothing, but takes no more than there is room for."""
        self._change(held=Credit(1, size))

    @property
    def is_full(self) -> bool:
        """Whether no more is to be brought. One entry always may be."""
        share = self._budget.share()
        return self._held.entries >= share.entries or (self._held.entries > 0 and self._held.bytes >= share.bytes)

    def taken(self, entries: int, size: int) -> None:
        """Entries of so many bytes together were handed out, or given up: there is room again."""
        assert 0 <= entries <= self._held.entries, "only what has come can be taken"
        assert 0 <= size <= self._held.bytes, "and no more of it"
        self._change(held=Credit(-entries, -size))
        if self._due() is not None:
            self.wake()
        self._budget.wake()

    def restart(self) -> None:
        """A new stream: nothing is granted, and what has come was given up."""
        self._change(granted=_less(self._granted), held=_less(self._held))

    def rest(self) -> None:
        """Nothing more is expected of the segment: others may have its part, until something comes all the same."""
        self._budget.leave(self)

    def leave(self) -> None:
        """The segment is not read any more."""
        self.restart()
        self._budget.leave(self)

    def _change(self, *, granted: Credit = NOTHING, held: Credit = NOTHING) -> None:
        self._granted = _sum(self._granted, granted)
        self._held = _sum(self._held, held)
        self._budget.entries += granted.entries + held.entries
        self._budget.bytes += granted.bytes + held.bytes


def _sum(one: Credit, other: Credit) -> Credit:
    return Credit(one.entries + other.entries, one.bytes + other.bytes)


def _less(credit: Credit) -> Credit:
    return Credit(-credit.entries, -credit.bytes)
