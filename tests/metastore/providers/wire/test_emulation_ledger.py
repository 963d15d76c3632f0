"""When a ledger can tell what: notifications and looks that do not fit together at once."""

from __future__ import annotations

import pytest

from metastore.interface import ALL, Change, ChangeKind, Range, Record, StoreFailed, TokenExpired, Version
from metastore.providers.merging import StoreOrder
from metastore.providers.wire.emulation.ledger import Ledger
from metastore.providers.wire.emulation.mirror import Mirror
from metastore.providers.wire.emulation.pending import ABSENT, Sight
from metastore.providers.wire.emulation.placing import place_of
from metastore.providers.wire.emulation.scope import Scope
from metastore.providers.wire.plain import Notification, NotificationBatch, NotificationKind

ORDER = StoreOrder("hierarchical")
KEYS = Scope(0, ALL, None, False, ORDER)
INDEX = Scope(0, Range("in", "io"), "i", False, ORDER)


def ledger_of(*told: Record, scope: Scope = KEYS, is_complete: bool = True) -> Ledger:
    mirror = Mirror("test", keeps_values=False)
    for each in told:
        mirror.put(each.key, each, True)
    return Ledger(scope, 0, mirror, is_complete=is_complete)


def record(key: str, version_id: int, modifications: int = 1) -> Record:
    return Record(key, b"", Version(version_id, modifications, 0, version_id))


def batch(offset: int, *notifications: Notification) -> NotificationBatch:
    return NotificationBatch(0, offset, offset, notifications)


def created(key: str, version_id: int) -> Notification:
    return Notification(NotificationKind.CREATED, key, version_id)


def modified(key: str, version_id: int) -> Notification:
    return Notification(NotificationKind.MODIFIED, key, version_id)


def deleted(key: str) -> Notification:
    return Notification(NotificationKind.DELETED, key)


def seen(key: str, version_id: int) -> Sight:
    return Sight(record(key, version_id), True)


def told(changes: tuple[Change, ...]) -> list[tuple[ChangeKind, str, int | None, int]]:
    return [
        (each.kind, each.key, each.record.version.version_id if each.record else None, each.offset) for each in changes
    ]


def assert_is_not_ready(ledger: Ledger) -> None:
    assert not ledger.is_ready


def test_what_is_seen_as_it_was_notified_is_told() -> None:
    ledger = ledger_of(record("b", 1), record("c", 2))
    ledger.take(batch(1, created("a", 3), modified("b", 4), deleted("c")))
    assert sorted(ledger.unseen()) == ["a", "b"]
    assert_is_not_ready(ledger)
    ledger.see("a", seen("a", 3))
    ledger.see("b", seen("b", 4))
    assert ledger.is_ready
    assert told(ledger.settle()) == [
        (ChangeKind.CREATED, "a", 3, 1),
        (ChangeKind.MODIFIED, "b", 4, 1),
        (ChangeKind.DELETED, "c", None, 1),
    ]
    assert ledger.settle() == ()


def test_a_record_that_changes_all_the_time_is_told_by_what_was_seen_of_it() -> None:
    """Each look is ahead of the notifications; what it saw is told when its own comes."""
    ledger = ledger_of(record("a", 1))
    changes, looks = [], 0
    for offset in range(1, 31):
        ledger.take(batch(offset, modified("a", 1 + offset)))
        for key in ledger.unseen():
            looks += 1
            ledger.see(key, seen(key, 1 + offset + 3))
        assert ledger.is_ready  # the reader knows that there is one, and that is right
        changes += told(ledger.settle())
    assert changes == [(ChangeKind.MODIFIED, "a", 1 + offset, offset) for offset in range(4, 31, 4)]
    assert looks == 8


def test_a_new_record_is_told_before_anything_else_is_said_to_be_so() -> None:
    ledger = ledger_of()
    ledger.take(batch(1, created("a", 1)))
    ledger.see("a", seen("a", 3))
    assert_is_not_ready(ledger)  # there is one, and nobody has been told
    ledger.take(batch(2, modified("a", 2)))
    assert ledger.unseen() == []
    assert_is_not_ready(ledger)
    ledger.take(batch(3, modified("a", 3)))
    assert ledger.is_ready
    assert told(ledger.settle()) == [(ChangeKind.CREATED, "a", 3, 3)]


def test_what_came_and_went_is_not_told() -> None:
    ledger = ledger_of()
    ledger.take(batch(1, created("a", 1)))
    ledger.see("a", ABSENT)
    assert_is_not_ready(ledger)
    ledger.take(batch(2, deleted("a")))
    assert ledger.is_ready
    assert ledger.settle() == ()
    assert ledger.pending_count == 0


def test_what_was_deleted_and_came_again_was_modified() -> None:
    ledger = ledger_of(record("a", 1))
    ledger.take(batch(1, deleted("a")))
    ledger.take(batch(2, created("a", 2)))
    ledger.see("a", seen("a", 2))
    assert told(ledger.settle()) == [(ChangeKind.MODIFIED, "a", 2, 2)]


def test_several_writes_keep_their_order() -> None:
    ledger = ledger_of(record("c", 0))
    ledger.take(batch(1, created("b", 1)))
    ledger.take(batch(2, created("a", 2), deleted("c")))
    ledger.take(batch(3, created("0", 3)))
    for key, version_id in [("0", 3), ("a", 2), ("b", 1)]:
        ledger.see(key, seen(key, version_id))
    assert [(each.key, each.offset) for each in ledger.settle()] == [("b", 1), ("a", 2), ("c", 2), ("0", 3)]


def test_an_index_is_seen_with_the_version_that_was_notified_or_not_at_all() -> None:
    """Whether a record is in the range was read before it was; what has changed in between shows nothing."""
    ledger = ledger_of(scope=INDEX)
    ledger.take(batch(1, created("a", 1)))
    ledger.see("a", seen("a", 2))
    ledger.take(batch(2, modified("a", 2)))
    assert_is_not_ready(ledger)
    assert ledger.unseen() == ["a"]
    ledger.see("a", seen("a", 2))
    assert told(ledger.settle()) == [(ChangeKind.CREATED, "a", 2, 2)]


def test_records_enter_and_leave_an_index() -> None:
    ledger = ledger_of(scope=INDEX)
    changes = []
    for offset, is_in in enumerate([False, True, True, False, True], 1):
        ledger.take(batch(offset, modified("a", offset)))
        ledger.see("a", Sight(record("a", offset), is_in))
        changes += [kind for kind, *_ in told(ledger.settle())]
    assert changes == [ChangeKind.ENTERED, ChangeKind.MODIFIED, ChangeKind.LEFT, ChangeKind.ENTERED]


def test_an_audit_settles_what_was_not_notified_while_it_was_made() -> None:
    ledger = ledger_of(record("a", 1), record("b", 2), record("c", 3), record("d", 4))
    ledger.take(batch(1, Notification(NotificationKind.RANGE_DELETED, "a", range_end="c")))
    assert ledger.needs_audit
    ledger.begin_audit()
    ledger.meet("c", record("c", 3), True)
    ledger.meet("d", record("d", 6), True)
    ledger.meet("e", record("e", 7), True)
    ledger.take(batch(2, modified("d", 5)))
    assert sorted(ledger.unmet()) == ["a", "b"]
    assert ledger.end_audit()
    ledger.see("d", seen("d", 6))
    assert told(ledger.settle()) == [
        (ChangeKind.DELETED, "a", None, 2),
        (ChangeKind.DELETED, "b", None, 2),
        (ChangeKind.CREATED, "e", 7, 2),
    ]
    ledger.take(batch(3, modified("d", 6)))
    assert told(ledger.settle()) == [(ChangeKind.MODIFIED, "d", 6, 3)]


def test_an_audit_in_which_a_range_is_deleted_settles_nothing() -> None:
    ledger = ledger_of(record("a", 1))
    ledger.begin_audit()
    ledger.take(batch(1, Notification(NotificationKind.RANGE_DELETED, "", range_end="x")))
    assert not ledger.end_audit()
    assert ledger.needs_audit
    assert_is_not_ready(ledger)
    ledger.begin_audit()
    assert ledger.end_audit()
    assert told(ledger.settle()) == [(ChangeKind.DELETED, "a", None, 1)]


def test_a_range_that_begins_behind_the_watch_is_of_no_concern() -> None:
    scope = Scope(0, Range("b", "d"), None, False, ORDER)
    for start, is_of_concern in [("a", True), ("c", True), ("d", False), ("a/b", False)]:
        ledger = Ledger(scope, 0)
        ledger.take(batch(1, Notification(NotificationKind.RANGE_DELETED, start, range_end="zz")))
        assert ledger.needs_audit is is_of_concern


def test_without_a_mirror_notifications_say_what_there_was() -> None:
    ledger = ledger_of(is_complete=False)
    ledger.begin_audit()
    ledger.take(batch(1, created("a", 3), modified("b", 4), deleted("c")))
    ledger.take(batch(2, created("c", 5), deleted("a")))
    for key, version_id in [("b", 4), ("c", 5), ("d", 1)]:
        ledger.meet(key, record(key, version_id), True)
    assert ledger.end_audit()
    for key, version_id in [("b", 4), ("c", 5)]:
        ledger.see(key, seen(key, version_id))
    assert told(ledger.settle()) == [(ChangeKind.MODIFIED, "b", 4, 1), (ChangeKind.MODIFIED, "c", 5, 2)]
    ledger.take(batch(3, deleted("d")))
    assert told(ledger.settle()) == [(ChangeKind.DELETED, "d", None, 3)]


@pytest.mark.parametrize(
    ("scope", "notification"),
    [
        (KEYS, Notification(NotificationKind.RANGE_DELETED, "a", range_end="b")),
        (INDEX, Notification(NotificationKind.RANGE_DELETED, "a", range_end="b")),
        (INDEX, modified("a", 1)),
        (INDEX, deleted("a")),
    ],
)
def test_without_a_mirror_some_things_cannot_be_known(scope: Scope, notification: Notification) -> None:
    ledger = ledger_of(scope=scope, is_complete=False)
    with pytest.raises(TokenExpired, match="plain Oxia does not tell"):
        ledger.take(batch(1, notification))


def test_a_notification_without_a_version_is_a_failure() -> None:
    with pytest.raises(StoreFailed, match="without its version"):
        ledger_of().take(batch(1, Notification(NotificationKind.CREATED, "a")))


@pytest.mark.parametrize(
    ("found", "batches", "place"),
    [
        ([], [], 20),
        ([("a", 1)], [batch(11, created("a", 1))], 20),
        ([("a", 1)], [batch(11, created("a", 1)), batch(12, modified("a", 2))], 11),
        ([("a", 1)], [batch(12, modified("a", 2))], 10),
        ([], [batch(11, created("a", 1)), batch(15, deleted("a"))], 20),
        ([], [batch(11, created("a", 1)), batch(15, created("b", 2)), batch(16, deleted("b"))], 10),
        ([], [batch(11, deleted("a")), batch(12, created("b", 1))], 11),
        ([], [batch(11, modified("a", 1)), batch(12, deleted("a"))], 20),
        (
            [("a", 1), ("b", 2)],
            [batch(11, created("a", 1)), batch(12, modified("b", 2)), batch(13, modified("a", 3))],
            12,
        ),
        ([("a", 1), ("b", 2)], [batch(11, modified("a", 3)), batch(12, modified("b", 2))], None),
        ([], [batch(11, Notification(NotificationKind.RANGE_DELETED, "a", range_end="b"))], None),
    ],
)
def test_a_scan_is_placed_among_the_writes(
    found: list[tuple[str, int]], batches: list[NotificationBatch], place: int | None
) -> None:
    mirror = Mirror("test", keeps_values=False)
    for key, version_id in found:
        mirror.put(key, record(key, version_id), True)
    assert place_of(mirror, 10, batches, 20) == place
