"""Who counts what happens to transactions at a broker: what is known of outcomes, and what becomes of entries."""

from __future__ import annotations

from typing import Protocol

from txn import outcomes
from txn.segment import buffer


class HostMeasures(outcomes.Measures, buffer.Measures, Protocol):
    """All that a host tells."""


class NoMeasures(HostMeasures):
    """Counts nothing."""

    def outcome_learned(self, delay_ms: int) -> None:
        pass

    def became_visible(self, delay_ms: int) -> None:
        pass

    def settled(self, is_aborted: bool) -> None:
        pass


NO_MEASURES = NoMeasures()
