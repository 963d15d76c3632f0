"""Whether a profile is passed: a pure function of what was measured."""

from __future__ import annotations

from dataclasses import dataclass

from loadtest.check.recorder import Measured

RATE_SHARE_MIN = 0.9
"""Of the profile's rate; etcd's check has the same."""
P99_S_MAX = 0.1
SLOWEST_S_MAX = 0.5
DEVIATION_S_MAX = 0.1
FAILED_MAX = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure beside its bound."""

    name: str
    value: float
    bound: float
    is_met: bool
    text: str
    """Both, for people."""


def findings(measured: Measured, rate: float) -> tuple[Finding, ...]:
    """The figures that decide whether so many a second were borne."""
    wanted = rate * RATE_SHARE_MIN
    reasons = "; ".join(f"{count} x {reason}" for reason, count in measured.failures.items())
    return (
        Finding(
            "rate",
            measured.rate,
            wanted,
            measured.rate >= wanted,
            f"{measured.rate:,.1f} answers a second, at least {wanted:,.1f} wanted",
        ),
        _at_most("slowest", measured.slowest_s, SLOWEST_S_MAX),
        _at_most("p99", measured.p99_s, P99_S_MAX),
        _at_most("deviation", measured.deviation_s, DEVIATION_S_MAX),
        Finding(
            "failed",
            measured.failed,
            FAILED_MAX,
            measured.failed <= FAILED_MAX,
            f"{measured.failed} not answered with success" + (f": {reasons}" if reasons else ""),
        ),
    )


def is_passed(found: tuple[Finding, ...]) -> bool:
    """Whether every figure is within its bound."""
    return all(each.is_met for each in found)


def _at_most(name: str, seconds: float, bound_s: float) -> Finding:
    text = f"{name} {seconds * 1000:,.1f} ms, at most {bound_s * 1000:g} ms wanted"
    return Finding(name, seconds, bound_s, seconds <= bound_s, text)
