"""The stores that the suite over `MetadataStore` is run on: one table, and how each of them is started.

A subject is started once for all its tests, which keep out of each other's way by prefixes. To add a provider, add a
line to the table: a name, and a context manager that yields a URL. Or name the URL of a store in the environment, as
TIDEMARK_TEST_STORE: then the suite is run on that one alone.
"""

from __future__ import annotations

import itertools
import os
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from _pytest.mark import ParameterSet

from peers.oxia import oxia_server
from support.ports import LOOPBACK
from support.server import ServerProcess, Sorting
from support.zookeeper import ZookeeperProcess

STORE_VARIABLE = "TIDEMARK_TEST_STORE"

StartSubject = Callable[[], AbstractContextManager[str]]

_numbers = itertools.count()


class Subject:
    """A store that the suite is run on."""

    def __init__(
        self,
        name: str,
        start: StartSubject,
        *,
        is_shared: bool = True,
        is_given_time: bool = False,
        is_peer: bool = False,
        faults: frozenset[str] = frozenset(),
    ) -> None:
        self.name = name
        self.is_shared = is_shared
        """Several store objects may be open at a time, as if in several processes."""
        self.is_given_time = is_given_time
        """It is also asked what takes seconds; of several alike only one is."""
        self.is_peer = is_peer
        """Software that is not part of the project."""
        self.faults = faults
        """What is known to be wrong with it, and cannot be put right from outside."""
        self._start = start
        self._url: str | None = None

    @property
    def url(self) -> str:
        assert self._url is not None, "the subject is not started"
        return self._url

    @contextmanager
    def started(self) -> Iterator[None]:
        with self._start() as self._url:
            yield
        self._url = None


def parameters(subjects: Iterable[Subject]) -> list[ParameterSet]:
    """The subjects as pytest takes them."""
    return [pytest.param(each, id=each.name, marks=[pytest.mark.peers] if each.is_peer else []) for each in subjects]


def given(url: str) -> StartSubject:
    """A store that somebody else looks after."""

    @contextmanager
    def start() -> Iterator[str]:
        yield url

    return start


def memory(options: str) -> StartSubject:
    """A store in this process, under a name of its own."""

    @contextmanager
    def start() -> Iterator[str]:
        yield f"memory://subject-{next(_numbers)}?{options}"

    return start


def lmdb(options: str) -> StartSubject:
    """The engine in this process, on a fresh directory."""

    @contextmanager
    def start() -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="tidemark-test-", ignore_cleanup_errors=True) as directory:
            yield f"lmdb://{directory}/data?{options}"

    return start


def service(shards: int, workers: int = 1, sorting: Sorting = "hierarchical") -> StartSubject:
    """This project's server, a process of its own."""

    @contextmanager
    def start() -> Iterator[str]:
        with _server(shards, workers, sorting) as server:
            yield f"oxia://{server.address}"

    return start


def _server(shards: int, workers: int, sorting: Sorting) -> ServerProcess:
    """A server that is not started yet, with free ports for all its workers, which count up from the first."""
    while True:
        server = ServerProcess(shards, sorting, extra_args=["--workers", str(workers)])
        public = range(server.port, server.port + workers)
        metrics = range(server.metrics_port, server.metrics_port + workers)
        if set(public).isdisjoint(metrics) and all(map(_is_free, [*public, *metrics])):
            return server
        server.close()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) != 0


def oxia(shards: int, sorting: Sorting = "hierarchical") -> StartSubject:
    """A real Oxia."""

    @contextmanager
    def start() -> Iterator[str]:
        with oxia_server(shards, sorting) as server:
            yield f"oxia://{server.address}?key_sorting={sorting}"

    return start


def zookeeper(options: str) -> StartSubject:
    """A real ZooKeeper."""

    @contextmanager
    def start() -> Iterator[str]:
        with ZookeeperProcess() as server:
            yield f"{server.url('store')}?{options}"

    return start


OXIA_FAULTS = frozenset(
    {
        "secondary keys",  # with slashes, with bytes up to 0x01, or empty, they are found at the wrong places
        "sequence neighbours",  # a sequence `x` breaks where a key like `x-1` is on its shard
        "largest value",  # does not fit its log, which stops working then
        "what was in a range",  # is not known to a watch that is resumed: where that matters its token has expired
    }
)
"""See docs/upstream-faults.md and docs/watch.md."""

ZOOKEEPER_LIMITS = frozenset({"largest value", "largest transaction"})
"""It takes a megabyte at a time. See docs/zookeeper.md."""

TABLE = (
    Subject("memory-1", memory("shards=1"), is_given_time=True),
    Subject("memory-3", memory("shards=3")),
    Subject("memory-natural", memory("shards=3&key_sorting=natural")),
    Subject("memory-lacking", memory("shards=3&lacks=transact,every_change,index_order")),
    Subject("lmdb-1", lmdb("shards=1"), is_shared=False, is_given_time=True),
    Subject("lmdb-natural", lmdb("shards=3&key_sorting=natural"), is_shared=False),
    Subject("service-1", service(1)),
    Subject("service-8", service(8, workers=2), is_given_time=True),
    Subject("oxia-1", oxia(1), is_peer=True, faults=OXIA_FAULTS),
    Subject("oxia-8", oxia(8), is_peer=True, is_given_time=True, faults=OXIA_FAULTS),
    Subject(
        "zookeeper",
        zookeeper("key_sorting=hierarchical"),
        is_peer=True,
        is_given_time=True,
        faults=ZOOKEEPER_LIMITS,
    ),
    Subject("zookeeper-natural", zookeeper("key_sorting=natural"), is_peer=True, faults=ZOOKEEPER_LIMITS),
)

SUBJECTS = (Subject("given", given(os.environ[STORE_VARIABLE])),) if STORE_VARIABLE in os.environ else TABLE
