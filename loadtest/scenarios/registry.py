"""All scenarios, by name; and mixes of them."""

from __future__ import annotations

from collections.abc import Mapping

from loadtest.scenarios.points import MetadataHot, MetadataMixed, MetadataZipf
from loadtest.scenarios.ranges import IndexScans, Sequences, Watches
from loadtest.scenarios.scenario import Scenario
from loadtest.scenarios.sessions import SessionStorm
from loadtest.scenarios.topics import Topics, TopicsReshaping
from loadtest.scenarios.transactions import Transactions, TransactionsContended

_ALL: tuple[type[Scenario], ...] = (
    MetadataMixed,
    MetadataZipf,
    MetadataHot,
    Sequences,
    IndexScans,
    Watches,
    SessionStorm,
    Transactions,
    TransactionsContended,
    Topics,
    TopicsReshaping,
)
SCENARIOS: Mapping[str, type[Scenario]] = {each.name: each for each in _ALL}

MIXES: Mapping[str, Mapping[str, float]] = {
    "everything": {
        "metadata-mixed": 50,
        "sequences": 10,
        "index-scans": 4,
        "watches": 10,
        "session-storm": 1,
        "transactions": 5,
        "topics-reshaping": 20,
    },
}
"""By name: scenarios that run at the same time, and their shares of the arrivals."""
MIXES_SAID: Mapping[str, str] = {
    "everything": "all of it at once: metadata, sequences, scans, watches, sessions, transactions, topics that split",
}


def parts_of(name: str) -> Mapping[str, float]:
    """The scenarios that a name stands for, with their shares, which add up to 1. KeyError where there is none."""
    shares = MIXES[name] if name in MIXES else {SCENARIOS[name].name: 1.0}
    whole = sum(shares.values())
    return {each: share / whole for each, share in shares.items()}


def rate_of(name: str) -> float:
    """Arrivals a second, where nothing else is said."""
    return 100.0 if name in MIXES else SCENARIOS[name].rate
