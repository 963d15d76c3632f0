"""The verdicts on an epoch's notes: at its end, and of stored notes once more.

python -m soak.judging FILE, with `tests` in PYTHONPATH, as `make soak-judge NOTES=FILE` does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from linearizability import report
from linearizability.operations import Operation
from linearizability.versions import wrong_version_ids
from soak.notes import Notes, load
from topics_end_to_end.whole_evidence import judge
from txn_histories import checker
from watch_contract import verdict

SHOWN = 10
"""So many wrong version ids are told."""


def wrong_records(history: Sequence[Operation]) -> list[str]:
    """Why it cannot have happened in one order."""
    found = [str(each) for each in report.violations(history)]
    return found + [f"wrong version id: {each}" for each in wrong_version_ids(history)[:SHOWN]]


def verdicts(notes: Notes) -> dict[str, list[str]]:
    """By what was noted: all that is wrong with it. Nothing is said of what cannot be judged, as it is not over."""
    found: dict[str, list[str]] = {}
    if notes.topics is not None:
        findings = judge(notes.topics)
        found["topics"] = [checker.report(findings)] if findings.violations else []
    if notes.watches is not None and notes.watches.is_over:
        seen = verdict.check(notes.watches.history)
        found["watches"] = [verdict.report(seen)] if seen.violations else []
    if notes.records is not None and notes.records.is_over:
        found["records"] = wrong_records(notes.records.history)
    return found


def tell(path: Path) -> int:
    """Judges the notes of a file and says what is wrong; 1 if anything is."""
    notes = load(path)
    print(f"{notes.of}\nIt failed with {notes.failure}")
    if notes.topics is not None and notes.topics.read is None:
        print("The topics had not come to their end: what nobody had read yet may count as lost.")
    found = verdicts(notes)
    for what, wrong in found.items():
        print("\n".join([f"\n{what}: {'violations' if wrong else 'no violation'}", *wrong]))
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(tell(Path(sys.argv[1])))
