"""The stock `oxia` client for Python, with the bounds that it lacks itself."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import grpc
import oxia
import xxhash
from oxia.internal.sequence_updates import pb
from oxia.internal.service_discovery import ServiceDiscovery

WITHIN_S = 60.0
"""How long anything may take that has to happen at all."""

BETWEEN_ATTEMPTS_S = 0.05
HASHES = 1 << 32

Item = TypeVar("Item")


class AwaitedAttribute:
    """An attribute for which waits whoever reads it before it is set."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _promise(self, instance: Any) -> Future[Any]:
        promise: Future[Any] = instance.__dict__.setdefault(self._name, Future())
        return promise

    def __get__(self, instance: Any, _owner: type) -> Any:
        return self._promise(instance).result(WITHIN_S)

    def __set__(self, instance: Any, value: Any) -> None:
        self._promise(instance).set_result(value)


# The client's constructor starts a thread before it makes the barrier that the thread uses. On a busy machine
# the server's answer comes in between, the thread dies, and the constructor gives up after 30 s.
ServiceDiscovery._init_barrier = AwaitedAttribute("_init_barrier")


def _sequence_updates(stub: Any, request: Any) -> Any:
    open_stream = stub._channel.unary_stream(
        "/io.streamnative.oxia.proto.OxiaClient/GetSequenceUpdates",
        pb.GetSequenceUpdatesRequest.SerializeToString,
        pb.GetSequenceUpdatesResponse.FromString,
    )
    return open_stream(request, wait_for_ready=True)


# While there is no server the client begins this call again and again, without a pause. Some of a few hundred calls
# that fail at once never tell grpcio's iterator so (1.85: a status, and two operations due for ever): it hangs.
pb.OxiaClientStub.get_sequence_updates = _sequence_updates


@contextmanager
def stock_client(address: str, **options: Any) -> Iterator[Any]:
    """A client of a server, closed at the end; a close that hangs is a failure."""
    client = oxia.Client(address, **options)
    try:
        yield client
    finally:
        assert finishes(client.close), "the client's close() hangs"


@contextmanager
def restarted_client(address: str, **options: Any) -> Iterator[Any]:
    """A client whose server will be restarted.

    It gets its shard assignments a second time then, and hangs in close() for ever: its own fault. Its
    threads are daemons, so it can be left behind.
    """
    client = oxia.Client(address, **options)
    try:
        yield client
    finally:
        threading.Thread(target=client.close, daemon=True, name="close of a client").start()


def finishes(action: Callable[[], object]) -> bool:
    """Whether an action that has no time-out of its own comes to its end."""
    thread = threading.Thread(target=action, daemon=True)
    thread.start()
    thread.join(WITHIN_S)
    return not thread.is_alive()


def until_reconnected(action: Callable[[], Item]) -> Item:
    """The result of an action as soon as the client has found its server again; it does not retry itself."""
    deadline_s = time.monotonic() + WITHIN_S
    while True:
        try:
            return action()
        except grpc.RpcError as error:
            if time.monotonic() > deadline_s or error.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            time.sleep(BETWEEN_ATTEMPTS_S)


def shard_of(key: str, shards: int) -> int:
    """Where this client (unlike others) keeps a key."""
    hashed = xxhash.xxh64(key).intdigest() % HASHES
    return int(hashed // ((HASHES - 1) // shards + 1))


class Collector(Generic[Item]):
    """Takes the items of an iterator that blocks, so that waiting for one is bounded."""

    def __init__(self, source: Iterable[Item]) -> None:
        self._items: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self._source = source
        self._thread = threading.Thread(target=self._collect, daemon=True, name="collector")
        self._thread.start()

    def _collect(self) -> None:
        for item in self._source:
            self._items.put(item)

    def next(self) -> Item:
        try:
            return self._items.get(timeout=WITHIN_S)
        except queue.Empty:
            raise TimeoutError(f"nothing came within {WITHIN_S} s") from None

    def take(self, count: int) -> list[Item]:
        return [self.next() for _ in range(count)]

    def ends(self) -> bool:
        """Whether the source ends."""
        self._thread.join(WITHIN_S)
        return not self._thread.is_alive()
