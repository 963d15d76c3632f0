"""What an owner may choose about a log."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB

SEGMENT_BYTES_MAX = 64 * MIB
RESERVE_BYTES = 1 * MIB
STEP_BYTES_MIN = 256 * KIB
STEP_BYTES_MAX = 4 * MIB


@dataclass(frozen=True)
class LogOptions:
    """Sizes and guarantees; the defaults suit a shard of the store.

    Space is zero-filled ahead in steps that double from `step_bytes_min` to `step_bytes_max`: an idle log
    stays small, and a busy one pauses for one step at a time (about 1 ms per MiB, whatever the step is).
    """

    segment_bytes_max: int = SEGMENT_BYTES_MAX
    sync: bool = True  # without it a power cut may lose acknowledged entries; a kill may not
    reserve_bytes: int = RESERVE_BYTES
    step_bytes_min: int = STEP_BYTES_MIN
    step_bytes_max: int = STEP_BYTES_MAX
    random_bytes: Callable[[int], bytes] = os.urandom

    def __post_init__(self) -> None:
        if self.segment_bytes_max < 1:
            raise ValueError(f"segment_bytes_max must be positive, got {self.segment_bytes_max}")
        if self.reserve_bytes < 0:
            raise ValueError(f"reserve_bytes must not be negative, got {self.reserve_bytes}")
        if not 0 < self.step_bytes_min <= self.step_bytes_max:
            raise ValueError(f"steps must satisfy 0 < {self.step_bytes_min} <= {self.step_bytes_max}")


DEFAULT_OPTIONS = LogOptions()
