"""Whether everything that was sent came to every subscription, each key's messages in their order."""

from __future__ import annotations

from collections import defaultdict

from topics_simulation.topic_history import Stored, TopicHistory
from topics_simulation.topic_lies import TopicLie
from topics_simulation.topic_notes import Reading, Subscribed
from txn_histories.violations import Findings

When = tuple[int, int]
"""The tick; and of what was shown at once, the order."""


def judge_deliveries(history: TopicHistory, findings: Findings) -> None:
    """All subscriptions of all topics."""
    for subscribed in history.notes.subscribed:
        first = _first_deliveries(history, subscribed)
        findings.counts["first deliveries"] += len(first)
        if subscribed.reading.is_ordered:
            _judge_order(history, subscribed, first, findings)
        if subscribed.until is None and subscribed.topic in history.last:
            _judge_whole(history, subscribed, first, findings)
    for timed in history.notes.timed:
        findings.counts["delayed deliveries"] += 1
        if timed.shown_ms < timed.due_ms:
            findings.add(TopicLie.TOO_EARLY, f"{timed.subscription!r} of {timed.topic}", f"{timed}")


def _first_deliveries(history: TopicHistory, subscribed: Subscribed) -> dict[str, When]:
    """By message: when it came to somebody of the subscription for the first time."""
    found: dict[str, When] = {}
    for place, (_, delivery) in enumerate(history.deliveries(subscribed.topic, subscribed.name)):
        when = (delivery.tick, place)
        found[delivery.message] = min(when, found.get(delivery.message, when))
    return found


def _judge_order(history: TopicHistory, subscribed: Subscribed, first: dict[str, When], findings: Findings) -> None:
    by_key: defaultdict[str, list[Stored]] = defaultdict(list)
    for each in history.stored.get(subscribed.topic, ()):
        if each.message.name in first:
            by_key[each.written.key].append(each)
    for found in by_key.values():
        found.sort(key=lambda each: first[each.message.name])
        furthest = found[0]
        for each in found[1:]:
            if each.place < furthest.place:
                evidence = f"{each} at tick {first[each.message.name][0]}, behind {furthest}"
                findings.add(TopicLie.MISORDERED_DELIVERY, _name(subscribed), evidence)
            else:
                furthest = each


def _judge_whole(history: TopicHistory, subscribed: Subscribed, first: dict[str, When], findings: Findings) -> None:
    if subscribed.reading is Reading.CHECKPOINT and history.notes.rest.pruned_without:
        return
    for each in history.stored.get(subscribed.topic, ()):
        is_due = each.message.is_accepted and not history.is_aborted(each.written)
        sent = min(send.invoked for send in each.message.sends)
        if is_due and sent > subscribed.since and each.message.name not in first:
            findings.add(TopicLie.LOST_MESSAGE, _name(subscribed), str(each))


def _name(subscribed: Subscribed) -> str:
    return f"{subscribed.reading.value} {subscribed.name!r} of {subscribed.topic}"
