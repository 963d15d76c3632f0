"""A segment's load: the record that its owner writes, and when it is worth writing again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from controller.autoscale.config import Metric, Rates
from controller.layout.errors import LayoutError

CHANGE_THRESHOLD = 0.25
"""By how much of itself a rate must change to be written (`scalableTopicLoadReportRateChangeThreshold`)."""


@dataclass(frozen=True)
class Load:
    """Rates a second."""

    rates: Rates
    modified_ms: int = 0
    """When the store took the record: for how long the segment has been like that."""

    def encode(self) -> bytes:
        """The record's value."""
        return json.dumps({metric.value: self.rates[metric] for metric in Metric}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes, modified_ms: int) -> Load:
        """Reads a record's value; what it does not say is 0."""
        try:
            fields = json.loads(value)
            return cls({metric: float(fields.get(metric.value) or 0.0) for metric in Metric}, modified_ms)
        except (ValueError, AttributeError, TypeError) as error:
            raise LayoutError(f"a segment's load says {value[:200]!r}: {error!r}") from error


def is_material(last: Rates, current: Rates, threshold: float = CHANGE_THRESHOLD) -> bool:
    """Whether any rate is different enough from what was written last."""
    return any(_has_changed(last[metric], current[metric], threshold) for metric in Metric)


def _has_changed(last: float, current: float, threshold: float) -> bool:
    return current != 0 if last == 0 else abs(current - last) / last > threshold


def heat(rates: Rates, thresholds: Mapping[Metric, float]) -> tuple[float, Metric]:
    """The greatest of the rates, each measured by its threshold, and which it is; of equals the first."""
    found = [(rates[metric] / thresholds[metric], metric) for metric in Metric]
    return max(found, key=lambda each: each[0])
