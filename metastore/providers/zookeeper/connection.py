"""kazoo, which works in threads of its own, as something that an event loop can wait for.

Reads go out in batches. A batch begins with a sync, so that it sees whatever was committed before it, also where it is
asked of a follower, and it counts only if all of it happened in one session of ZooKeeper's, so that it cannot slip
back in time between two reads. Reads are repeated until they succeed or their caller has no more patience. Commits are
sent once, and what became of one whose answer is lost is for its sender to find out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from kazoo import exceptions
from kazoo.protocol.states import KazooState

from metastore.interface import AccessDenied, StoreClosed, StoreError, StoreFailed, StoreFull
from metastore.providers.zookeeper.batching import Cut, Read, ReadBatches
from metastore.providers.zookeeper.operations import Kind, Operation
from metastore.providers.zookeeper.threads import Client
from metastore.providers.zookeeper.view import Node, View

_CUTS = (
    exceptions.ConnectionLoss,
    exceptions.SessionExpiredError,
    exceptions.OperationTimeoutError,
    exceptions.RequestTimeoutError,
    exceptions.SessionMovedError,
    exceptions.ThrottledOpError,
)
_CONFLICTS = (
    exceptions.BadVersionError,
    exceptions.NodeExistsError,
    exceptions.NoNodeError,
    exceptions.NotEmptyError,
)
_DENIALS = (exceptions.NoAuthError, exceptions.AuthFailedError, exceptions.InvalidACLError)
# What ZooKeeper says of the operations beside the one that failed.
_BYSTANDERS = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)


class Conflict(Exception):
    """The tree was not as the operations need it; none of them was applied."""


def teller(event: asyncio.Event) -> Callable[[object], None]:
    """Sets an event of this event loop from any thread; for reads with a watch."""
    loop = asyncio.get_running_loop()

    def tell(_: object) -> None:
        loop.call_soon_threadsafe(event.set)

    return tell


class Connection:
    """One session of ZooKeeper's at a time, and another one when it has expired, unless it is told not to."""

    def __init__(self, servers: Iterable[str], timeout_ms: int, root: str) -> None:
        self._client = Client(servers, timeout_ms)
        self._root = root
        self._loop = asyncio.get_running_loop()
        self._batches = ReadBatches(self._send)
        self._connected = asyncio.Event()
        self._is_closed = False
        self._client.add_listener(self._hear)

    # -- the state of the connection

    @property
    def session_id(self) -> int | None:
        """The id of the session at ZooKeeper; None while there is no connection."""
        return self._client.granted_id

    @property
    def granted_ms(self) -> int:
        """How long ZooKeeper keeps the session without hearing of it."""
        return self._client.granted_ms

    def start(self) -> None:
        """Begins to connect, and to connect again whenever the connection is lost."""
        self._client.start_async()

    async def until_connected(self) -> None:
        """Waits for as long as there is no connection."""
        await self._connected.wait()
        if self._is_closed:
            raise StoreClosed("the store was closed: open another one")

    async def close(self) -> None:
        """Ends the session."""
        await self._end(self._client.end)

    async def drop(self) -> None:
        """Ends the connection, and leaves the session to expire."""
        await self._end(self._client.drop)

    async def _end(self, end: Callable[[], None]) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._connected.set()
            await asyncio.to_thread(end)
            await self._batches.drain()

    def _hear(self, state: str) -> None:
        self._loop.call_soon_threadsafe(self._change, state)

    def _change(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._connected.set()
        elif not self._is_closed:
            self._connected.clear()

    # -- reading

    async def read(self, reads: Sequence[Read]) -> list[Any]:
        """A Node or a tuple of names for each, or None where there is no such znode. The first comes before all."""
        return await self._batches.read(reads)

    async def node(self, path: str, watch: Callable[[object], None] | None = None) -> Node | None:
        """One znode."""
        [answer] = await self.read([Read(path, watch=watch)])
        assert answer is None or isinstance(answer, Node)
        return answer

    async def nodes(self, paths: Iterable[str]) -> list[Node | None]:
        """Several znodes; the first is read before all others."""
        return await self.read([Read(path) for path in paths])

    async def learn(self, view: View, nodes: Sequence[str], names: Sequence[str] = ()) -> None:
        """Adds this to what a view knows; the first of it is read before all else."""
        answers = await self.read([*[Read(path) for path in nodes], *[Read(path, is_list=True) for path in names]])
        view.nodes.update(zip(nodes, answers[: len(nodes)], strict=True))
        view.lists.update(zip(names, [listed or () for listed in answers[len(nodes) :]], strict=True))

    async def _send(self, reads: Sequence[Read]) -> list[Any]:
        """One attempt at a batch of reads."""
        await self.until_connected()
        session_id = self.session_id
        sync: Callable[[], Any] = partial(self._client.sync_async, self._root)
        _, *answers = map(self._answer, await self._issue([sync, *map(self._call_of, reads)]))
        if session_id is None or session_id != self.session_id:
            raise Cut("the reads were not all in one session")
        return answers

    def _call_of(self, read: Read) -> Callable[[], Any]:
        get = self._client.get_children_async if read.is_list else self._client.get_async
        return partial(get, read.path, watch=read.watch)

    def _answer(self, outcome: Any) -> Any:
        if isinstance(outcome, exceptions.NoNodeError):
            return None
        judged = self._judge(outcome)
        if isinstance(judged, list):
            return tuple(judged)
        if isinstance(judged, tuple):
            data, stat = judged
            return Node(data or b"", stat.numChildren, stat.version)
        return judged

    # -- writing

    async def commit(self, operations: Iterable[Operation]) -> None:
        """Applies all operations or none; Conflict if none, Cut if it cannot be told."""
        transaction = self._client.transaction()
        for kind, path, data, version in operations:
            if kind is Kind.CHECK:
                transaction.check(path, version)
            elif kind is Kind.SET:
                transaction.set_data(path, data, version)
            elif kind is Kind.DELETE:
                transaction.delete(path, version)
            else:
                transaction.create(path, data, ephemeral=kind is Kind.CREATE_EPHEMERAL)
        [outcome] = await self._issue([transaction.commit_async])
        for each in self._judge(outcome):
            if isinstance(each, Exception) and not isinstance(each, _BYSTANDERS):
                self._judge(each)

    async def touch(self, path: str) -> None:
        """Writes nothing to a znode; Conflict if it is not there, Cut if it cannot be told."""
        await self.until_connected()
        [outcome] = await self._issue([partial(self._client.set_async, path, b"")])
        self._judge(outcome)

    # -- between the threads

    async def _issue(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """The outcomes of requests, sent in this order: values and exceptions."""
        future: asyncio.Future[list[Any]] = self._loop.create_future()

        def hand_on(outcomes: list[Any]) -> None:
            self._loop.call_soon_threadsafe(_arrive, future, outcomes)

        gathering = _Gathering(len(calls), hand_on)
        for place, call in enumerate(calls):
            call().rawlink(partial(gathering.note, place))
        return await future

    def _judge(self, outcome: Any) -> Any:
        """The outcome, if it is no failure; else what it means to the caller."""
        if not isinstance(outcome, Exception):
            return outcome
        if self._is_closed:
            raise StoreClosed("the store was closed: open another one") from outcome
        if isinstance(outcome, _CUTS):
            raise Cut(str(outcome)) from outcome
        if isinstance(outcome, _CONFLICTS):
            raise Conflict(str(outcome)) from outcome
        raise _failure(outcome) from outcome


def _failure(error: Exception) -> StoreError:
    if isinstance(error, _DENIALS):
        return AccessDenied(f"ZooKeeper does not allow this: {error!r}: see the access lists of the store's znodes")
    if isinstance(error, exceptions.QuotaExceededError):
        return StoreFull("the quota that ZooKeeper has for this path is used up: raise it, or remove records")
    return StoreFailed(f"ZooKeeper answers {error!r}, which this provider does not expect")


def _arrive(future: asyncio.Future[list[Any]], outcomes: list[Any]) -> None:
    if not future.done():
        future.set_result(outcomes)


class _Gathering:
    """Outcomes that come one by one, in any thread, handed on together."""

    def __init__(self, count: int, hand_on: Callable[[list[Any]], object]) -> None:
        self._outcomes: list[Any] = [None] * count
        self._left = set(range(count))
        self._hand_on = hand_on
        self._lock = threading.Lock()

    def note(self, place: int, result: Any) -> None:
        """Called by kazoo, more than once for some failures."""
        with self._lock:
            if place not in self._left:
                return
            self._left.remove(place)
            self._outcomes[place] = result.exception or result.value
            is_last = not self._left
        if is_last:
            self._hand_on(self._outcomes)
