"""What is noted. `invoked` and `returned` are ticks of one counter; nobody was told what has returned at None."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from txn.model.header import TxnState
from txn.model.position import Position

START = Position(0, 0)
"""Before every entry."""


class Fate(Enum):
    """What became of a call."""

    DONE = "done"
    REFUSED = "refused"
    """For good: nothing was changed, and nothing will come of it."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Begun:
    """A transaction was begun."""

    txn: str
    invoked: int
    deadline_ms: int | None = None
    """By the clock by which `Ending` notes its times; None where clocks are not compared."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Somebody asked to end a transaction, and what he was told: the outcome, or nothing (None)."""

    txn: str
    wanted: TxnState
    invoked: int
    returned: int | None
    outcome: TxnState | None
    is_deadline: bool = False
    """The answer named the deadline as the reason."""
    invoked_ms: int | None = None
    returned_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Looked:
    """Somebody read in which state a transaction is."""

    txn: str
    state: TxnState
    invoked: int
    returned: int


@dataclass(frozen=True, slots=True)
class Send:
    """One attempt to send a message. All attempts of a message have the same payload, and no other message has it."""

    message: str
    segment: str
    producer: str
    sequence_id: int
    txn: str | None
    invoked: int
    returned: int | None
    fate: Fate
    position: Position | None = None
    is_duplicate: bool = False
    """The answer was that it is there already."""
    count: int = 1
    """Messages of the entry, if it is a batch."""


@dataclass(frozen=True, slots=True)
class AckOf:
    """What is acknowledged: an entry, everything up to it, or some messages of its batch."""

    position: Position
    is_cumulative: bool = False
    batch: tuple[int, ...] = ()
    since: Position = START
    """Of a cumulative one: the first that its consumer was shown, if that is known. It takes nothing before it."""


@dataclass(frozen=True, slots=True)
class Acknowledging:
    """One call that acknowledges something for a subscription, as a whole or not at all."""

    segment: str
    subscription: str
    acks: tuple[AckOf, ...]
    txn: str | None
    invoked: int
    returned: int | None
    fate: Fate
    is_too_late: bool = False
    """Some of it, nobody knows which, had come to somebody else: it may come again to who acknowledged it in vain."""


@dataclass(frozen=True, slots=True)
class Nacked:
    """A consumer gave entries back."""

    segment: str
    subscription: str
    positions: tuple[Position, ...]
    invoked: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """An entry that was shown to somebody."""

    position: Position
    message: str
    since: int
    """It was not decided before this tick that it would be shown."""
    tick: int
    """It was there."""
    skipped: tuple[int, ...] = ()
    """Messages of the batch that were said to be acknowledged, or held, already."""


@dataclass(slots=True)
class Sighting:
    """What one reader, or one consumer of a subscription, was shown, in the order in which it was shown."""

    name: str
    segment: str
    subscription: str | None
    """None: a reader."""
    opened: int
    start: Position = START
    """Of a reader: before this bound nothing was asked for."""
    term: int | None = None
    """Of the owner who showed it, where that is known."""
    is_shared: bool = False
    is_final: bool = False
    """Opened when everything was at rest, and shown everything there was to show."""
    is_keyed: bool = False
    """Shared by keys: what comes again comes with what is behind it of the same keys."""
    deliveries: list[Delivery] = field(default_factory=list)

    def __str__(self) -> str:
        kind = "reader" if self.subscription is None else f"{self.subscription}'s consumer"
        return f"{'final ' if self.is_final else ''}{kind} {self.name} of {self.segment} from tick {self.opened}"


@dataclass(frozen=True, slots=True)
class Trimming:
    """Entries before a bound were given up."""

    segment: str
    before: Position
    invoked: int


@dataclass(slots=True)
class Rest:
    """What is so in the end, when nothing moves any more."""

    ends: dict[str, tuple[Position, Position]] = field(default_factory=dict)
    """Of each segment how far reading may go, and how far its entries go."""
    oldest: dict[str, Position] = field(default_factory=dict)
    """Where what is kept begins, of segments of which something was given up."""
    states: dict[str, TxnState] = field(default_factory=dict)
    """Of the transactions whose header is there."""
    leftovers: list[str] = field(default_factory=list)
    """Keys of records that should be gone."""
    unanswered: list[str] = field(default_factory=list)
    """Calls that are still under way, described."""
