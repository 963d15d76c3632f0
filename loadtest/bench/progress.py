"""Tells people on stderr how far a run is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import TextIO

from metastore.clock import Clock

BAR_CELLS = 24
LINE_CELLS = 100
CLEAR_LINE = "\r\x1b[K"


class Progress:
    """Counts steps against what is expected; steps that a failure leaves out make the bar arrive early."""

    def __init__(self, stream: TextIO, clock: Clock) -> None:
        self._stream = stream
        self._clock = clock
        self._has_bar = stream.isatty()
        self._expected = 0
        self._done = 0
        self._started_s = clock.monotonic_s()

    def expect(self, steps: int) -> None:
        """Says how many steps will come."""
        self._expected = steps
        self._started_s = self._clock.monotonic_s()

    def step(self, text: str) -> None:
        """A step begins."""
        self.show(text)
        self._done += 1

    def show(self, text: str) -> None:
        """What goes on now; seen on a terminal only."""
        if self._has_bar:
            self._write(CLEAR_LINE + f"{self._bar()} {text}"[:LINE_CELLS])

    def note(self, text: str) -> None:
        """A line that stays."""
        self._write(f"{CLEAR_LINE if self._has_bar else ''}{text}\n")

    def finish(self) -> None:
        """Takes the bar away."""
        if self._has_bar:
            self._write(CLEAR_LINE)

    def _bar(self) -> str:
        share = self._done / self._expected if self._expected else 0.0
        full = min(BAR_CELLS, int(share * BAR_CELLS))
        elapsed_s = self._clock.monotonic_s() - self._started_s
        left = f", about {_minutes(elapsed_s / share - elapsed_s)} left" if share > 0.02 else ""
        return f"[{'#' * full}{'.' * (BAR_CELLS - full)}] {_minutes(elapsed_s)}{left}"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
