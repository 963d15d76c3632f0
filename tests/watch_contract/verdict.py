"""The door: what everybody noted, and what is wrong with it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from metastore.interface import Record
from watch_contract.judge import Judge, Snapshot
from watch_contract.reconstruction import reconstructed, tellings_of
from watch_contract.sightings import Scope, Sighting
from watch_contract.truth import Order, ShardTruth
from watch_contract.violations import Findings, Lie
from watch_contract.writes import Write

SHOWN = 12
"""Violations that a report spells out; what follows from one mistake can be a lot."""


@dataclass(repr=False)
class History:
    """Everything that was noted in a run that began with an empty store."""

    shards: int
    order: Order
    writes: list[Write]
    witness: Sighting
    watchers: list[Sighting] = field(default_factory=list)
    final: list[Record] | None = None
    """A scan of everything after the last write."""
    retention_ms: int | None = None
    """How long changes are kept at least; None where nothing is trimmed."""


def check(history: History) -> Findings:
    """Everything that is wrong, and the counts."""
    truth, findings = truth_of(history)
    for sighting in [history.witness, *history.watchers]:
        judge = Judge(sighting, truth, history.order, history.retention_ms)
        judge.run()
        findings.merge(judge.judge_end())
    return findings


def truth_of(history: History) -> tuple[list[ShardTruth], Findings]:
    """What was so, and what is wrong already with that."""
    assert history.witness.scope == Scope(
        shards=tuple(range(history.shards)), previous_values=history.witness.scope.previous_values
    ), "the witness looks at everything"
    findings = Findings()
    truth = []
    states: Snapshot = Counter()
    for shard in range(history.shards):
        made = reconstructed(shard, history.writes, history.order, tellings_of(history.witness, shard))
        truth.append(made.truth)
        findings.merge(made.findings)
        states.update((key, held.value, held.version) for key, held in made.state.items())
    if history.final is not None:
        found: Snapshot = Counter((record.key, record.value, record.version) for record in history.final)
        if found != states:
            lacks, has = [*(states - found)][:5], [*(found - states)][:5]
            findings.add(Lie.WRONG_SCAN, "the store", f"it lacks {lacks}, and should not have {has}")
    return truth, findings


def report(findings: Findings) -> str:
    """The violations, if any, and the counts in one line."""
    lines = [str(violation) for violation in findings.violations[:SHOWN]]
    return "\n".join([*lines, _summary(findings.counts.items(), len(findings.violations))])


def _summary(counts: Iterable[tuple[str, int]], violations: int) -> str:
    return f"{', '.join(f'{count} {what}' for what, count in sorted(counts))}: {violations} violations"


def names_of(findings: Findings) -> Sequence[Lie]:
    """The kinds of what is wrong."""
    return [violation.lie for violation in findings.violations]
