"""The limits of a transaction buffer, and who counts what happens in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BufferOptions:
    """Every queue has an end."""

    queue_entries_max: int = 10_000
    """Messages that stand in line; beyond, publishing is refused with SegmentBusy."""
    queue_bytes_max: int = 64 << 20
    """What they may have together, but for a single one."""
    round_entries_max: int = 1_000
    """Messages of one append."""
    round_bytes_max: int = 1 << 20
    """What they may have together, but for a single one, which may have what the log takes."""
    rounds_under_way_max: int = 8
    """Appends that are not confirmed yet."""
    bytes_under_way_max: int = 16 << 20
    """With so many bytes under way nothing more is appended."""
    open_max: int = 10_000
    """Transactions that take part in one segment's writes at the same time, those being settled included."""
    operations_max: int = 100_000
    """Messages of one transaction in one segment."""
    settlements_at_once_max: int = 64
    """Decided transactions whose outcome is being carried out at the same time."""
    snapshot_every_entries: int = 5_000
    """After so many entries it is written down anew which messages of which producers there are."""
    tail_entries_max: int = 20_000
    """Entries that an owner may have to read when it takes over; with so many behind the snapshot publishing waits."""


class Measures(Protocol):
    """Who counts."""

    def became_visible(self, delay_ms: int) -> None:
        """What a transaction has written here is visible, so long after it was committed, by two clocks."""

    def settled(self, is_aborted: bool) -> None:
        """An outcome was carried out."""


class NoMeasures(Measures):
    """Counts nothing."""

    def became_visible(self, delay_ms: int) -> None:
        pass

    def settled(self, is_aborted: bool) -> None:
        pass


NO_MEASURES = NoMeasures()
