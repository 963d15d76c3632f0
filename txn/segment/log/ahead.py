"""What was read from where a log is kept and nobody had asked for: who reads on finds it here.

Entries are read as they were written, many together. Whoever asks for few at a time would otherwise have the same ones
read, checked and taken apart each time. There is one bound for all logs of a process that share this; what was not
used for longest goes first, and so does what was read to its end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from txn.model.position import Position
from txn.segment.log.waiting import weight

AHEAD_BYTES_MAX = 32 << 20
"""What all logs together may have here."""
RUNS_MAX = 64
"""Places in logs at which somebody reads."""


class ReadAhead:
    """Runs of entries that are confirmed, and so do not change."""

    def __init__(self, bytes_max: int = AHEAD_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._runs: OrderedDict[tuple[object, Position], Sequence[bytes]] = OrderedDict()
        """By log and where they begin; what was used last is last."""
        self._weight = 0

    def keep(self, log: object, first: Position, entries: Sequence[bytes]) -> None:
        """Entries that were read, one behind the other, of one ledger."""
        self._drop((log, first))
        self._runs[log, first] = entries
        self._weight += weight(entries)
        while self._weight > self._bytes_max or len(self._runs) > RUNS_MAX:
            self._drop(next(iter(self._runs)))

    def read(self, log: object, at: Position, entries_max: int) -> Sequence[bytes]:
        """From that entry on; nothing if it is not here."""
        for key, entries in self._runs.items():
            owner, first = key
            start = at.entry - first.entry
            if owner is log and first.ledger == at.ledger and 0 <= start < len(entries):
                self._runs.move_to_end(key)
                if start + entries_max >= len(entries):
                    self._drop(key)
                return entries[start : start + entries_max]
        return ()

    def forget(self, log: object) -> None:
        """A log is not read any more."""
        for key in [key for key in self._runs if key[0] is log]:
            self._drop(key)

    def _drop(self, key: tuple[object, Position]) -> None:
        entries = self._runs.pop(key, None)
        if entries is not None:
            self._weight -= weight(entries)
