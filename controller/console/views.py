"""A topic in numbers, and why it did or did not scale."""

from __future__ import annotations

import json
from collections.abc import Mapping

from controller.admin.bodies import ConsideredBody, DecisionBody, StatsBody
from controller.admin.words import explanation_of, stats_of
from controller.console.visit import Visit
from txn.doctor.texts import Moment, Section


async def stats(visit: Visit) -> None:
    """Programs get the object that the admin service answers with."""
    found = stats_of(await visit.topics.stats(visit.topic))
    if visit.arguments.json:
        print(json.dumps({"type": "stats", "topic": visit.topic, **found.model_dump()}), file=visit.out)
        return
    visit.write(
        Section("stats", [_whole(found)], is_fields=True),
        Section("segment", _segments(found), "SEGMENTS"),
        Section("subscription", _subscriptions(found), "SUBSCRIPTIONS", empty="none"),
        Section("consumer", _consumers(found), "CONSUMERS", empty="none"),
    )


def _whole(found: StatsBody) -> dict[str, object]:
    return {
        "epoch": found.epoch,
        "active": found.activeSegments,
        "sealed": found.sealedSegments,
        "leader": None if found.leader is None else found.leader.broker,
        "operation_under_way": found.operationUnderWay,
        "scales_by_itself": bool(found.effectiveAutoScalePolicy.get("enabled")),
        "retention_minutes": found.effectiveRetentionMinutes,
    }


def _segments(found: StatsBody) -> list[Mapping[str, object]]:
    rows: list[Mapping[str, object]] = []
    for number, each in sorted(found.segments.items(), key=lambda item: int(item[0])):
        load = each.load
        rows.append(
            {
                "segment": int(number),
                "state": each.state,
                "range": f"{each.hashRange.start:04x}-{each.hashRange.end:04x}",
                "messages_in": None if load is None else _rate(load.msgRateIn),
                "bytes_in": None if load is None else _rate(load.bytesRateIn),
                "messages_out": None if load is None else _rate(load.msgRateOut),
                "bytes_out": None if load is None else _rate(load.bytesRateOut),
                "backlog": sum(each.backlog.values()),
                "drained_by": each.drainedBy,
                "owner": None if each.owner is None else each.owner.broker,
            }
        )
    return rows


def _rate(per_s: float) -> str:
    return f"{per_s:.1f}/s"


def _subscriptions(found: StatsBody) -> list[Mapping[str, object]]:
    return [
        {
            "subscription": name,
            "kind": each.type,
            "consumers": each.consumerCount,
            "backlog": each.backlog,
            "generation": each.generation,
        }
        for name, each in found.subscriptions.items()
    ]


def _consumers(found: StatsBody) -> list[Mapping[str, object]]:
    return [
        {
            "subscription": name,
            "consumer": consumer.name,
            "connected": consumer.connected,
            "segments": ", ".join(
                f"{segment.segmentId}{' (shared)' if segment.buckets else ''}" for segment in consumer.segments
            ),
        }
        for name, each in found.subscriptions.items()
        for consumer in each.consumers
    ]


async def explain(visit: Visit) -> None:
    found = explanation_of(await visit.topics.explain(visit.topic))
    if not visit.arguments.dry_run:
        log = found.log[-visit.arguments.limit :]
        visit.write(Section("considered", [_considered(each) for each in log], "CONSIDERED", empty="nothing yet"))
        if len(found.log) > len(log):
            visit.say(f"... and {len(found.log) - len(log)} older ones (--limit)")
    visit.write(Section("now", [_decision(found.now)], "NOW", is_fields=True))


def _considered(entry: ConsideredBody) -> dict[str, object]:
    return {
        "at_ms": Moment(entry.atMs),
        "times": entry.times,
        "triggers": entry.triggers,
        **_decision(entry.decision),
        "outcome": entry.outcome or None,
    }


def _decision(decision: DecisionBody) -> dict[str, object]:
    return {
        "action": decision.action,
        "segments": [str(each) for each in decision.segmentIds],
        "reason": decision.reason or None,
        "suppressed": decision.suppressed,
        "notes": decision.notes,
    }
