"""Transactions that come at once: they go together, and each is answered as if it had been alone."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import pytest
from wire_scripted import Context, ScriptedServer, connect, refuse

from metastore.clock import ManualClock
from metastore.interface import (
    ABSENT,
    Condition,
    ConditionFailed,
    MetadataStore,
    OutcomeUnknown,
    Put,
    PutResult,
    SessionLost,
    StoreClosed,
    Unavailable,
    open_store,
)
from metastore.pb import oxia_pb2
from metastore.pb import tidemark_pb2 as pb
from metastore.providers.wire import protocol
from metastore.providers.wire.transacting import CALLS_MAX, TOGETHER_BYTES_MAX, TOGETHER_WITHIN_S
from support.server import ServerProcess

TOGETHER_MAX = 10


class TransactingServer(ScriptedServer):
    """Answers transactions when it is told to."""

    def __init__(self, together_max: int = TOGETHER_MAX) -> None:
        super().__init__()
        self._together_max = together_max
        self.may_answer = asyncio.Event()
        self.came = asyncio.Event()
        self.calls: list[int] = []
        """How many each call brought; 0 for one that came alone."""
        self.answer: Callable[[pb.TransactRequest], pb.TransactAnswer] = done
        self.unary |= {protocol.TRANSACT: self._one, protocol.TRANSACT_MANY: self._many}

    async def _describe(self, request: bytes, context: Context) -> bytes:
        described = pb.DescribeResponse.FromString(await super()._describe(request, context))
        described.limits.transactions_per_call_max = self._together_max
        return described.SerializeToString()

    async def _one(self, request: bytes, context: Context) -> bytes:
        self.calls.append(0)
        self.came.set()
        await self.may_answer.wait()
        answer = self.answer(pb.TransactRequest.FromString(request))
        if answer.WhichOneof("answer") != "response":
            await refuse(context, grpc.StatusCode.NOT_FOUND, "oxia: session not found", "SESSION_NOT_FOUND")
        return answer.response.SerializeToString()

    async def _many(self, request: bytes, context: Context) -> bytes:
        transactions = pb.TransactManyRequest.FromString(request).transactions
        self.calls.append(len(transactions))
        self.came.set()
        await self.may_answer.wait()
        return pb.TransactManyResponse(answers=map(self.answer, transactions)).SerializeToString()


def done(request: pb.TransactRequest) -> pb.TransactAnswer:
    """The version of each put says how long its value is, so that answers cannot be mixed up unnoticed."""
    results = [
        pb.TransactResult(version=oxia_pb2.Version(version_id=len(each.put.value))) for each in request.operations
    ]
    return pb.TransactAnswer(response=pb.TransactResponse(results=results))


def with_server(
    scenario: Callable[[TransactingServer, MetadataStore, ManualClock], Coroutine[Any, Any, None]],
    together_max: int = TOGETHER_MAX,
) -> None:
    async def run() -> None:
        clock = ManualClock()
        async with TransactingServer(together_max) as server, await connect(server, clock) as store:
            await scenario(server, store, clock)

    asyncio.run(run())


def begin(store: MetadataStore, count: int) -> list[asyncio.Task[tuple[PutResult | None, ...]]]:
    return [asyncio.create_task(store.transact("p", [Put("k", bytes(number))])) for number in range(count)]


async def held_up(server: TransactingServer, store: MetadataStore, more: int) -> list[asyncio.Task[Any]]:
    """As many calls as may be are under way, and more wait."""
    tasks = begin(store, CALLS_MAX + more)
    while len(server.calls) < CALLS_MAX:
        await server.came.wait()
        server.came.clear()
        await asyncio.sleep(0)
    return tasks


def versions(results: list[tuple[PutResult | None, ...]]) -> list[int]:
    return [result.version.version_id for (result,) in results if result is not None]


def test_one_alone_waits_for_nobody() -> None:
    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        server.may_answer.set()
        for _ in range(3):
            await store.transact("p", [Put("k", b"")])
        assert server.calls == [0, 0, 0]

    with_server(scenario)


def test_those_that_come_while_others_are_under_way_go_together() -> None:
    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        tasks = await held_up(server, store, TOGETHER_MAX + 5)
        assert server.calls == [0] * CALLS_MAX
        server.may_answer.set()
        assert versions(await asyncio.gather(*tasks)) == list(range(len(tasks)))
        assert sorted(server.calls[CALLS_MAX:]) == [5, TOGETHER_MAX]

    with_server(scenario)


def test_a_server_that_takes_them_one_by_one_gets_them_so() -> None:
    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        server.may_answer.set()
        assert versions(await asyncio.gather(*begin(store, 20))) == list(range(20))
        assert server.calls == [0] * 20

    with_server(scenario, together_max=0)


def test_each_has_an_end_of_its_own() -> None:
    def answer(request: pb.TransactRequest) -> pb.TransactAnswer:
        size = len(request.operations[0].put.value)
        if size == CALLS_MAX:
            return pb.TransactAnswer(refused=True)
        return pb.TransactAnswer() if size == CALLS_MAX + 1 else done(request)

    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        server.answer = answer
        tasks = await held_up(server, store, 4)
        server.may_answer.set()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        kinds = [type(each) for each in ended]
        assert kinds == [*[tuple] * CALLS_MAX, SessionLost, OutcomeUnknown, tuple, tuple]
        assert server.calls == [*[0] * CALLS_MAX, 4, 0], "the refused one has asked why"

    with_server(scenario)


def test_whoever_stops_waiting_is_left_out() -> None:
    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        tasks = await held_up(server, store, 3)
        tasks[-1].cancel()
        await asyncio.wait(tasks[-1:])
        server.may_answer.set()
        await asyncio.gather(*tasks[:-1])
        assert server.calls == [*[0] * CALLS_MAX, 2]

    with_server(scenario)


def test_nobody_waits_behind_others_for_longer_than_for_an_answer() -> None:
    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        tasks = await held_up(server, store, 3)
        clock.advance_ms(1_000_000)
        server.may_answer.set()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in ended[CALLS_MAX:]] == [Unavailable] * 3
        assert server.calls == [0] * CALLS_MAX

    with_server(scenario)


def test_too_few_answers_say_nothing_about_any_of_them() -> None:
    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        async def none(request: bytes, context: Context) -> bytes:
            return b""

        server.unary[protocol.TRANSACT_MANY] = none
        tasks = await held_up(server, store, 3)
        server.may_answer.set()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in ended[CALLS_MAX:]] == [OutcomeUnknown] * 3
        assert len({id(each) for each in ended[CALLS_MAX:]}) == 3, "an error belongs to one who waits"

    with_server(scenario)


def test_an_answer_that_cannot_be_read_leaves_the_outcome_open() -> None:
    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        async def noise(request: bytes, context: Context) -> bytes:
            await server.may_answer.wait()
            server.calls.append(-1)
            return b"\xff"

        server.unary |= {protocol.TRANSACT: noise, protocol.TRANSACT_MANY: noise}
        server.may_answer.set()
        ended = await asyncio.gather(*begin(store, CALLS_MAX + 3), return_exceptions=True)
        assert [type(each) for each in ended] == [OutcomeUnknown] * (CALLS_MAX + 3)

    with_server(scenario)


def test_an_older_server_in_the_place_of_the_first_gets_them_one_by_one() -> None:
    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        async def unknown(request: bytes, context: Context) -> bytes:
            await refuse(context, grpc.StatusCode.UNIMPLEMENTED, "unknown method TransactMany")
            raise AssertionError("the call has ended")

        server.unary[protocol.TRANSACT_MANY] = unknown
        tasks = await held_up(server, store, 2 * TOGETHER_MAX)
        server.may_answer.set()
        assert versions(await asyncio.gather(*tasks)) == list(range(len(tasks)))
        assert server.calls == [0] * len(tasks)

    with_server(scenario)


def test_whoever_began_much_later_does_not_end_with_the_first() -> None:
    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        tasks = await held_up(server, store, 2)
        await asyncio.sleep(0)
        clock.advance_ms(int(TOGETHER_WITHIN_S * 1000) + 1)
        later = begin(store, 3)
        await asyncio.sleep(0)
        server.may_answer.set()
        await asyncio.gather(*tasks, *later)
        assert sorted(server.calls[CALLS_MAX:]) == [2, 3]

    with_server(scenario)


def test_the_large_go_in_calls_of_their_own() -> None:
    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        tasks = await held_up(server, store, 2)
        large = [bytes(TOGETHER_BYTES_MAX // 2 + number) for number in range(1, 3)]
        more = [asyncio.create_task(store.transact("p", [Put("k", value)])) for value in large]
        await asyncio.sleep(0)
        server.may_answer.set()
        found = versions(await asyncio.gather(*tasks, *more))
        assert found == [*range(len(tasks)), *map(len, large)]
        assert sorted(server.calls[CALLS_MAX:]) == [0, 3], "two with the first large one, the other alone"

    with_server(scenario)


def test_a_store_that_is_closed_leaves_nobody_waiting() -> None:
    async def scenario(server: TransactingServer, store: MetadataStore, clock: ManualClock) -> None:
        tasks = await held_up(server, store, 3)
        await store.close()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, StoreClosed | OutcomeUnknown | Unavailable) for each in ended), ended
        assert [type(each) for each in ended[CALLS_MAX:]] == [StoreClosed] * 3
        with pytest.raises(StoreClosed):
            await store.transact("p", [Put("k", b"")])

    with_server(scenario)


def test_a_real_server_judges_each_by_itself() -> None:
    """Half of them want to be the first on their key, and one of each pair is; some are of a session that is gone."""

    async def scenario(store: MetadataStore) -> None:
        failed: set[str] = set()
        gone = await store.open_session()
        await store.put("/gone", b"", session=gone, partition_key="p")
        await gone.close()

        async def first(number: int) -> bool:
            key = f"/{number // 2}"
            try:
                await store.transact("p", [Put(key, b"%d" % number)], conditions=[Condition(key, ABSENT)])
            except ConditionFailed as error:
                failed.update(each.key for each in error.failed)
                return False
            return True

        async def lost(number: int) -> None:
            with pytest.raises(SessionLost):
                await store.transact("p", [Put(f"/lost/{number}", b"", is_ephemeral=True)], session=gone)

        tasks = [asyncio.create_task(first(number)) for number in range(200)]
        await asyncio.gather(*(lost(number) for number in range(5)))
        won = await asyncio.gather(*tasks)
        assert [won[number] != won[number + 1] for number in range(0, 200, 2)] == [True] * 100
        assert failed == {f"/{number}" for number in range(100)}
        for number in range(0, 200, 2):
            record = await store.get(f"/{number // 2}", partition_key="p")
            assert record is not None
            assert record.value == b"%d" % (number if won[number] else number + 1)
        assert await store.get("/lost/0", partition_key="p") is None

    async def run() -> None:
        async with await open_store(f"oxia://{server.address}") as store:
            await scenario(store)

    with ServerProcess() as server:
        asyncio.run(run())
        with urllib.request.urlopen(f"http://{server.metrics_address}/metrics") as answer:
            told = answer.read().decode()
    assert 'method="TransactMany"' in told
