"""Calls with one answer: to any broker, or to a segment's owner; asked again until there is an answer or no time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import grpc
import grpc.aio

from controller.client.connections import Connections, ended_by_close
from controller.client.errors import BrokersUnavailable
from controller.client.failures import error_of_call
from controller.client.protocol import DESCRIBE_BROKER
from controller.client.routes import Routes
from controller.errors import StoreUnavailable, TooManyStreams
from controller.pb import broker_pb2 as pb
from controller.topics.errors import NotLeader
from metastore.coordination import Backoff, Pace
from metastore.dialling import Method
from txn.hosting.errors import OwnedElsewhere
from txn.model.errors import CoordinatorUnavailable, SegmentUnavailable, TxnError

Q = TypeVar("Q")
A = TypeVar("A")

CONNECT_ATTEMPT_S = 2.0
"""How long to try one address before another one is asked."""
REDIRECTS_MAX = 3
"""That are followed without a pause; more in a row are brokers that do not agree yet."""

PASSING = (
    BrokersUnavailable,
    SegmentUnavailable,
    CoordinatorUnavailable,
    StoreUnavailable,
    TooManyStreams,
    NotLeader,
)
"""What passes by waiting, or by asking another broker. Other retriable errors are for who called to judge."""


@contextmanager
def failures_told(what: str) -> Iterator[None]:
    """Around a wait for gRPC: raises what the broker has said."""
    try:
        with ended_by_close():
            yield
    except grpc.aio.AioRpcError as failed:
        raise error_of_call(failed, what) from None


class Way:
    """The attempts at one thing: where to go next, when, and what the trouble was."""

    def __init__(self, routes: Routes, pace: Pace, segment: str | None, doubt: Callable[[], None]) -> None:
        """`doubt` is called when the list of brokers may be old: one failed, or one is named that it does not have."""
        self._routes = routes
        self._doubt = doubt
        self._backoff = Backoff(pace)
        self._segment = segment
        self._redirects = 0
        self.trouble: TxnError = BrokersUnavailable("no broker was asked yet")
        self.is_in_doubt = False
        """Whether what was asked for may have been done, for all that is known of the attempts so far."""

    @property
    def address(self) -> str:
        """Who is asked now."""
        return self._routes.anyone() if self._segment is None else self._routes.owner(self._segment)

    async def turn(self, address: str, error: TxnError) -> None:
        """After a failure that may pass: looks for another way, with a pause where that makes sense."""
        self.trouble = error
        if self._segment is not None and _says_where(error):
            is_news = self._learn(self._segment, error)
            self._redirects += 1
            if is_news and self._redirects <= REDIRECTS_MAX:
                return
        else:
            self.give_up(address)
        self._redirects = 0
        await self._backoff.pause()

    def give_up(self, address: str) -> None:
        """There it did not work, or nobody answered in time: others are asked first."""
        self._routes.note_failure(address, self._segment)
        self._doubt()

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Around a wait for an answer: without one, only a redirect says that nothing was done."""
        try:
            yield
        except PASSING as error:
            self.is_in_doubt = self.is_in_doubt or not _says_where(error)
            raise

    def _learn(self, segment: str, error: TxnError) -> bool:
        if isinstance(error, OwnedElsewhere):
            address, is_news = error.address, self._routes.learn_owner(segment, error.address, error.term)
        else:
            assert isinstance(error, NotLeader), "others do not say where"
            assert error.leader is not None, "this one did"
            address, is_news = error.leader, self._routes.learn_leader(segment, error.leader)
        if not self._routes.knows(address):
            self._doubt()
        return is_news


def _says_where(error: TxnError) -> bool:
    return bool(isinstance(error, OwnedElsewhere) and error.address) or bool(
        isinstance(error, NotLeader) and error.leader
    )


class Caller:
    """What everything that talks to brokers needs."""

    def __init__(self, connections: Connections, routes: Routes, pace: Pace, request_timeout_s: float) -> None:
        self.connections = connections
        self.routes = routes
        self.pace = pace
        self.request_timeout_s = request_timeout_s
        self._is_list_stale = False

    def way(self, segment: str | None = None) -> Way:
        """The attempts at one thing that begins now."""
        return Way(self.routes, self.pace, segment, self._doubt_list)

    async def call(
        self, method: Method[Q, A], request: Q, what: str, *, segment: str | None = None, timeout_s: float | None = None
    ) -> A:
        """Asks the owner of a segment, or any broker. What may pass is waited for as long as there is time."""
        return await self.call_by(self.way(segment), method, request, what, timeout_s=timeout_s)

    async def call_by(
        self, way: Way, method: Method[Q, A], request: Q, what: str, *, timeout_s: float | None = None
    ) -> A:
        """The same by a way that tells its caller of the attempts."""
        timeout_s = self.request_timeout_s if timeout_s is None else timeout_s
        address = way.address
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    try:
                        await self.reach(address)
                        with way.asking(), failures_told(f"{what} at {address}"):
                            return await self.connections.unary(address, method, request, timeout_s)
                    except PASSING as error:
                        await way.turn(address, error)
                    address = way.address
        except TimeoutError:
            way.give_up(address)
            raise self.out_of_time(what, timeout_s, way.trouble) from way.trouble

    def out_of_time(self, what: str, timeout_s: float, trouble: TxnError) -> TxnError:
        """What a caller is told whose time is over."""
        kind = type(trouble) if isinstance(trouble, CoordinatorUnavailable | StoreUnavailable) else BrokersUnavailable
        return kind(f"{what}: no answer within {timeout_s:g} s: {trouble}")

    async def reach(self, address: str) -> None:
        """Returns when there is a connection; BrokersUnavailable if there is none in time."""
        if not await self.connections.become_ready(address, CONNECT_ATTEMPT_S, attempts_again=False):
            raise BrokersUnavailable(f"no connection to {address}: check address, broker, and TLS on both sides")
        if self._is_list_stale:
            await self._look_around(address)

    async def describe(self, timeout_s: float | None = None) -> pb.DescribeBrokerResponse:
        """What a broker says of itself; and the others become known."""
        told = await self.call(DESCRIBE_BROKER, pb.DescribeBrokerRequest(), "look for brokers", timeout_s=timeout_s)
        self._learn(told)
        return told

    async def _look_around(self, address: str) -> None:
        """Asks a broker which others there are; nobody else does meanwhile."""
        self._is_list_stale = False
        try:
            with failures_told(f"look for brokers at {address}"):
                question = pb.DescribeBrokerRequest()
                self._learn(await self.connections.unary(address, DESCRIBE_BROKER, question, self.request_timeout_s))
        except BaseException:
            self._is_list_stale = True
            raise

    def _doubt_list(self) -> None:
        self._is_list_stale = True

    def _learn(self, told: pb.DescribeBrokerResponse) -> None:
        self.routes.learn_brokers(each.address for each in told.brokers)
        self._is_list_stale = False
