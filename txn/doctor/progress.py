"""How far a long scan is, on one line of a terminal that is wiped out before anything is printed."""

from __future__ import annotations

from typing import TextIO

from metastore.clock import Clock

FIRST_AFTER_S = 1.0
"""What takes less needs no explanation."""
EVERY_S = 0.2
COUNTED_AT_ONCE = 256
"""Records between two looks at the clock."""


class Progress:
    """Told of every record, it says now and then how many there were; nothing where there is no terminal."""

    def __init__(self, out: TextIO, clock: Clock) -> None:
        self._out = out
        self._clock = clock
        self._is_terminal = out.isatty()
        self._next_s = clock.monotonic_s() + FIRST_AFTER_S
        self._width = 0

    def __call__(self, records: int) -> None:
        if not self._is_terminal or records % COUNTED_AT_ONCE or self._clock.monotonic_s() < self._next_s:
            return
        text = f"{records} records read ..."
        self._out.write(f"\r{text}")
        self._out.flush()
        self._width = len(text)
        self._next_s = self._clock.monotonic_s() + EVERY_S

    def wipe(self) -> None:
        """Takes the line away."""
        if self._width:
            self._out.write(f"\r{' ' * self._width}\r")
            self._out.flush()
            self._width = 0
