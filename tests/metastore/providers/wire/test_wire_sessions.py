"""Sessions: parts on shards, heartbeats, and a loss that is known before the server can act on it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import pytest
from wire_scripted import Context, ScriptedServer, connect, refuse

from metastore.clock import ManualClock
from metastore.interface.errors import InvalidRequest, SessionLost
from metastore.interface.store import MetadataStore
from metastore.interface.urls import open_store
from metastore.pb import oxia_pb2 as pb
from metastore.providers.wire import protocol
from metastore.providers.wire.session import MARGIN_PARTS
from support.server import ServerProcess

TIMEOUT_MS = 10_000


class SessionServer(ScriptedServer):
    """Counts what it is asked about sessions."""

    def __init__(self, shards: int = 1) -> None:
        super().__init__(shards)
        self.created: list[int] = []
        self.closed: list[int] = []
        self.beats = 0
        self.answers_beats = True
        self.knows_sessions = True
        self.heard_beat = asyncio.Event()
        self.unary |= {
            protocol.CREATE_SESSION: self._create,
            protocol.KEEP_ALIVE: self._keep_alive,
            protocol.CLOSE_SESSION: self._close,
        }

    async def _create(self, request: bytes, context: Context) -> bytes:
        self.created.append(pb.CreateSessionRequest.FromString(request).shard)
        return pb.CreateSessionResponse(session_id=100 + len(self.created)).SerializeToString()

    async def _keep_alive(self, request: bytes, context: Context) -> bytes:
        self.beats += 1
        self.heard_beat.set()
        if not self.knows_sessions:
            await refuse(context, grpc.StatusCode.NOT_FOUND, "oxia: session not found", "SESSION_NOT_FOUND")
        if not self.answers_beats:
            await asyncio.Event().wait()
        return b""

    async def _close(self, request: bytes, context: Context) -> bytes:
        self.closed.append(pb.CloseSessionRequest.FromString(request).session_id)
        return b""


def with_server(scenario: Callable[[SessionServer, MetadataStore, ManualClock], object], shards: int = 1) -> None:
    async def run() -> None:
        clock = ManualClock()
        async with SessionServer(shards) as server, await connect(server, clock) as store:
            await scenario(server, store, clock)  # type: ignore[misc]

    asyncio.run(run())


def test_each_shard_has_a_part_from_the_first_record_on() -> None:
    async def scenario(server: SessionServer, store: MetadataStore, clock: ManualClock) -> None:
        session = await store.open_session(TIMEOUT_MS, identity="me")
        assert len(server.created) == 1, "one at once, to be judged by"
        await asyncio.gather(*[store.put(f"{number}", b"", session=session) for number in range(60)])
        assert sorted(server.created) == [0, 1, 2]
        puts = [put for request in server.writes for put in request.puts]
        assert {put.client_identity for put in puts} == {b"me"}
        assert len({put.session_id for put in puts}) == 3
        await session.close()
        assert sorted(server.closed) == [101, 102, 103]
        await session.close()
        assert len(server.closed) == 3

    with_server(scenario, shards=3)


def test_the_clock_alone_says_when_a_session_is_lost() -> None:
    async def scenario(server: SessionServer, store: MetadataStore, clock: ManualClock) -> None:
        session = await store.open_session(TIMEOUT_MS)
        relied_ms = TIMEOUT_MS - TIMEOUT_MS // MARGIN_PARTS
        assert session.remaining_s == pytest.approx(relied_ms / 1000)
        clock.advance_ms(relied_ms - 1)
        assert [session.is_lost, session.remaining_s > 0] == [False, True]
        clock.advance_ms(1)
        assert [session.is_lost, session.remaining_s > 0] == [True, False]
        with pytest.raises(SessionLost, match="out of reach"):
            await store.put("a", b"", session=session)
        assert server.writes == []
        await session.wait_lost()
        await session.close()
        assert server.closed == [], "it is left to expire"

    with_server(scenario)


def test_heartbeats_count_from_when_they_were_sent() -> None:
    async def scenario(server: SessionServer, store: MetadataStore, clock: ManualClock) -> None:
        session = await store.open_session(2_000)
        server.heard_beat.clear()
        before_s = session.remaining_s
        clock.advance_ms(500)
        while session.remaining_s < before_s:
            await server.heard_beat.wait()
            await asyncio.sleep(0)
        assert session.remaining_s == before_s

    with_server(scenario)


def test_a_silent_server_loses_the_session_in_time() -> None:
    async def scenario(server: SessionServer, store: MetadataStore, clock: ManualClock) -> None:
        session = await store.open_session(2_000)
        server.answers_beats = False
        await server.heard_beat.wait()
        clock.advance_ms(1_800)
        await session.wait_lost()
        assert session.is_lost

    with_server(scenario)


def test_a_session_that_the_server_does_not_know_is_lost_at_once() -> None:
    async def scenario(server: SessionServer, store: MetadataStore, clock: ManualClock) -> None:
        session = await store.open_session(2_000)
        server.knows_sessions = False
        await session.wait_lost()
        with pytest.raises(SessionLost, match="SESSION_NOT_FOUND|session not found"):
            await store.put("a", b"", session=session)

    with_server(scenario)


def test_a_put_that_finds_its_session_gone_tells_the_session() -> None:
    async def scenario() -> None:
        with_status = pb.WriteResponse(puts=[pb.PutResponse(status=pb.SESSION_DOES_NOT_EXIST)])
        async with SessionServer() as server, await connect(server, ManualClock()) as store:

            async def serve(requests: object, context: Context) -> object:
                async for _ in requests:  # type: ignore[attr-defined]
                    yield with_status.SerializeToString()

            server.write_stream = serve  # type: ignore[assignment]
            session = await store.open_session(TIMEOUT_MS)
            with pytest.raises(SessionLost):
                await store.put("a", b"", session=session)
            await session.wait_lost()
            assert session.is_lost

    asyncio.run(scenario())


def test_sessions_end_with_their_store_and_are_of_no_use_to_another() -> None:
    async def scenario(server: SessionServer, store: MetadataStore, clock: ManualClock) -> None:
        session = await store.open_session(TIMEOUT_MS)
        async with await connect(server, clock) as other:
            with pytest.raises(InvalidRequest, match="another store"):
                await other.put("a", b"", session=session)
        await store.close()
        await session.wait_lost()
        assert session.is_lost
        assert server.closed == []

    with_server(scenario)


def test_many_ephemeral_puts_at_once_make_one_part_of_each_shard() -> None:
    async def scenario(address: str) -> None:
        async with await open_store(f"oxia://{address}") as store, await store.open_session(identity="me") as session:
            results = await asyncio.gather(*[store.put(f"e-{number}", b"", session=session) for number in range(100)])
            assert {result.version.identity for result in results} == {"me"}
            assert len({result.version.session_id for result in results}) <= 3
            await session.close()
            assert [key async for key in store.list()] == []

    with ServerProcess(shards=3) as server:
        asyncio.run(scenario(server.address))
