"""What a run is judged by, which may be stored and judged another time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from topics_end_to_end.whole_cast import ORDERS, OUT, WATCH
from topics_end_to_end.whole_notebook import Notebook
from topics_end_to_end.whole_queues import is_dead
from topics_end_to_end.whole_rest import MARKS, judge_dead_letters, judge_rework
from topics_simulation.topic_checker import check_topics
from txn_histories.violations import Findings


class Wrong(Enum):
    """What else can be wrong."""

    APPLIED = "what applications made of messages is not whole, or not once"


@dataclass(frozen=True)
class Evidence:
    """All of a run."""

    book: Notebook
    dead: Sequence[str]
    """All dead letters."""
    origins: Mapping[str, str]
    """By what an application made: of which message it made it."""
    read: Mapping[str, Sequence[str]] | None
    """By topic: what its segments have in the end. None if the run has not come to its end."""

    def at_rest(self) -> Evidence:
        """The same, to be stored."""
        return replace(self, book=self.book.at_rest())


def judge(evidence: Evidence) -> Findings:
    """Everything that is wrong. Of a run without an end, what applications made is not judged."""
    book, read = evidence.book, evidence.read
    history = book.judged()
    findings = check_topics(history)
    findings.counts.update(book.counts)
    if read is None:
        return findings
    wrong = judge_rework(history, read, ORDERS, [*read[OUT], *book.settled[OUT, WATCH]], evidence.origins)
    refused = {name for name in book.accepted[ORDERS] if is_dead(name)}
    marks = {each.message for each in book.topics.written if each.producer == MARKS}
    wrong += judge_dead_letters(evidence.dead, refused - marks)
    for each in wrong:
        findings.add(Wrong.APPLIED, "applications", each)
    findings.counts["dead letters"] = len(evidence.dead)
    return findings
