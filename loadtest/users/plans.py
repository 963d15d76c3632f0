"""What the options of a run mean."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from loadtest.arrivals import Settings, Spacing
from loadtest.arrivals.pump import Limits
from loadtest.engine.messages import Order
from loadtest.outcomes import Plan, Thresholds
from loadtest.scenarios import parts_of
from loadtest.users.options import DEFAULT_TARGETS


def targets_of(options: argparse.Namespace) -> tuple[str, ...]:
    """The services that are worked on."""
    return tuple(options.target or DEFAULT_TARGETS)


def order_of(options: argparse.Namespace, scenarios: Iterable[str], mark: str, number: int) -> Order:
    """What the engine of the process with this number is to do."""
    settings = Settings(
        targets=targets_of(options),
        mark=f"{mark}-{number}",
        seed=options.seed + number,
        records=options.records,
        value_bytes=options.value_bytes,
        reads=options.reads,
        distribution=options.distribution,
        commits=options.commits,
    )
    limits = Limits(outstanding_max=options.outstanding_max, start_within_s=options.start_within_s)
    names = {part for scenario in scenarios for part in parts_of(scenario)}
    return Order(tuple(sorted(names)), settings, limits, Spacing(options.spacing))


def plan_of(options: argparse.Namespace, scenarios: Iterable[str], processes: int) -> Plan:
    """What was asked for, for the result."""
    return Plan(
        scenario=", ".join(sorted(scenarios)),
        targets=targets_of(options),
        rate=(options.num_users or 1) * options.arrivals_per_user,
        shape=options.shape,
        time_s=options.run_time,
        spacing=options.spacing,
        seed=options.seed,
        processes=processes,
    )


def thresholds_of(options: argparse.Namespace) -> Thresholds:
    """What the run must keep."""
    return Thresholds(options.fail_p99_ms, options.fail_error_ratio)
