"""Conformance tests talk to real server processes, whose logs are shown beside a failure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from support.fixtures import pytest_runtest_makereport, start_server, stop_like_interrupted
from support.server import ServerProcess
from support.stock_client import stock_client
from support.wire import WireClient
from support.witness import SHARDS, Witness, give_records

__all__ = ["pytest_runtest_makereport", "start_server", "stop_like_interrupted"]

_spaces = itertools.count()


@pytest.fixture(scope="session", params=[1, 10], ids=lambda shards: f"shards={shards}")
def shared_server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server that many tests share, each in a key space of its own."""
    with ServerProcess(shards=request.param) as server:
        yield server


@pytest.fixture
def space() -> str:
    """A prefix of keys and indexes that no other test uses."""
    return f"space-{next(_spaces):04d}."


@pytest.fixture
def client(shared_server: ServerProcess) -> Iterator[Any]:
    """A stock client of the shared server."""
    with stock_client(shared_server.address) as made:
        yield made


@pytest.fixture
def other(shared_server: ServerProcess) -> Iterator[Any]:
    """A second client, with sessions of its own; a test may close it."""
    with stock_client(shared_server.address) as made:
        yield made


@pytest.fixture(scope="session")
def witnessed_wire() -> Iterator[WireClient]:
    """A client of a server to which bad input is sent."""
    with ServerProcess(shards=SHARDS) as server, WireClient(server.address) as made:
        give_records(made)
        yield made


@pytest.fixture
def witness(witnessed_wire: WireClient) -> Witness:
    """Sees that bad input changes nothing."""
    return Witness(witnessed_wire)
