"""Who is connected, and who is awaited: an immutable value.

Connections are told apart by numbers, never by names: what an old connection says late is about itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Session:
    """A consumer: connected, or awaited until its grace is over."""

    connection: int | None = None
    until_s: float | None = None
    """When the grace is over, of one that is not connected."""

    def __post_init__(self) -> None:
        assert (self.connection is None) == (self.until_s is not None), "connected, or in grace"

    @property
    def is_connected(self) -> bool:
        """Whether there is somebody to be told."""
        return self.connection is not None


@dataclass(frozen=True, slots=True)
class Sessions:
    """The consumers of a subscription by their names."""

    by_name: Mapping[str, Session] = field(default_factory=dict)

    @classmethod
    def restored(cls, names: Iterable[str], until_s: float) -> Sessions:
        """The consumers that an earlier leader had: all of them are awaited."""
        return cls({name: Session(until_s=until_s) for name in names})

    @property
    def names(self) -> Collection[str]:
        """All of them, connected or not."""
        return self.by_name.keys()

    @property
    def next_due_s(self) -> float | None:
        """When the next grace is over; None if nobody is in grace."""
        return min((each.until_s for each in self.by_name.values() if each.until_s is not None), default=None)

    def connected(self, name: str, connection: int) -> Sessions:
        """A consumer has come, or has come back; whatever connection it had is replaced."""
        return Sessions({**self.by_name, name: Session(connection)})

    def disconnected(self, name: str, connection: int, until_s: float) -> Sessions:
        """A connection is gone. The same sessions, if it was not the consumer's any more."""
        if not self.has(name, connection):
            return self
        return Sessions({**self.by_name, name: Session(until_s=until_s)})

    def left(self, name: str, connection: int) -> Sessions:
        """A consumer goes for good. The same sessions, if the connection was not its any more."""
        return self._without({name}) if self.has(name, connection) else self

    def expired(self, now_s: float) -> Sessions:
        """Without those whose grace is over."""
        over = {name for name, each in self.by_name.items() if each.until_s is not None and each.until_s <= now_s}
        return self._without(over) if over else self

    def has(self, name: str, connection: int) -> bool:
        """Whether a consumer has that connection."""
        session = self.by_name.get(name)
        return session is not None and session.connection == connection

    def _without(self, names: Collection[str]) -> Sessions:
        return Sessions({name: each for name, each in self.by_name.items() if name not in names})
