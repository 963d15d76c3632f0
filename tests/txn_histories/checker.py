"""The door: what everybody noted, and what is wrong with it."""

from __future__ import annotations

from txn_histories.acks import judge_acks
from txn_histories.history import History
from txn_histories.outcomes import judge_outcomes, outcomes_of
from txn_histories.readings import judge_readings
from txn_histories.violations import Findings, Lie
from txn_histories.writes import WriteJudge

SHOWN = 12
"""Violations that a report spells out; what follows from one mistake can be a lot."""


def check(history: History) -> Findings:
    """Everything that is wrong, and the counts."""
    findings = Findings()
    outcomes = outcomes_of(history)
    judge_outcomes(outcomes, findings)
    WriteJudge(history, outcomes, findings).run()
    judge_readings(history, outcomes, findings)
    judge_acks(history, outcomes, findings)
    _judge_rest(history, findings)
    return findings


def _judge_rest(history: History, findings: Findings) -> None:
    """Nothing stands still, and nothing is left."""
    for segment, (bound, end) in history.rest.ends.items():
        if bound < end:
            findings.add(Lie.STUCK, segment, f"it may be read up to {bound}, and has entries up to {end}")
    for call in history.rest.unanswered:
        findings.add(Lie.STUCK, "a call", call)
    for key in history.rest.leftovers:
        findings.add(Lie.LEFTOVER, "the store", key)


def report(findings: Findings) -> str:
    """The violations, if any, and the counts in one line."""
    lines = [str(violation) for violation in findings.violations[:SHOWN]]
    counts = ", ".join(f"{count} {what}" for what, count in sorted(findings.counts.items()))
    return "\n".join([*lines, f"{counts}: {len(findings.violations)} violations"])
