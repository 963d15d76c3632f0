"""The rows of V7, one by one: what becomes of a consumer's session, and what is said to it, up to the wire.

Pulsar's session has a timer of its own, and a connection that is an object; ours is a value with the time at which its
grace is over, and a subscription has one timer for all. What its tests assert of timers is asserted of that time here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from sessions_stage import GRACE_S, Leader

from controller.broker.topics.members import Mailbox
from controller.layout import HashRange, Layout
from controller.pb import topics_pb2 as pb
from controller.subscriptions import Assigned, AssignedSegment, Session, Sessions
from support.world import World, run

TWO = Layout.initial(2, 0)
GRACE_MS = int(GRACE_S * 1000)
HALVES = (HashRange(0, 0x7FFF), HashRange(0x8000, 0xFFFF))
AWAITED = Sessions.restored(["c1"], 100.0)


def new() -> None:
    sessions = Sessions().connected("c1", 10)
    assert sessions.by_name == {"c1": Session(connection=10)}
    assert sessions.next_due_s is None


def restored() -> None:
    (session,) = AWAITED.by_name.values()
    assert (session.connection, session.is_connected, AWAITED.next_due_s) == (None, False, 100.0)


def same_name() -> None:
    sessions = Sessions().connected("c1", 10).connected("c1", 11)
    assert list(sessions.names) == ["c1"], "the name alone says who it is"
    assert list(sessions.connected("c2", 11).names) == ["c1", "c2"]


def attached() -> None:
    sessions = AWAITED.connected("c1", 77)
    assert sessions.by_name == {"c1": Session(connection=77)}
    assert sessions.next_due_s is None


def disconnected() -> None:
    sessions = Sessions().connected("c1", 10).disconnected("c1", 10, 100.0)
    assert sessions.by_name == {"c1": Session(until_s=100.0)}
    assert sessions.next_due_s == 100.0


def disconnected_twice() -> None:
    """Pulsar begins a second grace; here a connection that has gone cannot go once more."""
    once = Sessions().connected("c1", 10).disconnected("c1", 10, 100.0)
    assert once.disconnected("c1", 10, 200.0) is once


def cancelled_twice() -> None:
    once = AWAITED.connected("c1", 77)
    assert once.connected("c1", 77) == once
    assert once.expired(1e9) is once


@pytest.mark.parametrize("row", [new, restored, same_name, attached, disconnected, disconnected_twice, cancelled_twice])
def test_v7_a_session(row: Callable[[], None]) -> None:
    row()


async def told_on_its_connection(world: World) -> None:
    leader = await Leader.elected(world, TWO)
    client = await leader.join("c1")
    (message,) = client.messages
    assert isinstance(message, Assigned)
    assert (message.epoch, [each.segment_id for each in message.segments]) == (0, [0, 1])


async def restored_is_told_nothing(world: World) -> None:
    before = await Leader.elected(world, TWO)
    client = await before.join("c1")
    await before.resign()
    count = len(client.messages)
    after = await Leader.elected(world, TWO, create=False)
    after.subscriptions.on_layout(TWO.split(0, 1))
    await after.subscriptions.settled()
    assert after.assignment == {"c1": [0, 1]}
    assert len(client.messages) == count, "its connection was to somebody else"


async def disconnected_is_told_nothing(world: World) -> None:
    leader = await Leader.elected(world, TWO)
    one, two = await leader.join("c1"), await leader.join("c2")
    one.disconnect()
    count = len(one.messages)
    await two.leave()
    await leader.subscriptions.settled()
    assert leader.assignment == {"c1": [0, 1]}
    assert len(one.messages) == count
    await world.pass_ms(GRACE_MS)
    assert leader.assignment == {}
    assert len(one.messages) == count


@pytest.mark.parametrize("row", [told_on_its_connection, restored_is_told_nothing, disconnected_is_told_nothing])
def test_v7_what_is_said(row: Callable[[World], Awaitable[None]]) -> None:
    run(row)


NAME = "segment://tenant/ns/my-topic/{}"
THREE = tuple(
    AssignedSegment(number, HashRange(start, start + 0x3FFF), NAME.format(f"{start:04x}-{start + 0x3FFF:04x}-{number}"))
    for number, start in ((3, 0), (4, 0x4000), (5, 0x8000))
)
SHARED = (AssignedSegment(3, HashRange(0, 0xFFFF), NAME.format("0000-ffff-3"), HALVES),)
ON_THE_WIRE: dict[str, tuple[Assigned, list[tuple[int, int, int, str, list[tuple[int, int]]]]]] = {
    "three whole segments": (
        Assigned(7, 2, 9, THREE),
        [
            (3, 0x0000, 0x3FFF, NAME.format("0000-3fff-3"), []),
            (4, 0x4000, 0x7FFF, NAME.format("4000-7fff-4"), []),
            (5, 0x8000, 0xBFFF, NAME.format("8000-bfff-5"), []),
        ],
    ),
    "a shared one": (
        Assigned(7, 2, 9, SHARED),
        [(3, 0, 0xFFFF, NAME.format("0000-ffff-3"), [(0, 0x7FFF), (0x8000, 0xFFFF)])],
    ),
    "none": (Assigned(7, 2, 0, ()), []),
}


@pytest.mark.parametrize("row", ON_THE_WIRE)
def test_v7_what_is_said_on_the_wire(row: str) -> None:
    message, wanted = ON_THE_WIRE[row]

    async def taken() -> pb.SubscribeResponse:
        mailbox = Mailbox()
        mailbox.put(message)
        return pb.SubscribeResponse.FromString((await mailbox.take()).SerializeToString())

    told = asyncio.run(taken()).assignment
    assert (told.term, told.generation, told.layout_epoch) == (7, 2, message.epoch)
    assert [
        (each.segment_id, each.start, each.end, each.segment, [(one.start, one.end) for one in each.buckets])
        for each in told.segments
    ] == wanted
