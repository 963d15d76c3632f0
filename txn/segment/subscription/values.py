"""What goes into a subscription and what comes out, and the limits of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import NamedTuple, Protocol

from txn.model.position import Position
from txn.segment.cursor import BatchBits
from txn.segment.entry import Entry
from txn.segment.log import LogEntry

CONSUMERS_MAX = 1_000
"""Of one subscription."""
PERMITS_MAX = 100_000
"""Messages that one consumer may have asked for and not got."""
QUEUE_BYTES_MAX = 8 << 20
"""Payload that waits for one consumer to take it; then it gets no more, whatever it has asked for."""
UNACKED_CONSUMER_MAX = 50_000
"""Messages that one consumer has and has not acknowledged; then it gets no more."""
UNACKED_SUBSCRIPTION_MAX = 200_000
"""The same for all consumers together."""
REDELIVERIES_MAX = 50_000
"""Entries that wait to be delivered again, one by one, and whose deliveries are counted. Beyond that reading goes back
to the first of them, and counts begin anew."""
WAITING_MAX = 50_000
"""Entries that were read and wait for the consumers of their keys, once for each bucket; then nothing is read ahead."""
DELAYED_MAX = 50_000
"""Entries whose time has not come, of which only the positions are kept; then nothing is read ahead of another one."""
BUCKETS_MAX = 4_096
"""Into which keys are divided among consumers."""
READ_ENTRIES_MAX = 1_000
"""Entries read at once."""
READ_BYTES_MAX = 4 << 20


Identity = tuple[str, int]
"""Of a consumer, on all its streams."""


class SubscriptionKind(Enum):
    """Who gets what, among the consumers of a subscription."""

    EXCLUSIVE = "exclusive"
    """There is one consumer, and it gets all in order."""
    SHARED = "shared"
    """All get something, in turn."""
    FAILOVER = "failover"
    """The one that came first gets all in order; when it goes, the next one does."""
    KEY_SHARED = "key-shared"
    """Each gets the messages of its keys, of each key in order."""

    @property
    def is_ordered(self) -> bool:
        """Whether what is delivered again comes with everything behind it, in order."""
        return self in (SubscriptionKind.EXCLUSIVE, SubscriptionKind.FAILOVER)


class Assigned(NamedTuple):
    """The division of a topic among consumers by which one of them is here; of two the greater is the newer."""

    term: int
    generation: int


@dataclass(frozen=True, slots=True)
class Asking:
    """What a consumer says when it comes."""

    name: str
    kind: SubscriptionKind
    starts: tuple[int, ...] = (0,)
    """Where the buckets of a key-shared subscription begin, among the lower halves of hashes; others have one."""
    assigned: Assigned | None = None
    """None: nobody divides anything here."""
    replaces: bool = False
    """Whether consumers of an older division that are in the way are ended."""
    instance: int = 0
    """By which, and by its name, it is the same on another stream; 0: it is another one on each."""

    def __post_init__(self) -> None:
        starts = self.starts
        if not 1 <= len(starts) <= BUCKETS_MAX:
            raise ValueError(f"{len(starts)} buckets: 1 to {BUCKETS_MAX} (BUCKETS_MAX)")
        if starts[0] != 0 or any(one >= other for one, other in pairwise(starts)):
            raise ValueError(f"buckets that begin at {starts[:8]}: from 0 on, each behind the one before")

    @property
    def identity(self) -> Identity | None:
        """By which it is the same on another stream; None: it is another one on each."""
        return (self.name, self.instance) if self.instance else None


class InitialPosition(Enum):
    """Where a new subscription begins."""

    EARLIEST = "earliest"
    """With the oldest entry that is kept."""
    LATEST = "latest"
    """With what is appended from now on. What was appended before, and is committed later, is not for it."""


class Delivery(NamedTuple):
    """An entry, given to a consumer."""

    position: Position
    entry: Entry
    redeliveries: int
    """How often it was delivered before, as far as this owner of the segment knows."""
    acknowledged: BatchBits | None
    """Messages of a batch that are not for this consumer: acknowledged already, or by an open transaction; or another
    consumer's."""
    epoch: int
    """Grows when an ordered subscription goes back: of the same consumer, what has an older one comes again."""
    era: int
    """Of the cursor; a cumulative acknowledgement of this says it."""


class Nack(NamedTuple):
    """Messages of an entry that a consumer gives back."""

    position: Position
    bits: int = -1
    """Which: bit 0 is the first. -1: all that it has."""
    redeliveries: int | None = None
    """Of the delivery by which they came: what has come by another one it keeps. None: however they came."""


class VisibleEntry(Protocol):
    """An entry that readers are to see."""

    @property
    def position(self) -> Position: ...

    @property
    def entry(self) -> Entry: ...


class Readable(Protocol):
    """What may be read of a segment: `txn.segment.buffer` says it."""

    @property
    def bound(self) -> Position: ...

    async def wait_moved(self, beyond: Position) -> bool: ...

    async def filter(self, entries: Sequence[LogEntry]) -> Sequence[VisibleEntry]: ...
