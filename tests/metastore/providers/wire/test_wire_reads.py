"""Gets that go together, are asked again, and keep their bounds; pauses and deadlines; and where shards are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator

import grpc
import pytest
from wire_scripted import Context, ScriptedServer, connect, refuse

from metastore.clock import ManualClock
from metastore.interface.errors import InvalidRequest, StoreClosed, StoreFailed, Unavailable
from metastore.interface.store import MetadataStore
from metastore.interface.values import Record
from metastore.pb import oxia_pb2 as pb
from metastore.providers.wire.patience import FIRST_PAUSE_S, LONGEST_PAUSE_S, Backoff, Deadline
from metastore.providers.wire.reads import REQUESTS_UNDER_WAY_MAX
from metastore.providers.wire.scans import Pulled, items, merged


async def get_all(store: MetadataStore, keys: list[str]) -> list[Record | BaseException | None]:
    """Gets at the same time; what became of each."""
    return await asyncio.gather(*[store.get(key) for key in keys], return_exceptions=True)


def numbered(count: int) -> list[str]:
    return [f"{number:04d}" for number in range(count)]


def keys_asked(server: ScriptedServer) -> list[list[str]]:
    return [[get.key.decode() for get in request.gets] for request in server.reads]


def found(*gets: pb.GetRequest) -> bytes:
    answers = [pb.GetResponse(value=get.key, version=pb.Version()) for get in gets]
    return pb.ReadResponse(gets=answers).SerializeToString()


def test_gets_go_together_and_each_caller_hears_its_own() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server) as store:

            async def one_by_one(request: bytes, context: Context) -> AsyncIterator[bytes]:
                for get in pb.ReadRequest.FromString(request).gets:
                    yield found(get)

            server.read = one_by_one
            records = await get_all(store, numbered(50))
            assert [record.value for record in records if isinstance(record, Record)] == [
                key.encode() for key in numbered(50)
            ]
            assert keys_asked(server) == [numbered(50)]

    asyncio.run(scenario())


def test_full_requests_go_side_by_side_up_to_a_bound() -> None:
    async def scenario() -> None:
        release = asyncio.Event()
        async with ScriptedServer() as server, await connect(server, batch_operations_max=5) as store:

            async def held_back(request: bytes, context: Context) -> AsyncIterator[bytes]:
                await release.wait()
                yield found(*pb.ReadRequest.FromString(request).gets)

            server.read = held_back
            tasks = [asyncio.create_task(store.get(key)) for key in numbered(5 * REQUESTS_UNDER_WAY_MAX + 12)]
            while len(server.reads) < REQUESTS_UNDER_WAY_MAX:
                await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0)
            assert len(server.reads) == REQUESTS_UNDER_WAY_MAX
            release.set()
            await asyncio.gather(*tasks)
            assert sorted(key for keys in keys_asked(server) for key in keys) == numbered(len(tasks))
            assert max(map(len, keys_asked(server))) == 5

    asyncio.run(scenario())


def test_what_was_not_answered_is_asked_again() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server) as store:

            async def breaks_off(request: bytes, context: Context) -> AsyncIterator[bytes]:
                gets = pb.ReadRequest.FromString(request).gets
                yield found(*gets[:3])
                if len(gets) > 3:
                    await refuse(context, grpc.StatusCode.UNAVAILABLE, "shutting down")

            server.read = breaks_off
            records = await get_all(store, numbered(8))
            assert [record.key for record in records if isinstance(record, Record)] == numbered(8)
            assert keys_asked(server) == [numbered(8), numbered(8)[3:], numbered(8)[6:]]

    asyncio.run(scenario())


def test_one_bad_get_hurts_no_neighbour() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server) as store:

            async def choosy(request: bytes, context: Context) -> AsyncIterator[bytes]:
                gets = pb.ReadRequest.FromString(request).gets
                if any(get.key == b"bad" for get in gets):
                    await refuse(context, grpc.StatusCode.INVALID_ARGUMENT, "no")
                yield found(*gets)

            server.read = choosy
            outcomes = await get_all(store, ["a", "bad", "b"])
            assert [type(outcome) for outcome in outcomes] == [Record, InvalidRequest, Record]

    asyncio.run(scenario())


def test_answers_that_are_missing_or_cannot_be_read_are_named() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server) as store:

            async def too_few(request: bytes, context: Context) -> AsyncIterator[bytes]:
                yield found(*pb.ReadRequest.FromString(request).gets[:1])

            async def nonsense(request: bytes, context: Context) -> AsyncIterator[bytes]:
                yield b"\xff\xff"

            server.read = too_few
            outcomes = await get_all(store, ["a", "b"])
            assert [type(outcome) for outcome in outcomes] == [Record, StoreFailed]
            server.read = nonsense
            with pytest.raises(StoreFailed, match="cannot be read"):
                await store.get("a")

    asyncio.run(scenario())


def test_a_silent_server_is_waited_for_no_longer_than_allowed() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server, request_timeout_s=3.0) as store:

            async def silent(request: bytes, context: Context) -> AsyncIterator[bytes]:
                await asyncio.Event().wait()
                yield b""

            server.read = silent
            with pytest.raises(Unavailable, match=r"within 3 s \(no answer in time\)"):
                await store.get("a")

    asyncio.run(scenario())


def test_closing_ends_gets_that_wait() -> None:
    async def scenario() -> None:
        asked = asyncio.Event()
        async with ScriptedServer() as server, await connect(server) as store:

            async def silent(request: bytes, context: Context) -> AsyncIterator[bytes]:
                asked.set()
                await asyncio.Event().wait()
                yield b""

            server.read = silent
            sent = asyncio.create_task(store.get("sent"))
            await asked.wait()
            waiting = asyncio.create_task(store.get("waiting"))
            await asyncio.sleep(0)
            await store.close()
            outcomes = await asyncio.gather(sent, waiting, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StoreClosed] * 2

    asyncio.run(scenario())


def test_assignments_are_asked_for_again_when_somebody_doubts_them() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as old, ScriptedServer() as new, await connect(old) as store:

            async def gone(request: bytes, context: Context) -> AsyncIterator[bytes]:
                old.leaders = [new.address]  # and no word of it on the stream that is open
                await refuse(context, grpc.StatusCode.ABORTED, "oxia: node is not leader", "NODE_IS_NOT_LEADER")
                yield b""

            old.read = gone
            assert await store.get("a") is not None
            assert old.subscriptions == 2

    asyncio.run(scenario())


def test_pauses_grow_to_a_bound_and_differ() -> None:
    backoff = Backoff(random.Random(1))
    pauses = [backoff.next_s() for _ in range(12)]
    for number, pause in enumerate(pauses):
        bound = min(FIRST_PAUSE_S * 2**number, LONGEST_PAUSE_S)
        assert bound / 2 <= pause <= bound
    assert [Backoff(random.Random(2)).next_s()] != pauses[:1]
    backoff.reset()
    assert backoff.next_s() <= FIRST_PAUSE_S


def test_a_deadline_passes_by_the_clock() -> None:
    clock = ManualClock()
    deadline = Deadline(clock, 2.0)
    clock.advance_ms(1_500)
    assert [deadline.remaining_s, deadline.has_passed] == [pytest.approx(0.5), False]
    clock.advance_ms(1_000)
    assert [deadline.remaining_s, deadline.has_passed] == [0.0, True]


def test_items_that_come_one_by_one_are_merged_in_portions() -> None:
    async def numbers(first: int, count: int) -> AsyncGenerator[int, None]:
        for number in range(first, first + 3 * count, 3):
            yield number

    async def scenario() -> None:
        sources = [Pulled(numbers(first, count)) for first, count in ((0, 1000), (1, 256), (2, 0))]
        together = [number async for number in items(merged(sources, lambda number: (b"%08d" % number, b"")))]
        assert together == sorted([*range(0, 3000, 3), *range(1, 769, 3)])

    asyncio.run(scenario())
