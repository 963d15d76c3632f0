"""What the tests of the contract are given: a subject, an open store of it, and keys of their own.

A test is an async function. It runs on a loop of its own, on which its store was opened, and which ends with it.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack

import pytest
from store_helpers import OpenStore, Place

from metastore.interface import MetadataStore, open_store
from support.stores import SUBJECTS, Subject, parameters

TEST_WITHIN_S = 60.0

_places = itertools.count()


@pytest.fixture(scope="session", params=parameters(SUBJECTS))
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """Each of the stores that the contract is asked of."""
    found: Subject = request.param
    with found.started():
        yield found


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


@pytest.fixture
def open_one(subject: Subject, runner: asyncio.Runner) -> Iterator[OpenStore]:
    """Opens stores of the subject, which are closed behind the test."""
    stack = AsyncExitStack()

    async def open_another() -> MetadataStore:
        return await stack.enter_async_context(await open_store(subject.url))

    yield open_another
    runner.run(stack.aclose())


@pytest.fixture
def store(open_one: OpenStore, runner: asyncio.Runner) -> MetadataStore:
    """An open store."""
    return runner.run(open_one())


@pytest.fixture
def other(subject: Subject, open_one: OpenStore, runner: asyncio.Runner, store: MetadataStore) -> MetadataStore:
    """A second open store, as another process would have it."""
    if not subject.is_shared:
        pytest.skip("one store object at a time")
    return runner.run(open_one())


@pytest.fixture
def open_url(subject: Subject) -> str:
    return subject.url


@pytest.fixture
def place() -> Place:
    """Keys and indexes that no other test uses."""
    return Place(f"place-{next(_places):04d}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is an async function."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    test: Callable[..., Awaitable[None]] = pyfuncitem.obj
    runner = pyfuncitem.funcargs["runner"]
    assert isinstance(runner, asyncio.Runner), "an async test takes a store"
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}

    async def run() -> None:
        async with asyncio.timeout(TEST_WITHIN_S):
            await test(**arguments)

    runner.run(run())
    return True
