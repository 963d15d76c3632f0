"""Pytest fixtures and hooks for tests that talk to servers; a conftest.py imports those it wants."""

from __future__ import annotations

import signal
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import Any, Protocol

import pytest

from support.server import ServerProcess, running


class StartServer(Protocol):
    """Starts a server; the arguments are those of ServerProcess."""

    def __call__(self, **options: Any) -> ServerProcess: ...


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Servers that are gone when the test is over."""
    with ExitStack() as servers:

        def start(**options: Any) -> ServerProcess:
            return servers.enter_context(ServerProcess(**options))

        yield start


@pytest.fixture(scope="session", autouse=True)
def stop_like_interrupted() -> Iterator[None]:
    """SIGTERM ends the tests as Ctrl-C does, so that the servers they have started are ended as well."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shows the end of the log of every running server beside a failure."""
    report = yield
    if report.failed:
        for server in running:
            report.sections.append((f"log of the server on {server.address}", server.log_tail()))
    return report
