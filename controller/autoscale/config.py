"""What decides about splits and merges: names, defaults, and how a namespace and a topic override them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from controller.layout.errors import LayoutError


class InvalidAutoScale(LayoutError):
    """A policy that contradicts itself, or says something that none says."""


class Metric(Enum):
    """What is measured of a segment; the order decides where several say the same."""

    MSG_RATE_IN = "msgRateIn"
    BYTES_RATE_IN = "bytesRateIn"
    MSG_RATE_OUT = "msgRateOut"
    BYTES_RATE_OUT = "bytesRateOut"

    @property
    def title(self) -> str:
        """As it stands in the names of options."""
        return self.value[0].upper() + self.value[1:]

    @property
    def is_whole(self) -> bool:
        """Whether its thresholds are whole numbers."""
        return self in (Metric.BYTES_RATE_IN, Metric.BYTES_RATE_OUT)


Rates = Mapping[Metric, float]

SPLIT_RATES: Rates = {
    Metric.MSG_RATE_IN: 10_000.0,
    Metric.BYTES_RATE_IN: 50_000_000.0,
    Metric.MSG_RATE_OUT: 50_000.0,
    Metric.BYTES_RATE_OUT: 250_000_000.0,
}
MERGE_RATES: Rates = {
    Metric.MSG_RATE_IN: 1_000.0,
    Metric.BYTES_RATE_IN: 5_000_000.0,
    Metric.MSG_RATE_OUT: 5_000.0,
    Metric.BYTES_RATE_OUT: 25_000_000.0,
}


@dataclass(frozen=True)
class AutoScaleConfig:
    """The settings that hold for one topic."""

    enabled: bool = True
    max_segments: int = 64
    min_segments: int = 1
    max_dag_depth: int = 10
    """Merges that a segment may come from: beyond it no more are made."""
    split_cooldown_ms: int = 60_000
    merge_cooldown_ms: int = 300_000
    merge_window_ms: int = 300_000
    """How long a segment must have been cold."""
    split: Rates = field(default_factory=lambda: SPLIT_RATES)
    """A segment with any rate above is hot."""
    merge: Rates = field(default_factory=lambda: MERGE_RATES)
    """A segment with all rates below is cold; with a 0 none ever is."""

    def __post_init__(self) -> None:
        problems = [problem for problem, is_so in self._problems() if is_so]
        if problems:
            raise InvalidAutoScale(f"Invalid auto split/merge configuration: {'; '.join(problems)}")

    def _problems(self) -> list[tuple[str, bool]]:
        return [
            (f"minSegments {self.min_segments} must be at least 1", self.min_segments < 1),
            (
                f"maxSegments {self.max_segments} must be at least minSegments {self.min_segments}",
                self.max_segments < self.min_segments,
            ),
            (f"maxDagDepth {self.max_dag_depth} must be at least 0", self.max_dag_depth < 0),
            ("cooldowns and the window must be at least 0 seconds", min(self._durations_ms()) < 0),
            *(
                (f"split{metric.title}Threshold {self.split[metric]:g} must be above 0", self.split[metric] <= 0)
                for metric in Metric
            ),
            *(
                (f"merge{metric.title}Threshold {self.merge[metric]:g} must be at least 0", self.merge[metric] < 0)
                for metric in Metric
            ),
            *(
                (
                    f"split{metric.title}Threshold {self.split[metric]:g} must be above "
                    f"merge{metric.title}Threshold {self.merge[metric]:g}",
                    self.split[metric] <= self.merge[metric],
                )
                for metric in Metric
            ),
        ]

    def _durations_ms(self) -> tuple[int, int, int]:
        return self.split_cooldown_ms, self.merge_cooldown_ms, self.merge_window_ms

    def overridden(self, *overrides: Mapping[str, Any] | None) -> AutoScaleConfig:
        """With what override objects say, the last one above all; what none says, or says as null, stays.

        What counts is what comes out: an override that is wrong by itself may be set right by the next.
        """
        given = {place: value for each in overrides for place, value in read_overrides(each or {}).items()}
        plain = {name: value for name, value in given.items() if isinstance(name, str)}
        rates = {name: value for name, value in given.items() if not isinstance(name, str)}
        split = {metric: rates.get((SPLIT, metric), self.split[metric]) for metric in Metric}
        merge = {metric: rates.get((MERGE, metric), self.merge[metric]) for metric in Metric}
        return replace(self, **plain, split=split, merge=merge)

    def shown(self) -> dict[str, Any]:
        """All settings, under the names of override objects."""
        return {name: _shown(self, name) for name in OVERRIDES}


SPLIT, MERGE = "split", "merge"

_Place = str | tuple[str, Metric]

_COUNTS = {"maxSegments": "max_segments", "minSegments": "min_segments", "maxDagDepth": "max_dag_depth"}
_SECONDS = {
    "splitCooldownSeconds": "split_cooldown_ms",
    "mergeCooldownSeconds": "merge_cooldown_ms",
    "mergeWindowSeconds": "merge_window_ms",
}
_RATES = {f"{kind}{metric.title}Threshold": (kind, metric) for kind in (SPLIT, MERGE) for metric in Metric}
OVERRIDES = ("enabled", *_COUNTS, *_SECONDS, *_RATES)
"""The names that an override object may have."""


def _shown(config: AutoScaleConfig, name: str) -> Any:
    if name in _SECONDS:
        return getattr(config, _SECONDS[name]) // 1000
    if name in _RATES:
        kind, metric = _RATES[name]
        return (config.split if kind == SPLIT else config.merge)[metric]
    return getattr(config, _COUNTS.get(name, name))


def read_overrides(overrides: Mapping[str, Any]) -> dict[_Place, Any]:
    """An override object's values by where they belong; InvalidAutoScale for unknown names and wrong kinds."""
    found: dict[_Place, Any] = {}
    for name, value in overrides.items():
        if name not in OVERRIDES:
            raise InvalidAutoScale(f"Invalid auto split/merge configuration: {name!r}: one of {', '.join(OVERRIDES)}")
        if value is None:
            continue
        if name == "enabled":
            found["enabled"] = _checked(name, value, bool)
        elif name in _COUNTS:
            found[_COUNTS[name]] = _checked(name, value, int)
        elif name in _SECONDS:
            found[_SECONDS[name]] = _checked(name, value, int) * 1000
        else:
            number = float(_checked(name, value, (int, float)))
            place = _RATES[name]
            found[place] = float(int(number)) if place[1].is_whole else number
    return found


def _checked(name: str, value: Any, kind: type | tuple[type, ...]) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool) or value != value:
        expected = "true or false" if kind is bool else "a whole number" if kind is int else "a number"
        raise InvalidAutoScale(f"Invalid auto split/merge configuration: {name} is {value!r}: {expected} is expected")
    return value
