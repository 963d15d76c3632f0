"""Topics: every group of lines about them, as large as the plan allows, and what is held against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from loadtest.bench import (
    topic_calls,
    topic_changes,
    topic_crowds,
    topic_decisions,
    topic_entries,
    topic_rates,
    topic_watches,
)
from loadtest.bench.bench import Group
from loadtest.bench.model import Better, Derived, Lookup
from loadtest.bench.settings import Settings
from loadtest.bench.topic_rates import BATCHED, COUNTS, GROUP, PLAIN, TOPIC

RECORDS_OF_FULL_SIZE = 1_000_000
"""A plan with as many records as this measures topics in full size as well."""


@dataclass(frozen=True)
class Sizes:
    """How much of each there is."""

    messages: int
    """To be consumed in one turn, at most."""
    counts: tuple[int, ...]
    """Of segments."""
    splits: int
    """Of one turn."""
    topics: int
    idle_s: float
    sessions: int
    streams: int


FULL = Sizes(messages=20_000, counts=COUNTS, splits=8, topics=1_000, idle_s=3.0, sessions=10_000, streams=1_000)
QUICK = Sizes(messages=10_000, counts=COUNTS, splits=4, topics=100, idle_s=1.0, sessions=1_000, streams=100)


def groups(settings: Settings) -> Sequence[Group[Any]]:
    """All about topics."""
    return groups_of(FULL if settings.plan.sizes[-1] >= RECORDS_OF_FULL_SIZE else QUICK)


def groups_of(sizes: Sizes) -> Sequence[Group[Any]]:
    """The groups in a size."""
    return [
        topic_decisions.group(),
        topic_rates.group(sizes.messages, sizes.counts),
        *topic_entries.groups(sizes.messages),
        topic_changes.group(sizes.splits),
        topic_crowds.group(sizes.topics, sizes.idle_s),
        *topic_watches.groups(sizes.sessions, sizes.streams),
        topic_calls.group(),
    ]


def derived(_settings: Settings) -> Sequence[Derived]:
    """What more segments bring: all share the processors of one machine, and of the broker one."""
    return [
        Derived(
            f"topics-{verb}-{'plain' if batch == PLAIN else 'batched'}-{count}",
            f"topics: {verb} {'one by one' if batch == PLAIN else 'batched'}, {count} segments to one",
            "x",
            Better.HIGHER,
            partial(_to_one, verb=verb, batch=batch, count=count),
        )
        for batch in (PLAIN, BATCHED)
        for verb in ("publish", "consume")
        for count in COUNTS[1:]
    ]


def _to_one(lookup: Lookup, verb: str, batch: int, count: int) -> dict[str, float] | None:
    several, one = (lookup(f"{GROUP}/{topic_rates.name(verb, each, batch)}", "rate") for each in (count, 1))
    return None if several is None or one is None else {TOPIC: several[TOPIC].value / one[TOPIC].value}
