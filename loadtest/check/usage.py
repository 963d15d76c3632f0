"""What limited it: what a run has used of each thing that may be used up, as shares. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

LIMITING_SHARE = 0.8
"""Whoever has used so much of something has little of it left."""


@dataclass(frozen=True, slots=True)
class ProcessUse:
    """A process of the server."""

    name: str
    cores: float
    """How many it used, on average."""
    cores_max: float
    """How many it can use: one for a Python process, whose threads share a lock."""


@dataclass(frozen=True, slots=True)
class ShardUse:
    """A shard of our metadata service, by its own metrics. Its rounds run one after the other."""

    name: str
    seconds: float
    rounds: float
    sync_s: float
    """In appending and fsync, of all rounds together."""
    paced_s: float
    writes: float
    """Requests, each of which may hold many."""
    write_s: float
    """From arrival to answer, of all writes together."""


@dataclass(frozen=True, slots=True)
class LogUse:
    """The logs of a broker's segments that are kept in one way. They sync side by side."""

    kind: str
    syncs: float
    sync_s: float
    """From writing until it is durable, of all of them together."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was seen while a profile ran."""

    seconds: float
    own_cores: float
    """This program's."""
    processes: Sequence[ProcessUse] = ()
    machine_share: float | None = None
    """Of all processors of the server's machine, by everybody on it."""
    shards: Sequence[ShardUse] = ()
    logs: Sequence[LogUse] = ()
    round_trip_s: float | None = None
    unknown: Sequence[str] = ()
    """What could not be seen, and why."""


@dataclass(frozen=True, slots=True)
class Usage:
    """One thing that may be used up, and how much of it was used."""

    resource: str
    share: float
    seen: str


def usages(evidence: Evidence, p50_s: float) -> tuple[Usage, ...]:
    """How much of everything was used, the most used first; `p50_s` is the median latency that was measured."""
    found = [_of_process(each) for each in evidence.processes]
    if evidence.machine_share is not None:
        share = evidence.machine_share
        found.append(Usage("all processors", share, f"of the server's machine, {share:.0%} by all programs on it"))
    for shard in evidence.shards:
        found += _of_shard(shard)
    if evidence.round_trip_s is not None and p50_s:
        seen = f"a round trip takes {_ms(evidence.round_trip_s)}, half of all answers came within {_ms(p50_s)}"
        found.append(Usage("network", min(1.0, evidence.round_trip_s / p50_s), seen))
    found.append(Usage("this program", evidence.own_cores, f"it used {evidence.own_cores:.2f} cores, and can use one"))
    return tuple(sorted(found, key=lambda usage: -usage.share))


def limits(found: Sequence[Usage]) -> tuple[Usage, ...]:
    """Those of them that are used up, or nearly."""
    return tuple(usage for usage in found if usage.share >= LIMITING_SHARE)


def inside_texts(evidence: Evidence) -> Iterator[str]:
    """How long what was written was in the server, as far as its metrics tell."""
    writes = sum(shard.writes for shard in evidence.shards)
    if writes:
        inside_s = sum(shard.write_s for shard in evidence.shards) / writes
        yield f"a write was durable {_ms(inside_s)} after it had arrived at its shard, on average"
    for log in evidence.logs:
        yield (
            f"what was written to a {log.kind} log of a segment was durable {_ms(log.sync_s / log.syncs)} later, on "
            f"average, {log.syncs / evidence.seconds:,.0f} times a second"
        )


def conclusion(found: Sequence[Usage], passed: bool) -> str:
    """A sentence for people."""
    used_up = limits(found)
    if any(usage.resource == "this program" for usage in used_up):
        return "limited by this program: the service may be faster than it looks; give it processors of its own"
    if used_up:
        named = ", ".join(f"{usage.resource} ({usage.share:.0%})" for usage in used_up)
        return f"held, and near the limit of: {named}" if passed else f"limited by: {named}"
    most = f"the most used is: {found[0].resource} ({found[0].share:.0%})"
    if passed:
        return f"nothing limited it; {most}"
    return f"nothing that was seen was used up; {most}. Look at what was slow, what failed, and what is not known"


def _of_process(process: ProcessUse) -> Usage:
    seen = f"{process.name} used {process.cores:.2f} cores, and can use {process.cores_max:g}"
    return Usage("server's processor", process.cores / process.cores_max, seen)


def _of_shard(shard: ShardUse) -> list[Usage]:
    if not shard.rounds:
        return []
    sync_share = shard.sync_s / shard.seconds
    found = [
        Usage(
            "disk",
            sync_share,
            f"{shard.name} appended and synced {sync_share:.0%} of the time: {shard.rounds / shard.seconds:,.0f} "
            f"times a second, {_ms(shard.sync_s / shard.rounds)} each",
        )
    ]
    paced_share = shard.paced_s / shard.seconds
    if paced_share:
        found.append(Usage("index", paced_share, f"{shard.name} held writers up until LMDB had caught up"))
    return found


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.2f} ms"
