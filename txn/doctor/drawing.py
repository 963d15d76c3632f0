"""A transaction's time as a picture of characters: a bar for the transaction, one for each participant. Pure."""

from __future__ import annotations

from txn.doctor.portrait import Part, Portrait
from txn.doctor.texts import duration_text

WIDTH = 60
LABEL_WIDTH_MAX = 32
BARS_MAX = 30
"""Participants that are drawn."""

LEGEND = "= open   # operations   - undecided   ~ decided, to be applied   C committed, A aborted   * applied   > now"


def draw(portrait: Portrait, now_ms: int, width: int = WIDTH) -> list[str]:
    """The lines of the picture, without line breaks."""
    scale = Scale.of(portrait, now_ms, width)
    parts = portrait.parts[:BARS_MAX]
    labels = ["transaction", *(_shortened(str(part.participant)) for part in parts)]
    bars = [_transaction_bar(portrait, scale), *(_part_bar(part, portrait, scale) for part in parts)]
    label_width = max(map(len, labels))
    lines = [f"{'':{label_width}}  {scale.ruler()}"]
    lines += [f"{label:{label_width}}  {bar}".rstrip() for label, bar in zip(labels, bars, strict=True)]
    if len(portrait.parts) > len(parts):
        lines.append(f"... and {len(portrait.parts) - len(parts)} more participants")
    return [*lines, LEGEND]


class Scale:
    """From times to columns."""

    def __init__(self, begin_ms: int, end_ms: int, width: int, now_ms: int | None) -> None:
        assert end_ms >= begin_ms
        assert width > 1
        self.begin_ms = begin_ms
        self.end_ms = end_ms
        self.width = width
        self.now_ms = now_ms
        """None where all is over, and the present is not in the picture."""

    @classmethod
    def of(cls, portrait: Portrait, now_ms: int, width: int) -> Scale:
        """From the begin to the last that has happened, or to the present while something is to come."""
        begin_ms = portrait.header.created_ms
        times = [event.at_ms for event in portrait.events()]
        goes_on = portrait.header.is_open or bool(portrait.unapplied)
        if goes_on:
            times.append(now_ms)
        return cls(min(begin_ms, *times), max(times), width, now_ms if goes_on else None)

    def column(self, time_ms: int) -> int:
        kept = min(max(time_ms, self.begin_ms), self.end_ms)
        return (kept - self.begin_ms) * (self.width - 1) // max(1, self.end_ms - self.begin_ms)

    def ruler(self) -> str:
        """Zero at the left, the middle, and the whole span at the right."""
        span_ms = self.end_ms - self.begin_ms
        middle, end = f"+{duration_text(span_ms // 2)}", f"+{duration_text(span_ms)}"
        text = "0".ljust((self.width - len(middle)) // 2) + middle
        return text.ljust(self.width - len(end)) + end


class _Bar:
    """A line that is painted from left to right; what is painted later lies above."""

    def __init__(self, scale: Scale) -> None:
        self._scale = scale
        self._cells = [" "] * scale.width

    def paint(self, mark: str, from_ms: int, to_ms: int) -> None:
        first, last = self._scale.column(from_ms), self._scale.column(to_ms)
        for column in range(first, last + 1):
            self._cells[column] = mark

    def __str__(self) -> str:
        return "".join(self._cells)


def _transaction_bar(portrait: Portrait, scale: Scale) -> str:
    header, bar = portrait.header, _Bar(scale)
    end_ms = scale.end_ms if header.finalized_ms is None else header.finalized_ms
    bar.paint("=", header.created_ms, end_ms)
    if header.finalized_ms is not None:
        bar.paint(header.state.value[0], header.finalized_ms, header.finalized_ms)
    elif scale.now_ms is not None:
        bar.paint(">", scale.now_ms, scale.now_ms)
    return str(bar)


def _part_bar(part: Part, portrait: Portrait, scale: Scale) -> str:
    bar = _Bar(scale)
    first_ms, last_ms = part.first_ms, part.last_ms
    decided_ms = portrait.header.finalized_ms
    until_ms = scale.end_ms if decided_ms is None else decided_ms
    if last_ms is not None and last_ms < until_ms:
        bar.paint("-", last_ms, until_ms)
    if decided_ms is not None:
        end_ms = scale.end_ms if part.applied is None or part.pending is not None else part.applied.applied_ms
        bar.paint("~", decided_ms, max(decided_ms, end_ms))
    if first_ms is not None and last_ms is not None:
        bar.paint("#", first_ms, last_ms)
    if part.applied is not None:
        bar.paint("*", part.applied.applied_ms, part.applied.applied_ms)
    if scale.now_ms is not None and part.pending is not None:
        bar.paint(">", scale.now_ms, scale.now_ms)
    return str(bar)


def _shortened(label: str) -> str:
    """The end of a long name tells more than its beginning."""
    return label if len(label) <= LABEL_WIDTH_MAX else "..." + label[3 - LABEL_WIDTH_MAX :]
