"""The same coordination on every store there is: what it needs of the contract, all of them have."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from metastore.coordination import (
    Deposed,
    Election,
    Grant,
    Lock,
    Pace,
    Registration,
    SessionKeeper,
    View,
    members,
    read_guarded,
    watch_members,
)
from metastore.interface import MetadataStore, Range, open_store
from support.stores import SUBJECTS, Subject, parameters

WITHIN_S = 60.0
CANDIDATES = 3

_places = itertools.count()


@pytest.fixture(scope="module", params=parameters(SUBJECTS))
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    found: Subject = request.param
    with found.started():
        yield found


@asynccontextmanager
async def stores(subject: Subject) -> AsyncIterator[list[MetadataStore]]:
    """A store for each candidate, as if in processes of their own; the same where there can be only one."""
    async with AsyncExitStack() as stack:
        count = CANDIDATES if subject.is_shared else 1
        opened = [await stack.enter_async_context(await open_store(subject.url)) for _ in range(count)]
        yield (opened * CANDIDATES)[:CANDIDATES]


def run(subject: Subject, scenario: Callable[[list[MetadataStore], str], Awaitable[None]]) -> None:
    """Runs a scenario with stores and a name of its own, and sees that nothing ephemeral is left."""

    async def whole() -> None:
        async with asyncio.timeout(WITHIN_S), stores(subject) as opened:
            name = f"/coordination-{next(_places)}"
            await scenario(opened, name)
            for places in (Range(name, name + "\0"), Range(f"{name}/line-", f"{name}/line.")):
                assert [key async for key in opened[0].list(places, partition_key=name)] == []

    asyncio.run(whole())


async def until_in_line(store: MetadataStore, name: str, count: int) -> None:
    """Returns when so many wait for the grant."""
    line = Range(f"{name}/line-", f"{name}/line.")
    async with View(store, line, partition_key=name, pace=Pace()) as view:
        while len(view.records) < count:
            await view.news()


def test_candidates_lead_one_after_another(subject: Subject) -> None:
    async def scenario(opened: list[MetadataStore], name: str) -> None:
        terms: list[int] = []
        leading = 0

        async def stand(store: MetadataStore, number: int) -> None:
            nonlocal leading
            election = Election(store, name, b"%d" % number, identity=f"candidate-{number}")
            for _ in range(2):
                async with election.lead() as leadership:
                    leading += 1
                    assert leading == 1
                    terms.append(leadership.term)
                    leader = await election.leader()
                    assert leader is not None
                    assert (leader.term, leader.identity) == (leadership.term, f"candidate-{number}")
                    await leadership.update(b"moved")
                    await count(leadership, name)
                    leading -= 1

        async with asyncio.TaskGroup() as group:
            for number, store in enumerate(opened):
                group.create_task(stand(store, number))
        assert len(terms) == CANDIDATES * 2
        assert terms == sorted(set(terms))
        for partition_key in (name, name + "/elsewhere"):
            last = await read_guarded(opened[0], partition_key + "/count", partition_key=partition_key)
            assert (last.value, last.term) == (b"%d" % len(terms), terms[-1])

    run(subject, scenario)


async def count(leadership: Grant, name: str) -> None:
    for partition_key in (name, name + "/elsewhere"):
        record = leadership.guard(partition_key + "/count", partition_key=partition_key)
        await record.write(b"%d" % (int(await record.read() or b"0") + 1))
    if leadership.store.capabilities.transact:
        await leadership.put(name + "/state", b"%d" % leadership.term)


def test_observers_locks_and_what_is_given_up(subject: Subject) -> None:
    async def scenario(opened: list[MetadataStore], name: str) -> None:
        first, second, third = opened
        async with Election(third, name).observe() as leaders:
            assert await anext(leaders) is None
            async with Lock(first, name, b"held").hold() as grant:
                leader = await anext(leaders)
                assert leader is not None
                assert (leader.term, leader.value) == (grant.term, b"held")
                assert await Lock(second, name).try_acquire() is None
                waiting = asyncio.ensure_future(Lock(second, name).acquire())
                cancelled = asyncio.ensure_future(Lock(third, name).acquire())
                await until_in_line(first, name, 2)
                cancelled.cancel()
                await asyncio.wait({cancelled})
                assert not waiting.done()
            async with AsyncExitStack() as stack:
                successor = await waiting
                stack.push_async_callback(successor.release)
                assert successor.term > grant.term
                while leader is None or leader.term != successor.term:
                    leader = await anext(leaders)
                assert await third.delete(name, partition_key=name)
                await successor.wait_lost()
                with pytest.raises(Deposed):
                    await successor.guard(name + "/count").read()

    run(subject, scenario)


def test_members_come_and_go(subject: Subject) -> None:
    async def scenario(opened: list[MetadataStore], name: str) -> None:
        first, second, third = opened
        async with watch_members(third, name) as view:
            await anext(view)
            async with Registration(first, name, "a", b"1") as a:
                assert [member.name for member in (await anext(view)).joined] == ["a"]
                async with Registration(second, name, "b", b"2"):
                    assert [member.name for member in (await anext(view)).joined] == ["b"]
                    await a.update(b"3")
                    assert [member.value for member in (await anext(view)).changed] == [b"3"]
                    assert sorted(await members(third, name)) == ["a", "b"]
                assert [member.name for member in (await anext(view)).left] == ["b"]
                await third.delete(f"{name}/a", partition_key=name)
                while "a" not in view.members:
                    await anext(view)
                await a.wait_registered()
            while view.members:
                await anext(view)

    run(subject, scenario)


def test_the_end_of_a_session_hands_over(subject: Subject) -> None:
    async def scenario(opened: list[MetadataStore], name: str) -> None:
        first, second, _ = opened
        keeper = SessionKeeper(first)
        grant = await Election(first, name, keeper=keeper).campaign()
        waiting = asyncio.ensure_future(Election(second, name).campaign())
        await until_in_line(second, name, 1)
        await keeper.close()
        assert not grant.is_held
        successor = await waiting
        assert successor.term > grant.term
        await grant.release()
        successor.check()
        await successor.release()

    run(subject, scenario)
