"""Whether who had the exclusive right to produce was the only one, and who had lost it produced nothing more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from topics_simulation.topic_history import Stored, TopicHistory
from topics_simulation.topic_lies import TopicLie
from topics_simulation.topic_notes import Claimed
from txn_histories.notes import Fate, Send
from txn_histories.violations import Findings


def judge_rights(history: TopicHistory, findings: Findings) -> None:
    """All topics of which somebody had the right."""
    claims: defaultdict[str, list[Claimed]] = defaultdict(list)
    for each in history.notes.claimed:
        claims[each.topic].append(each)
    for topic, claimed in claims.items():
        findings.counts["claims"] += len(claimed)
        stored = history.stored.get(topic, ())
        _judge_turns(topic, stored, {each.producer for each in claimed}, findings)
        _judge_times(topic, stored, claimed, findings)


def _judge_turns(topic: str, stored: Iterable[Stored], claimants: set[str], findings: Findings) -> None:
    """There is an order of turns in which all segments were written. Who has no claim has a turn for each message."""
    by_segment: defaultdict[int, list[Stored]] = defaultdict(list)
    for each in stored:
        by_segment[each.part.segment_id].append(each)
    before: defaultdict[str, set[str]] = defaultdict(set)
    """By turn: those that came before it."""
    for found in by_segment.values():
        found.sort(key=lambda each: each.place)
        turns = [_turn(each, claimants) for each in found]
        for first, second in pairwise(turns):
            if first != second:
                before[second].add(first)
        for parent in found[0].part.parents:
            if parent in by_segment and (last := _turn(max(by_segment[parent], key=_place), claimants)) != turns[0]:
                before[turns[0]].add(last)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        findings.add(TopicLie.TWO_WRITERS, topic, f"each behind the one before: {error.args[1]}")


def _place(stored: Stored) -> tuple[int, object]:
    return stored.place


def _turn(stored: Stored, claimants: set[str]) -> str:
    written = stored.written
    return written.producer if written.producer in claimants else f"{written.message} of {written.producer}"


def _judge_times(topic: str, stored: Iterable[Stored], claimed: list[Claimed], findings: Findings) -> None:
    """As long as somebody has the right nobody else is told that anything is there; who had it before, never again."""
    sends = [(each, send) for each in stored for send in _confirmed(each)]
    for claim in claimed:
        mine = [send.invoked for each, send in sends if each.written.producer == claim.producer]
        until = max(mine, default=claim.granted)
        older = {each.producer for each in claimed if each.granted < claim.invoked}
        for each, send in sends:
            assert send.returned is not None, "it was confirmed"
            is_late = send.returned < until or each.written.producer in older
            if each.written.producer != claim.producer and send.invoked > claim.granted and is_late:
                findings.add(TopicLie.FENCED_WRITE, topic, f"{each}, sent after {claim}, who had it until {until}")


def _confirmed(stored: Stored) -> Iterator[Send]:
    """The attempts of which somebody was told that they have placed it."""
    return (
        send
        for send in stored.message.sends
        if send.fate is Fate.DONE and send.returned is not None and not send.is_duplicate
    )
