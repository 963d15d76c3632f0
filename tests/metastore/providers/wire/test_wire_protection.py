"""TLS, client certificates and tokens in the URL; several servers; and servers that are no store."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from wire_scripted import ScriptedServer, connect

from metastore.clock import ManualClock
from metastore.dialling import TOKEN_RECHECK_S, Security
from metastore.interface.errors import (
    AccessDenied,
    InvalidUrl,
    NamespaceNotFound,
    StoreError,
    StoreFailed,
    Unavailable,
)
from metastore.interface.store import MetadataStore
from metastore.interface.urls import open_store
from metastore.interface.values import Put
from support.identity import Identity, TlsServer
from support.ports import LOOPBACK, free_port
from support.server import ServerProcess


async def use(url: str) -> bytes | None:
    """Opens a store and uses it a little, each kind of call."""
    async with await open_store(url) as store:
        await store.put("a", b"1")
        assert [record.key async for record in store.scan()] == ["a"]
        async with await store.open_session() as session:
            await store.transact("a", [Put("e", b"", is_ephemeral=True)], session=session)
        async with store.watch() as watch:
            await anext(watch)
        record = await store.get("a")
        return None if record is None else record.value


def test_mutual_tls_and_tokens_protect_every_call(tmp_path: Path) -> None:
    server_identity, known = Identity.make(tmp_path, "server"), Identity.make(tmp_path, "known")
    tokens, token, wrong = tmp_path / "tokens", tmp_path / "token", tmp_path / "wrong"
    tokens.write_text("me s3cret\n")
    token.write_text("s3cret\n")
    wrong.write_text("guess\n")

    trusting = f"ca_file={server_identity.certificate}"
    shown = f"{trusting}&cert_file={known.certificate}&key_file={known.key}"

    async def scenario(address: str) -> None:
        assert await use(f"oxia://{address}?{shown}&token_file={token}") == b"1"
        for unfit in (f"{shown}&token_file={wrong}", shown):
            with pytest.raises(AccessDenied):
                await open_store(f"oxia://{address}?{unfit}")
        for unfit in ("tls=false", "tls=true", trusting):
            with pytest.raises(Unavailable, match="TLS on both sides"):
                await open_store(f"oxia://{address}?{unfit}&token_file={token}&request_timeout=400ms")

    arguments = ("--tls-client-ca-file", str(known.certificate), "--tokens-file", str(tokens))
    with TlsServer(server_identity, known, *arguments) as server:
        asyncio.run(scenario(server.address))


def test_a_token_that_is_gone_is_said_to_everybody_who_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        path, clock = tmp_path / "token", ManualClock()
        path.write_text("s3cret")
        async with ScriptedServer() as server:
            store = await connect(server, clock, security=Security(token_file=path))
            path.unlink()
            clock.advance_ms(int(TOKEN_RECHECK_S * 1000))
            calls = [store.put("a", b""), store.get("a"), anext(store.list()), anext(store.watch(snapshot=False))]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [InvalidUrl] * 4
            path.write_text("s3cret")
            clock.advance_ms(int(TOKEN_RECHECK_S * 1000))
            await store.put("a", b"")
            await store.close()

    asyncio.run(scenario())


def test_any_server_of_the_list_will_do() -> None:
    async def scenario(address: str) -> None:
        dead = f"{LOOPBACK}:{free_port()}"
        assert await use(f"oxia://{dead},{address}") == b"1"
        with pytest.raises(Unavailable, match=f"no shard assignments from {dead} within 0.3 s"):
            await open_store(f"oxia://{dead}?request_timeout=300ms")

    with ServerProcess() as server:
        asyncio.run(scenario(server.address))


def test_an_unknown_namespace_is_said_at_once() -> None:
    async def scenario(address: str) -> None:
        with pytest.raises(NamespaceNotFound, match="'elsewhere'"):
            await open_store(f"oxia://{address}/elsewhere")

    with ServerProcess() as server:
        asyncio.run(scenario(server.address))


def test_what_is_no_store_is_named() -> None:
    async def refused(server: ScriptedServer) -> StoreError:
        with pytest.raises(StoreError) as raised:
            await connect(server)
        return raised.value

    async def scenario() -> None:
        async with ScriptedServer() as server:
            server.leaders = ["nowhere"]
            error = await refused(server)
            assert isinstance(error, StoreFailed)
            assert "'nowhere', which is not HOST:PORT" in str(error)

    asyncio.run(scenario())


def test_shards_are_found_at_the_workers_that_have_them() -> None:
    async def scenario(address: str) -> None:
        async with await open_store(f"oxia://{address}") as store:
            keys = [f"{number:03d}" for number in range(100)]
            await asyncio.gather(*[store.put(key, key.encode()) for key in keys])
            assert [key async for key in store.list()] == keys
            records = await asyncio.gather(*[store.get(key) for key in keys])
            assert [record.value for record in records if record] == [key.encode() for key in keys]
            assert len(leaders_of(store)) == 2

    server = ServerProcess(shards=4, extra_args=("--workers", "2"))
    with server:
        asyncio.run(scenario(server.address))


def leaders_of(store: MetadataStore) -> set[str]:
    return {shard.leader for shard in store.caller.topology.shards.shards}  # type: ignore[attr-defined]


def test_a_plain_oxia_is_recognised() -> None:
    async def scenario() -> None:
        async with ScriptedServer(is_plain=True) as server, await connect(server, key_sorting="natural") as store:
            assert store.key_sorting == "natural"
            assert not store.capabilities.transact
        async with ScriptedServer() as server, await connect(server, key_sorting="natural") as store:
            assert store.key_sorting == "hierarchical", "the server knows better"
            assert store.capabilities.transact

    asyncio.run(scenario())
