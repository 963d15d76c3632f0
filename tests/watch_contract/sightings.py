"""What watchers note: what they looked at, and everything they were told, from one opening of a watch to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from metastore.interface import ALL, Range, WatchBatch


@dataclass(frozen=True)
class Scope:
    """What a watcher looks at."""

    range: Range = ALL
    index: str | None = None
    shards: tuple[int, ...] = (0,)
    """In the order in which a token has them: all, or the one of a partition."""
    previous_values: bool = False

    def __str__(self) -> str:
        what = "" if self.index is None else f"index {self.index!r} "
        return f"{what}{self.range} on shards {[*self.shards]}"


@dataclass(frozen=True)
class Opened:
    """A watch was opened: from a token, with a snapshot, or from now on."""

    tick: int
    resume: str | None = None
    has_snapshot: bool = True


@dataclass(frozen=True)
class Told:
    """A batch came."""

    tick: int
    batch: WatchBatch


@dataclass(frozen=True)
class Expired:
    """The watch ended because the changes it needs are no longer kept."""

    tick: int
    at_ms: int
    oldest_offset: int | None


@dataclass(frozen=True)
class Failed:
    """The watch ended with an error that no watch may end with here."""

    tick: int
    error: str


Event = Opened | Told | Expired | Failed


@dataclass
class Sighting:
    """One watcher's notes."""

    watcher: str
    scope: Scope
    events: list[Event] = field(default_factory=list, repr=False)
