"""The inbox: entries wait whole, messages leave in their order, and what is acknowledged leaves unseen."""

from __future__ import annotations

import pytest

from controller.client.batches import Content, pack, unpack
from controller.client.segment import inbox as module
from controller.client.segment.inbox import Inbox
from controller.client.values import Message, MessageId
from controller.pb import broker_pb2 as pb
from txn.model.position import Position

SIZE_BYTES = 10


def delivery(entry: int, messages: int = 2) -> pb.Delivery:
    send = pack([Content(b"%d" % number, {}) for number in range(messages)], list(range(messages)))
    where = pb.Position(ledger=1, entry=entry)
    return pb.Delivery(position=where, payload=send.payload, is_batch=send.is_batch, message_count=messages)


def filled(*entries: int, messages: int = 2) -> Inbox:
    inbox = Inbox("s")
    for entry in entries:
        inbox.add(delivery(entry, messages), SIZE_BYTES)
    return inbox


def at(entry: int, index: int = 0) -> MessageId:
    return MessageId(Position(1, entry), index)


def ids(messages: list[Message]) -> list[MessageId]:
    return [each.id for each in messages]


def test_messages_leave_in_their_order_and_an_entry_with_its_last() -> None:
    inbox = filled(1, 2)
    assert ids(inbox.take(1)) == [at(1)]
    assert (len(inbox), inbox.size_bytes) == (2, 2 * SIZE_BYTES), "something of the first is left"
    assert ids(inbox.take(2)) == [at(1, 1), at(2)]
    assert (len(inbox), inbox.size_bytes) == (1, SIZE_BYTES)
    assert ids(inbox.take(5)) == [at(2, 1)]
    assert (inbox.take(5), len(inbox), inbox.size_bytes) == ([], 0, 0)


def test_no_entry_is_taken_apart_before_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[int] = []

    def noted(segment: str, came: pb.Delivery) -> list[Message]:
        opened.append(came.position.entry)
        return unpack(segment, came)

    monkeypatch.setattr(module, "unpack", noted)
    inbox = filled(1, 2, 3)
    inbox.take(2)
    assert opened == [1]
    inbox.drop_through(at(1, 1))
    inbox.drop([at(1)])
    assert opened == [1], "nothing of the others is acknowledged"
    inbox.take(1)
    assert opened == [1, 2]


def test_what_is_acknowledged_up_to_a_message_leaves_with_entries_of_which_nothing_is_left() -> None:
    inbox = filled(1, 2, 3)
    assert ids(inbox.drop_through(at(2))) == [at(1), at(1, 1), at(2)]
    assert (len(inbox), inbox.size_bytes) == (2, 2 * SIZE_BYTES)
    assert ids(inbox.take(9)) == [at(2, 1), at(3), at(3, 1)]


def test_an_entry_that_came_late_is_found_behind_later_ones() -> None:
    inbox = filled(5, 1, 6)
    assert ids(inbox.drop_through(at(1, 1))) == [at(1), at(1, 1)]
    assert ids(inbox.take(9)) == [at(5), at(5, 1), at(6), at(6, 1)]


def test_messages_are_dropped_wherever_their_entry_waits_also_twice() -> None:
    inbox = filled(1, 2, 1)
    assert ids(inbox.drop([at(1, 1), at(7)])) == [at(1, 1), at(1, 1)]
    assert ids(inbox.take(9)) == [at(1), at(2), at(2, 1), at(1)]


def test_entries_are_dropped_whole() -> None:
    inbox = filled(1, 2)
    inbox.take(1)
    inbox.drop_entries({Position(1, 1)})
    assert (len(inbox), inbox.size_bytes) == (1, SIZE_BYTES)
    assert ids(inbox.take(9)) == [at(2), at(2, 1)]
    inbox.add(delivery(3), SIZE_BYTES)
    inbox.clear()
    assert (inbox.take(1), inbox.size_bytes) == ([], 0)


def test_an_entry_whose_messages_are_all_acknowledged_already_is_none() -> None:
    inbox = Inbox("s")
    came = delivery(1)
    came.acknowledged = b"\x03"
    inbox.add(came, SIZE_BYTES)
    inbox.add(delivery(2), SIZE_BYTES)
    assert ids(inbox.take(1)) == [at(2)]
    assert (len(inbox), inbox.size_bytes) == (1, SIZE_BYTES)
