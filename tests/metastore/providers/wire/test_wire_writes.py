"""What goes into a request, and what becomes of it when a server refuses it, moves, or goes silent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import grpc
import pytest
from wire_scripted import Context, ScriptedServer, connect, refuse, serve_writes, stored

from metastore.interface.errors import (
    AccessDenied,
    InvalidRequest,
    LimitExceeded,
    OutcomeUnknown,
    StoreClosed,
    StoreError,
    StoreFailed,
    StoreFull,
    Unavailable,
)
from metastore.interface.store import MetadataStore
from metastore.interface.values import PutResult, Range
from metastore.pb import oxia_pb2 as pb
from metastore.providers.wire.plain_store import OPERATION_BYTES_MAX
from metastore.providers.wire.writes import REQUESTS_UNDER_WAY_MAX

Outcome = PutResult | BaseException


async def put_all(store: MetadataStore, keys: list[str]) -> list[Outcome]:
    """Puts at the same time; what became of each."""
    return await asyncio.gather(*[store.put(key, b"v") for key in keys], return_exceptions=True)


def held_back(release: asyncio.Event, arrived: asyncio.Event | None = None) -> object:
    """A write stream that answers nothing until it is told to."""

    async def serve(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        async for request in requests:
            if arrived is not None:
                arrived.set()
            await release.wait()
            yield stored(pb.WriteRequest.FromString(request)).SerializeToString()

    return serve


def numbered(count: int) -> list[str]:
    return [f"{number:04d}" for number in range(count)]


def test_one_alone_is_sent_at_once_and_many_together() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server) as store:
            await store.put("alone", b"v")
            assert server.keys_of_writes() == [["alone"]]
            assert not [each for each in await put_all(store, numbered(100)) if isinstance(each, BaseException)]
            assert server.keys_of_writes()[1:] == [numbered(100)]

    asyncio.run(scenario())


def test_what_comes_while_a_request_is_under_way_goes_in_the_next() -> None:
    async def scenario() -> None:
        release, arrived = asyncio.Event(), asyncio.Event()
        async with ScriptedServer() as server, await connect(server) as store:
            server.write_stream = held_back(release, arrived)  # type: ignore[assignment]
            first = asyncio.create_task(store.put("first", b"v"))
            await arrived.wait()
            rest = [asyncio.create_task(store.put(key, b"v")) for key in numbered(3)]
            for task in rest:
                await asyncio.sleep(0)
                assert not task.done()
            release.set()
            await asyncio.gather(first, *rest)
            assert server.keys_of_writes() == [["first"], numbered(3)]

    asyncio.run(scenario())


def test_requests_keep_their_bounds_and_full_ones_do_not_wait() -> None:
    async def scenario() -> None:
        release = asyncio.Event()
        async with ScriptedServer() as server, await connect(server, batch_operations_max=10) as store:
            server.write_stream = held_back(release)  # type: ignore[assignment]
            tasks = [asyncio.create_task(store.put(key, b"v")) for key in numbered(10 * REQUESTS_UNDER_WAY_MAX + 25)]
            while len(store.shards.writes(0)._sent) < REQUESTS_UNDER_WAY_MAX:  # type: ignore[attr-defined]
                await asyncio.sleep(0)
            assert len(store.shards.writes(0).backlog) == 25  # type: ignore[attr-defined]
            release.set()
            await asyncio.gather(*tasks)
            assert {len(request.puts) for request in server.writes} <= {5, 10}
            assert [key for keys in server.keys_of_writes() for key in keys] == numbered(len(tasks))
        async with ScriptedServer() as server, await connect(server, batch_bytes_max=100) as store:
            await asyncio.gather(*[store.put(key, b"v" * 30) for key in numbered(9)])
            assert {len(request.puts) for request in server.writes} == {2, 1}

    asyncio.run(scenario())


def test_a_linger_gathers_what_comes_within_it() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server, linger_s=0.01) as store:
            first = asyncio.create_task(store.put("a", b"v"))
            for _ in range(5):
                await asyncio.sleep(0)
            await asyncio.gather(first, store.put("b", b"v"))
            assert server.keys_of_writes() == [["a", "b"]]
        async with ScriptedServer() as server, await connect(server, linger_s=3600, batch_operations_max=2) as store:
            await asyncio.gather(store.put("a", b"v"), store.put("b", b"v"))
            assert server.keys_of_writes() == [["a", "b"]]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, "", InvalidRequest),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "STORE_FULL", StoreFull),
    ],
)
def test_one_bad_operation_hurts_no_neighbour(code: grpc.StatusCode, reason: str, kind: type[StoreError]) -> None:
    async def serve(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        async for raw in requests:
            request = pb.WriteRequest.FromString(raw)
            if any(put.key == b"bad" for put in request.puts):
                await refuse(context, code, "no", reason)
            applied.update(put.key.decode() for put in request.puts)
            yield stored(request).SerializeToString()

    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server, batch_operations_max=8) as store:
            server.write_stream = serve
            keys = [*numbered(5), "bad", *numbered(40)[5:]]
            outcomes = dict(zip(keys, await put_all(store, keys), strict=True))
            assert isinstance(outcomes.pop("bad"), kind)
            assert {type(outcome) for outcome in outcomes.values()} == {PutResult}
            assert applied == Counter(outcomes.keys()), "each once"

    applied: Counter[str] = Counter()
    asyncio.run(scenario())


def test_a_caller_who_is_not_let_in_hears_so_at_once() -> None:
    async def serve(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        await refuse(context, grpc.StatusCode.UNAUTHENTICATED, "who are you?")
        yield b""

    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server) as store:
            server.write_stream = serve
            outcomes = await put_all(store, numbered(3))
            assert [type(outcome) for outcome in outcomes] == [AccessDenied] * 3

    asyncio.run(scenario())


@pytest.mark.parametrize("has_hint", [True, False])
def test_writes_follow_the_leader(has_hint: bool) -> None:
    async def scenario() -> None:
        async with ScriptedServer() as old, ScriptedServer() as new, await connect(old) as store:

            async def refused(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
                hint = {"shard": "0", "leader": new.address} if has_hint else {}
                old.leaders = [new.address]
                old.reassigned.set()
                await refuse(context, grpc.StatusCode.ABORTED, "oxia: node is not leader", "NODE_IS_NOT_LEADER", **hint)
                yield b""

            old.write_stream = refused
            outcomes = await put_all(store, numbered(5))
            assert {type(outcome) for outcome in outcomes} == {PutResult}
            assert new.keys_of_writes() == [numbered(5)]

    asyncio.run(scenario())


def test_what_was_sent_and_not_answered_is_never_sent_again() -> None:
    async def serve(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        seen = 0
        async for raw in requests:
            if seen == 2:
                return
            seen += 1
            yield stored(pb.WriteRequest.FromString(raw)).SerializeToString()

    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server, batch_operations_max=1) as store:
            server.write_stream = serve
            outcomes = await put_all(store, numbered(40))
            kinds = Counter(type(outcome) for outcome in outcomes)
            assert kinds.keys() == {PutResult, OutcomeUnknown}
            sent = Counter(key for keys in server.keys_of_writes() for key in keys)
            assert set(sent.values()) == {1}
            done = {key for key, outcome in zip(numbered(40), outcomes, strict=True) if isinstance(outcome, PutResult)}
            assert done <= sent.keys()

    asyncio.run(scenario())


def test_a_stream_that_has_answered_cannot_say_that_nothing_was_done() -> None:
    async def serve(requests: AsyncIterator[bytes], context: Context) -> AsyncIterator[bytes]:
        async for raw in requests:
            if b"second" in raw:
                await refuse(context, grpc.StatusCode.ABORTED, "oxia: node is not leader", "NODE_IS_NOT_LEADER")
            yield stored(pb.WriteRequest.FromString(raw)).SerializeToString()

    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server) as store:
            server.write_stream = serve
            await store.put("first", b"v")
            with pytest.raises(OutcomeUnknown):
                await store.put("second", b"v")

    asyncio.run(scenario())


def test_silence_ends_with_the_deadline() -> None:
    async def scenario() -> None:
        never = asyncio.Event()
        async with ScriptedServer() as server, await connect(server, request_timeout_s=3.0) as store:
            server.write_stream = held_back(never)  # type: ignore[assignment]
            with pytest.raises(OutcomeUnknown, match=r"no answer from .* within 3 s"):
                await store.put("a", b"v")
            server.write_stream = serve_writes(stored)
            while True:
                try:
                    await store.put("b", b"v")
                except (OutcomeUnknown, Unavailable):
                    continue  # the machine is slow: this has to succeed at some time
                break

    asyncio.run(scenario())


def test_without_a_leader_nothing_is_done() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server, request_timeout_s=3.0) as store:
            server.leaders = [""]
            server.reassigned.set()
            await store.caller.topology.wait_for_change()  # type: ignore[attr-defined]
            with pytest.raises(Unavailable, match=r"nothing was done within 3 s"):
                await store.put("a", b"v")
            with pytest.raises(Unavailable, match=r"nothing was done within 3 s"):
                await store.get("a")
            assert server.writes == []

    asyncio.run(scenario())


def test_answers_that_are_missing_are_named() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server) as store:
            server.write_stream = serve_writes(lambda request: pb.WriteResponse())
            with pytest.raises(StoreFailed, match="left out"):
                await store.put("a", b"v")

    asyncio.run(scenario())


def test_writes_of_one_key_take_effect_in_their_order() -> None:
    async def scenario() -> None:
        async with ScriptedServer() as server, await connect(server) as store:
            await asyncio.gather(
                store.put("k", b"1"), store.delete("k"), store.put("k", b"2"), store.delete_range(Range("a", "z"))
            )
            shapes = [(len(each.puts), len(each.deletes), len(each.delete_ranges)) for each in server.writes]
            assert shapes == [(1, 1, 0), (1, 0, 1)]

    asyncio.run(scenario())


def test_a_cancelled_put_is_not_sent() -> None:
    async def scenario() -> None:
        release, arrived = asyncio.Event(), asyncio.Event()
        async with ScriptedServer() as server, await connect(server) as store:
            server.write_stream = held_back(release, arrived)  # type: ignore[assignment]
            first = asyncio.create_task(store.put("first", b"v"))
            await arrived.wait()
            gone = asyncio.create_task(store.put("gone", b"v"))
            kept = asyncio.create_task(store.put("kept", b"v"))
            await asyncio.sleep(0)
            gone.cancel()
            release.set()
            await asyncio.gather(first, kept)
            assert server.keys_of_writes() == [["first"], ["kept"]]
            assert store.shards.writes(0)._window.operations == 0  # type: ignore[attr-defined]

    asyncio.run(scenario())


def test_closing_tells_everybody() -> None:
    async def scenario() -> None:
        arrived = asyncio.Event()
        async with ScriptedServer() as server, await connect(server) as store:
            server.write_stream = held_back(asyncio.Event(), arrived)  # type: ignore[assignment]
            waiting = [asyncio.create_task(store.put(key, b"v")) for key in numbered(3)]
            await arrived.wait()
            waiting.append(asyncio.create_task(store.put("later", b"v")))
            await asyncio.sleep(0)
            await store.close()
            outcomes = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [StoreClosed] * 4

    asyncio.run(scenario())


def test_a_plain_server_gets_sequence_puts_by_themselves() -> None:
    async def scenario() -> None:
        release = asyncio.Event()
        async with ScriptedServer(is_plain=True) as server, await connect(server, batch_operations_max=1) as store:
            server.write_stream = held_back(release)  # type: ignore[assignment]
            puts = [
                store.put("a", b"v"),
                store.put("s", b"v", partition_key="s", sequence_deltas=[1]),
                store.put("b", b"v"),
            ]
            tasks = [asyncio.create_task(put) for put in puts]
            lane = store.shards.writes(0)  # type: ignore[attr-defined]
            while not lane._sent:
                await asyncio.sleep(0)
            assert (len(lane._sent), len(lane.backlog)) == (1, 2)
            release.set()
            await asyncio.gather(*tasks)
            assert server.keys_of_writes() == [["a"], ["s"], ["b"]]

    asyncio.run(scenario())


def test_a_plain_server_gets_no_request_that_breaks_it() -> None:
    async def scenario() -> None:
        async with ScriptedServer(is_plain=True) as server, await connect(server) as store:
            with pytest.raises(LimitExceeded, match="OPERATION_BYTES_MAX"):
                await store.put("a", b"v" * OPERATION_BYTES_MAX)
            assert server.writes == []

    asyncio.run(scenario())
