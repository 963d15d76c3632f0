"""What must be told of one shard: notifications and looks at records, compared with what was told. Pure.

A ledger stands at an offset, and is *ready* when it can tell what happened up to there so that the reader of the watch
knows exactly which records there are at that offset. Of each record that changed either the version there is known,
or, where it has gone by unseen because the record changed again, that it exists and a later notification follows. Only
then there is something to tell, and a token. So whoever resumes at the token is told every later change, and none
twice.

What notifications do not settle is settled by an *audit*: a look at the whole range while notifications go on. What is
notified meanwhile is known from that; everything else did not change, so the look shows it as it is.
"""

from __future__ import annotations

from metastore.interface.errors import StoreFailed, TokenExpired
from metastore.interface.values import Change, ChangeKind, Record
from metastore.providers.wire.emulation.mirror import BOUNDS, Bounds, Mirror
from metastore.providers.wire.emulation.pending import ABSENT, News, Pending, Sight
from metastore.providers.wire.emulation.scope import Scope
from metastore.providers.wire.plain import Notification, NotificationBatch, NotificationKind


class Ledger:
    """The books of one watch about one shard.

    Incomplete, it does not know what an earlier watch has told, and takes what it needs of that from notifications:
    what is modified or deleted has existed. An audit makes it complete.
    """

    def __init__(
        self,
        scope: Scope,
        position: int,
        told: Mirror | None = None,
        *,
        is_complete: bool = True,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self.position = position
        """The offset of the last write that is known."""
        self.is_complete = is_complete
        self.needs_audit = not is_complete
        """There was something that only an audit can settle, and none was completed since."""
        self._scope = scope
        self._bounds = bounds
        self._time_ms = 0
        self._told = Mirror(str(scope), scope.has_previous_values, bounds) if told is None else told
        self._pending: dict[str, Pending] = {}
        self._met: dict[str, Sight] = {}
        self._unmet: set[str] = set()
        self._is_disturbed = False

    # -- what notifications say

    def take(self, batch: NotificationBatch) -> None:
        """The next write."""
        assert batch.offset > self.position, f"write {batch.offset} came behind {self.position}"
        self.position, self._time_ms = batch.offset, batch.time_ms
        for notification in batch.notifications:
            if not self._scope.concerns(notification):
                continue
            if notification.kind is NotificationKind.RANGE_DELETED:
                self._doubt(notification)
            else:
                self._note(notification, batch)

    def jump(self, position: int) -> None:
        """Notifications were lost up to here."""
        assert self.is_complete
        assert position >= self.position
        self.position = position
        self.needs_audit = True

    def advance(self, position: int) -> None:
        """Up to here nothing of concern was written."""
        assert position >= self.position
        self.position = position

    def _doubt(self, notification: Notification) -> None:
        """The keys of a deleted range are not told."""
        if not self.is_complete:
            raise TokenExpired(
                f"{self._scope}: since the token, a range of keys was deleted from {notification.key!r} on, and a "
                "plain Oxia does not tell which keys those were: begin with a snapshot"
            )
        self.needs_audit = self._is_disturbed = True

    def _note(self, notification: Notification, batch: NotificationBatch) -> None:
        key = notification.key
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = Pending()
            self._bounds.check_records(len(self._pending), str(self._scope))
            if not self.is_complete and notification.kind is not NotificationKind.CREATED:
                self._assume_told(key)
        is_deleted = notification.kind is NotificationKind.DELETED
        if not is_deleted and notification.version_id is None:
            raise StoreFailed(
                f"{self._scope}: the server tells of {key!r} at offset {batch.offset} without its version: "
                "no change can be told by that"
            )
        version_id = None if is_deleted else notification.version_id
        pending.note(notification.kind, version_id, batch.offset, batch.time_ms)

    def _assume_told(self, key: str) -> None:
        """It existed at the token, so it was told."""
        if self._scope.index is not None:
            raise TokenExpired(
                f"{self._scope}: since the token {key!r} was changed, and a plain Oxia does not tell whether it was in "
                "the range of the index before: begin with a snapshot"
            )
        self._told.put_unknown(key)

    # -- what looks show

    @property
    def pending_count(self) -> int:
        """Of how many records something is known that was not told."""
        return len(self._pending)

    def unseen(self) -> list[str]:
        """The keys to look at."""
        return [key for key, pending in self._pending.items() if not pending.is_seen]

    def see(self, key: str, sight: Sight) -> None:
        """A look at a key, made behind the last write that is known.

        Whether a record is in a range of an index is seen by another look, earlier. If it had its version by then, both
        belong together. If not, the look shows nothing.
        """
        self._pending[key].see(sight, may_be_ahead=self._scope.index is None)

    @property
    def is_ready(self) -> bool:
        """Whether there can be told what is at this offset."""
        return not self.needs_audit and all(
            pending.is_known or self._is_passed_by(key, pending) for key, pending in self._pending.items()
        )

    def _is_passed_by(self, key: str, pending: Pending) -> bool:
        """Whether it changed again before it was seen, and all that the reader has to know is that it exists."""
        if not pending.is_seen or self._scope.index is not None:
            return False
        return pending.news.sight.is_in if pending.news is not None else self._told.get(key) is not None

    # -- what is told

    def settle(self) -> tuple[Change, ...]:
        """Everything that can be told, in order. What is not known by now is kept."""
        told: list[tuple[tuple[int, bytes], Change]] = []
        for key, pending in [*self._pending.items()]:
            if pending.news is not None:
                change = self._tell(key, pending, pending.news)
                pending.news = None
                if change is not None:
                    told.append(((change.offset, self._scope.position(key)), change))
            if pending.is_known:
                del self._pending[key]
        told.sort(key=lambda each: each[0])
        return tuple([change for _, change in told])

    def _tell(self, key: str, pending: Pending, news: News) -> Change | None:
        before, sight = self._told.get(key), news.sight
        if sight.record is not None and (sight.is_in or self._scope.keeps_outsiders):
            self._told.put(key, sight.record, sight.is_in)
        else:
            self._told.remove(key)
        was_in = before is not None and before.is_in
        if was_in and before is not None and sight.is_in and before.version_id == sight.version_id:
            return None
        if sight.is_in:
            existed = was_in or (before is not None if self._scope.keeps_outsiders else self._existed(pending, sight))
            outside = ChangeKind.ENTERED if existed else ChangeKind.CREATED
            kind = ChangeKind.MODIFIED if was_in else outside
        elif was_in:
            kind = ChangeKind.DELETED if sight.record is None else ChangeKind.LEFT
        else:
            return None
        time_ms = news.time_ms if sight.record is None else sight.record.version.modified_ms
        previous = None if before is None else before.record
        return Change(kind, key, sight.record, previous, self._scope.shard, news.offset, time_ms)

    def _existed(self, pending: Pending, sight: Sight) -> bool:
        """Whether a record that is now in the range, and was not, has been elsewhere."""
        if self._scope.index is None or pending.is_new or sight.record is None:
            return False
        return sight.record.version.modifications > 0

    # -- audits

    def begin_audit(self) -> None:
        """The whole range will be looked at. What was not settled will be settled by that."""
        self.needs_audit = True
        self._is_disturbed = False
        self._pending.clear()
        self._met = {}
        self._unmet = set(self._told.keys())

    def meet(self, key: str, record: Record, is_in: bool) -> None:
        """What the look at the range found."""
        self._unmet.discard(key)
        if not self.is_complete:
            # Of what an earlier watch has told only the version matters.
            record = Record(key, None, record.version)
        known = self._told.get(key)
        if known is None or known[:2] != (record.version.version_id, is_in):
            self._met[key] = Sight(record, is_in)
            self._bounds.check_records(len(self._met), str(self._scope))

    def unmet(self) -> list[str]:
        """What was told and not found."""
        return [*self._unmet]

    def end_audit(self) -> bool:
        """The look is complete, and every notification of what was written by its end was taken.

        False if a range was deleted meanwhile: then nothing is settled, and it takes another audit.
        """
        if self._is_disturbed:
            return False
        self.needs_audit = False
        met, self._met = self._met, {}
        unmet, self._unmet = self._unmet, set()
        if not self.is_complete:
            for key, sight in met.items():
                if key not in self._pending and sight.record is not None:
                    self._told.put(key, sight.record, sight.is_in)
            self.is_complete = True
            return True
        met.update(dict.fromkeys(unmet, ABSENT))
        for key, sight in met.items():
            if key not in self._pending:
                pending = self._pending[key] = Pending(sight.version_id, self.position, self._time_ms)
                pending.see(sight, may_be_ahead=False)
        return True
