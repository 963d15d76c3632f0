"""Whether messages lie where they belong: once, in a segment of their hash, in the order of their key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from topics_simulation.topic_history import Stored, TopicHistory
from topics_simulation.topic_lies import TopicLie
from topics_simulation.topic_notes import name_in
from txn_histories.notes import Fate
from txn_histories.violations import Findings


def judge_logs(history: TopicHistory, findings: Findings) -> None:
    """All topics."""
    for message in history.segments.messages.values():
        written, part = history.written.get(name_in(message.name)), history.parts.get(message.segment)
        if written is not None and message.position is not None:
            if part is None or part[0] != written.topic:
                findings.add(TopicLie.MISROUTED, str(message), "the segment is in no layout of the topic")
            elif not part[1].start <= written.hash <= part[1].end:
                findings.add(TopicLie.MISROUTED, str(message), f"{written} does not belong to {part[1]}")
    for topic, stored in history.stored.items():
        _judge_copies(history, stored, findings)
        _judge_order([each for each in stored if not history.is_aborted(each.written)], findings)
        _judge_generations(history, topic, stored, findings)
        findings.counts["stored in topics"] += len(stored)


def _judge_copies(history: TopicHistory, stored: Sequence[Stored], findings: Findings) -> None:
    copies: defaultdict[str, list[Stored]] = defaultdict(list)
    for each in stored:
        copies[each.written.message].append(each)
    for name, found in copies.items():
        if len(found) > 1 and not history.is_aborted(found[0].written):
            findings.add(TopicLie.STORED_TWICE, name, "; ".join(map(str, found)))


def _judge_order(stored: Sequence[Stored], findings: Findings) -> None:
    by_key: defaultdict[str, list[Stored]] = defaultdict(list)
    for each in stored:
        by_key[each.written.key].append(each)
    for found in by_key.values():
        found.sort(key=lambda each: each.place)
        _judge_numbers(found, findings)
        _judge_times(found, findings)


def _judge_numbers(found: Sequence[Stored], findings: Findings) -> None:
    """A producer's messages of a key lie in the order of their numbers."""
    last: dict[str, Stored] = {}
    for each in found:
        before = last.get(each.written.producer)
        if before is not None and before.written.number > each.written.number:
            findings.add(TopicLie.MISORDERED_LOG, str(each), f"it lies behind {before}")
        last[each.written.producer] = each


def _judge_times(found: Sequence[Stored], findings: Findings) -> None:
    """What was answered before another message of its key was sent lies before that one, whoever sent them."""
    latest: Stored | None = None
    for each in found:
        began = min(send.invoked for send in each.message.placing)
        if latest is not None and each.message.answered is not None:
            first = min(send.invoked for send in latest.message.placing)
            if each.message.answered < first:
                findings.add(TopicLie.MISORDERED_LOG, str(each), f"it was answered before {latest} was sent")
        if latest is None or began > min(send.invoked for send in latest.message.placing):
            latest = each


def _judge_generations(history: TopicHistory, topic: str, stored: Sequence[Stored], findings: Findings) -> None:
    """Once a segment has taken something, none of those that it comes from takes anything."""
    taken: defaultdict[int, list[tuple[int, int, Stored]]] = defaultdict(list)
    for each in stored:
        for send in each.message.sends:
            if send.fate is Fate.DONE and not send.is_duplicate and send.returned is not None:
                taken[each.part.segment_id].append((send.invoked, send.returned, each))
    first = {segment_id: min(calls, key=lambda call: call[1]) for segment_id, calls in taken.items()}
    for segment_id, (_, answered, newer) in first.items():
        for ancestor in history.ancestors(topic, segment_id):
            for invoked, _, older in taken.get(ancestor, ()):
                if invoked > answered:
                    findings.add(TopicLie.TWO_WRITABLE, str(older), f"sent after {newer} was answered")
