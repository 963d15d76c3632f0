"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from metastore.spark.schemas import AS_OF
from txn.audit.dialect import DialectName, Limits
from txn.audit.tables import Tables

SUBJECT = ("txn_id", "segment", "subscription", "key")
"""What a violation may be about; what it is not about is null."""


class Severity(Enum):
    """How bad a violation is."""

    CRITICAL = "critical"
    """Data was lost, or was seen that should not have been."""
    ERROR = "error"
    """Records contradict each other: something is broken, or will be."""
    WARNING = "warning"
    """Late, left behind, or held up: nothing is lost, and it may pass."""

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Context:
    """By what a rule judges."""

    limits: Limits

    def older(self, time: str | Column, than_ms: int) -> Column:
        """Whether a time lies further back than that, when the row was read. Not if there is no time."""
        return _ms(F.col(AS_OF)) - _ms(F.col(time) if isinstance(time, str) else time) > than_ms

    def settled(self, time: str | Column) -> Column:
        """Whether what should follow at once has had the time."""
        return self.older(time, self.limits.grace_ms)

    def before(self, first: str | Column, second: str | Column) -> Column:
        """Whether a time lies before another, and not only because two clocks differ."""
        left, right = (F.col(each) if isinstance(each, str) else each for each in (first, second))
        return _ms(left) + self.limits.skew_ms < _ms(right)


def _ms(time: Column) -> Column:
    return F.unix_millis(time)


@dataclass(frozen=True, slots=True)
class OnRows:
    """A condition on single rows of a table. All such conditions of one table are evaluated together."""

    table: str
    """`participants`, `transactions`, `segments` or `cursors`."""
    when: Callable[[Context], Column]
    evidence: Sequence[str]
    """The columns that show it."""


Suspects = Callable[[Tables, Context], DataFrame]


@dataclass(frozen=True, slots=True)
class OnTables:
    """Anything else: rows with the columns of `SUBJECT` that apply, and the columns that show it."""

    find: Callable[[Tables, Context], DataFrame]
    suspects: Suspects | None = None
    """Rows of any kind, if there may be something to find: those of all rules are looked for in one query, and where
    there are none nothing more is planned."""
    reads: Sequence[str] = ()
    """Those of the tables that take long to make: they are made first, beside each other."""
    is_of_acknowledgements: bool = False
    """Whether there is nothing to find where no operation acknowledges anything."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An invariant."""

    name: str
    """In a few words with hyphens; it never changes."""
    title: str
    """What is wrong where it is broken."""
    why: str
    """Why that matters."""
    remedy: str
    """What to do."""
    severity: Severity
    checks: Sequence[OnRows | OnTables]
    dialects: frozenset[DialectName] = field(default=frozenset(DialectName))
    is_of_history: bool = False
    """Whether it looks at the ledger, and not at one point in time."""


OURS = frozenset({DialectName.TIDEMARK})
PULSARS = frozenset({DialectName.PULSAR})


def col(name: str) -> Column:
    """A column."""
    return F.col(name)


def is_known(name: str) -> Column:
    """Whether a column says anything."""
    return F.col(name).isNotNull()


def has_operations() -> Column:
    """Whether operation records are there."""
    return F.col("operations") > 0


def is_final() -> Column:
    """Whether the header says that it is decided."""
    return F.col("state").isin("COMMITTED", "ABORTED")


def is_open() -> Column:
    """Whether the header says that it is open."""
    return F.col("state") == "OPEN"
