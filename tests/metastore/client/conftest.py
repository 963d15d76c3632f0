"""One server and one client for all tests of the client; each test has keys of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from metastore.client.client import Client
from support.fixtures import pytest_runtest_makereport  # noqa: F401
from support.server import ServerProcess

SHARDS = 3

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(shards=SHARDS) as server:
        yield server


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.address) as client:
        yield client


@pytest.fixture
def root() -> str:
    """A path under which nobody else has keys."""
    return f"/client-test-{next(_numbers)}"
