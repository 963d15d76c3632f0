"""Members of divided subscriptions: what they believe, how they come back, how they leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from controller.client import EARLIEST
from controller.client.caller import Caller
from controller.client.client import connected
from controller.client.consumers.assignments import Assignment, Books, Membership
from controller.client.errors import ClientClosed
from controller.client.settings import Settings
from controller.layout import TopicName
from controller.pb import broker_pb2
from controller.pb import topics_pb2 as pb
from controller.subscriptions.errors import MemberReplaced
from controller.topics.errors import SubscriptionNotFound
from metastore.coordination import Pace
from support.ports import LOOPBACK

BOOKS = Books(TopicName.parse("topic://public/default/orders"), "billing", "one", pb.STREAM, EARLIEST)
Script = Callable[[AsyncIterator[pb.SubscribeRequest]], AsyncIterator[pb.SubscribeResponse]]


def assignment(term: int, generation: int, *segment_ids: int) -> pb.SubscribeResponse:
    segments = [
        pb.AssignedSegment(segment_id=each, segment=f"segment://public/default/orders/0000-ffff-{each}")
        for each in segment_ids
    ]
    return pb.SubscribeResponse(assignment=pb.Assignment(term=term, generation=generation, segments=segments))


def ended(reason: pb.MemberEnded.Reason.ValueType) -> pb.SubscribeResponse:
    return pb.SubscribeResponse(ended=pb.MemberEnded(reason=reason))


class Leader(grpc.GenericRpcHandler):
    """Says what it is told to; each stream another script, the last one again and again."""

    def __init__(self, *scripts: Script) -> None:
        self.opened: list[pb.OpenMember] = []
        self._scripts = list(scripts)
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"{LOOPBACK}:{self._server.add_insecure_port(f'{LOOPBACK}:0')}"

    async def __aenter__(self) -> Leader:
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(None)

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        if details.method.endswith("/Subscribe"):
            return grpc.stream_stream_rpc_method_handler(
                self._subscribe, pb.SubscribeRequest.FromString, pb.SubscribeResponse.SerializeToString
            )
        if details.method.endswith("/DescribeBroker"):
            return grpc.unary_unary_rpc_method_handler(
                self._describe,
                broker_pb2.DescribeBrokerRequest.FromString,
                broker_pb2.DescribeBrokerResponse.SerializeToString,
            )
        return None

    async def _describe(self, request: Any, context: Any) -> broker_pb2.DescribeBrokerResponse:
        return broker_pb2.DescribeBrokerResponse(brokers=[broker_pb2.BrokerDescription(address=self.address)])

    async def _subscribe(
        self, requests: AsyncIterator[pb.SubscribeRequest], context: Any
    ) -> AsyncIterator[pb.SubscribeResponse]:
        self.opened.append((await anext(requests)).open)
        script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
        async for response in script(requests):
            yield response


def says(*responses: pb.SubscribeResponse, stays: bool = True) -> Script:
    """Says this, and stays on the line, or leaves it."""

    async def script(requests: AsyncIterator[pb.SubscribeRequest]) -> AsyncIterator[pb.SubscribeResponse]:
        for each in responses:
            yield each
        async for request in requests if stays else _none():
            assert request.HasField("leave")
            yield ended(pb.MemberEnded.LEFT)
            return

    return script


async def _none() -> AsyncIterator[pb.SubscribeRequest]:
    return
    yield


class Told:
    """What a member has been told."""

    def __init__(self, caller: Caller) -> None:
        self.assignments: list[tuple[int, int, list[int]]] = []
        self.ends: list[BaseException] = []
        self.membership = Membership(caller, BOOKS, self._assigned, self.ends.append)

    def _assigned(self, told: Assignment) -> None:
        self.assignments.append((*told.number, sorted(told.shares)))

    async def until(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.assignments) < count and not self.ends:
                await asyncio.sleep(0.001)


def run(scenario: Callable[[Leader, Told], Awaitable[None]], *scripts: Script) -> None:
    async def whole() -> None:
        async with Leader(*scripts) as leader, await connected(Settings((leader.address,)), Pace()) as client:
            told = Told(client._caller)
            try:
                await scenario(leader, told)
            finally:
                await told.membership.close(leave=False)

    asyncio.run(whole())


def test_what_is_older_than_what_was_told_is_dropped() -> None:
    async def scenario(leader: Leader, told: Told) -> None:
        await told.until(3)
        assert told.assignments == [(3, 7, [0]), (3, 8, [0, 1]), (4, 8, [1])]

    older = [assignment(3, 6, 5), assignment(2, 9, 5)]
    run(scenario, says(assignment(3, 7, 0), older[0], older[1], assignment(3, 8, 0, 1), older[0], assignment(4, 8, 1)))


def test_it_comes_back_by_its_name_when_the_stream_breaks_or_the_topic_moves() -> None:
    async def scenario(leader: Leader, told: Told) -> None:
        await told.until(3)
        assert told.assignments == [(1, 1, [0]), (2, 1, [0]), (3, 2, [1])]
        assert [each.consumer for each in leader.opened] == ["one"] * 3
        assert leader.opened[0].subscription == "billing"
        assert leader.opened[0].start == pb.EARLIEST

    run(
        scenario,
        says(assignment(1, 1, 0), stays=False),
        says(assignment(2, 1, 0), ended(pb.MemberEnded.MOVED), stays=False),
        says(assignment(3, 2, 1)),
    )


def test_a_leader_of_an_earlier_term_is_not_believed() -> None:
    async def scenario(leader: Leader, told: Told) -> None:
        await told.until(2)
        assert told.assignments == [(5, 1, [0]), (6, 1, [2])]

    run(
        scenario,
        says(assignment(5, 1, 0), stays=False),
        says(assignment(4, 9, 1)),
        says(assignment(6, 1, 2)),
    )


def test_it_asks_again_what_it_has() -> None:
    async def scenario(leader: Leader, told: Told) -> None:
        await told.until(1)
        told.membership.ask_again()
        told.membership.ask_again()
        await told.until(2)
        assert told.assignments == [(1, 1, [0]), (1, 1, [0])]
        assert len(leader.opened) == 2

    run(scenario, says(assignment(1, 1, 0)))


@pytest.mark.parametrize(
    ("reason", "error"),
    [(pb.MemberEnded.REPLACED, MemberReplaced), (pb.MemberEnded.DELETED, SubscriptionNotFound)],
)
def test_some_ends_are_for_good(reason: pb.MemberEnded.Reason.ValueType, error: type[BaseException]) -> None:
    async def scenario(leader: Leader, told: Told) -> None:
        await told.until(2)
        assert [type(each) for each in told.ends] == [error]
        assert len(leader.opened) == 1

    run(scenario, says(assignment(1, 1, 0), ended(reason), stays=False))


def test_it_leaves_and_waits_until_that_is_done() -> None:
    async def scenario(leader: Leader, told: Told) -> None:
        await told.until(1)
        await told.membership.close(leave=True)
        assert [type(each) for each in told.ends] == [ClientClosed]
        assert len(leader.opened) == 1

    run(scenario, says(assignment(1, 1, 0)))
