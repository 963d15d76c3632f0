"""Whose records are audited: where they are, how their keys are made, how long things may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from txn.audit.views import pulsar
from txn.model import paths


class DialectName(Enum):
    """Those that there are."""

    TIDEMARK = "tidemark"
    PULSAR = "pulsar"


@dataclass(frozen=True, slots=True)
class Limits:
    """What is still in order, in milliseconds."""

    grace_ms: int = 60_000
    """How long a step may take that follows another at once. What differs between two shards of a live store, each
    read at an instant of its own, is younger than that."""
    skew_ms: int = 5_000
    """How much the clocks of two machines may differ."""
    sweep_ms: int = 30_000
    """From a deadline to the abort."""
    collect_ms: int = 300_000
    """From a decision to the header's removal."""
    retention_ms: int = 50_000
    """A header that is decided stays at least so long."""
    hold_ms: int = 900_000
    """How long an open transaction may hold a segment's horizon."""
    timeout_max_ms: int = 3_600_000
    """The longest time that a transaction may be given."""
    announcements_max: int = 10
    """How often a decision may be announced to one participant."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of records."""

    name: DialectName
    views: Mapping[str, str]
    """Which view has what the audit calls `headers`, `ops` and so on; what is missing is not there in this kind."""
    header_path: str
    operation_path: str
    operation_separator: str
    indexes: Mapping[str, str]
    """What the audit calls an index, and its name in the store."""
    index_parent: Mapping[str, str]
    """What stands before secondary keys."""
    limits: Limits
    small: Sequence[str]
    """Of the views those of which there are few rows, beside the others: they are read together."""
    parts: str | None = None
    """The view that has headers, operations and what was applied put together already, if there is one."""
    entry_sums: str | None = None
    """What entries of indexes add up to; hashed as in `parts`."""


TIDEMARK = Dialect(
    DialectName.TIDEMARK,
    {
        name: name
        for name in ("headers", "ops", "applied", "aborted", "segments", "segment_state", "cursors", "numbers")
    },
    f"{paths.HEADERS}/",
    f"{paths.OPERATIONS}/",
    "/-",
    {
        "deadline": paths.BY_DEADLINE,
        "final": paths.BY_FINAL_STATE,
        "writes": paths.WRITES_BY_SEGMENT,
        "acks": paths.ACKS_BY_SUBSCRIPTION,
    },
    {},
    Limits(),
    ("aborted", "segments", "segment_state", "cursors", "numbers"),
    "transaction_parts",
    "entry_sums",
)

PULSAR = Dialect(
    DialectName.PULSAR,
    {
        "headers": "pulsar_headers",
        "ops": "pulsar_ops",
        "aborted": "pulsar_aborted",
        "events": "pulsar_events",
        "watermarks": "pulsar_watermarks",
        "numbers": "pulsar_numbers",
        "participants": "pulsar_participants",
    },
    f"{pulsar.IDS}/",
    f"{pulsar.OPERATIONS}/",
    "-",
    {
        "deadline": pulsar.BY_DEADLINE,
        "final": pulsar.BY_FINAL_STATE,
        "writes": pulsar.WRITES_BY_SEGMENT,
        "acks": pulsar.ACKS_BY_SUBSCRIPTION,
    },
    {
        "deadline": f"{pulsar.IDS}/",
        "final": f"{pulsar.IDS}/",
        "writes": f"{pulsar.OPERATIONS}/",
        "acks": f"{pulsar.OPERATIONS}/",
    },
    # As it is shipped, its coordinators sweep each minute, and collect every five minutes what is 15 minutes old.
    Limits(sweep_ms=120_000, collect_ms=1_500_000, retention_ms=850_000),
    ("aborted", "watermarks", "numbers", "participants"),
)

DIALECTS = {each.name: each for each in (TIDEMARK, PULSAR)}
