"""A record of which something is known that has not been told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from metastore.interface.values import Record
from metastore.providers.wire.plain import NotificationKind


class Sight(NamedTuple):
    """What a look at a key found."""

    record: Record | None
    is_in: bool
    """Whether it is in the range."""

    @property
    def version_id(self) -> int | None:
        """Of the record; None if there was none."""
        return None if self.record is None else self.record.version.version_id


ABSENT = Sight(None, False)


class News(NamedTuple):
    """A sight, and the write that made it so."""

    sight: Sight
    offset: int
    time_ms: int


@dataclass(slots=True)
class Pending:
    """Such a record.

    Notifications say which version it has behind which write, and looks say what a version is. A look shows the
    version of some later write, whose notification is on its way. So what a look shows is told when the notification
    of its version has come: then both its place and its content are known.
    """

    version_id: int | None = None
    """What it is behind the last write that is known; None: it does not exist."""
    offset: int = -1
    time_ms: int = 0
    is_new: bool = False
    """It was created since it was last told, or did not exist in between."""
    is_known: bool = False
    """The version above is that of `news`, or has been told."""
    is_seen: bool = False
    """Looked at behind that write. If it is not known by that, it was another by then: more notifications follow."""
    ahead: Sight | None = None
    """Seen before its notification has come."""
    news: News | None = None
    """The last that is known with its place and has not been told."""

    def note(self, kind: NotificationKind, version_id: int | None, offset: int, time_ms: int) -> None:
        """A write of it."""
        self.version_id, self.offset, self.time_ms = version_id, offset, time_ms
        self.is_new = self.is_new or kind is not NotificationKind.MODIFIED
        self.is_known = False
        self.is_seen = self.ahead is not None
        if version_id is None:
            self._learn(ABSENT)
        elif self.ahead is not None and self.ahead.version_id == version_id:
            self._learn(self.ahead)
            self.ahead = None

    def see(self, sight: Sight, may_be_ahead: bool) -> None:
        """A look at it, behind the last write that is known."""
        self.is_seen = True
        if sight.version_id == self.version_id:
            self._learn(sight)
        elif may_be_ahead and sight.record is not None:
            assert self.ahead is None, "what is ahead is waited for"
            self.ahead = sight

    def _learn(self, sight: Sight) -> None:
        self.news = News(sight, self.offset, self.time_ms)
        self.is_known = self.is_seen = True
