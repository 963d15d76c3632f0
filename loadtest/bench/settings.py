"""What a run is asked to do: plan, sizes, programs, folder. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loadtest.bench.servers import Program

SMALL_RECORDS = 64_000
SCAN_RECORDS = 100_000
VALUE_BYTES = 128
SPARK_ROWS = 5_000_000
QUICK_SPARK_ROWS = 200_000
CURVE_RECORDS = 1_000_000
QUICK_CURVE_RECORDS = 10_000


@dataclass(frozen=True)
class Plan:
    """How long and how often. `sizes` are the numbers of records at which growth is shown, ascending."""

    repeats: int
    slow_repeats: int
    seconds: float
    warm_up_seconds: float
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        assert self.repeats >= 1
        assert self.slow_repeats >= 1
        assert self.seconds > 0
        assert self.warm_up_seconds > 0
        assert self.sizes == tuple(sorted(set(self.sizes)))


DEFAULT_PLAN = Plan(repeats=7, slow_repeats=3, seconds=0.7, warm_up_seconds=0.4, sizes=(10_000, 100_000, 1_000_000))
QUICK_PLAN = Plan(repeats=2, slow_repeats=1, seconds=0.2, warm_up_seconds=0.1, sizes=(10_000, 100_000))


@dataclass(frozen=True)
class Settings:
    """A run. The first program is ours; `client` names the load generator's way to drive gRPC."""

    plan: Plan
    programs: tuple[Program, ...]
    directory: Path
    client: str
    oxia_binary: Path | None = None
    """Of the second program, if there is one."""
    peers: tuple[Program, ...] = ()
    """An etcd and a ZooKeeper, where the work of peers is asked for."""
    curve_records: int | None = None
    """The most records of a curve, where curves are asked for."""
    spark_rows: int = SPARK_ROWS
    """Operation records that the lines of Spark read."""
