"""A shard with a hub, on a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from watch_helpers import Patch

from metastore.clock import ManualClock
from metastore.engine.shard import Shard, ShardOptions
from metastore.log import LogOptions
from metastore.watch import limits
from metastore.watch.hub import WatchHub

SHORT_SEGMENTS = ShardOptions(
    retention_ms=60_000, log=LogOptions(segment_bytes_max=1 << 10, step_bytes_min=4 << 10, reserve_bytes=4 << 10)
)
"""Every few writes there is something to trim."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def shard(tmp_path: Path, clock: ManualClock) -> Iterator[Shard]:
    with Shard.open(tmp_path / "shard", SHORT_SEGMENTS, clock) as shard:
        yield shard


@pytest.fixture
def hub(shard: Shard) -> WatchHub:
    return WatchHub(shard)


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Patch:
    return lambda name, value: monkeypatch.setattr(limits, name, value)
