"""Connections that break anywhere: no acknowledged write is lost, none is done twice, and what lasts goes on."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress

import pytest
from wire_history import History, Outcome, by_shard, changes_until

from metastore.interface.errors import OutcomeUnknown, StoreError, Unavailable
from metastore.interface.store import MetadataStore
from metastore.interface.urls import Environment, open_store
from metastore.interface.values import ABSENT, Comparison, Range
from support.proxy import Fault, Plan, Proxy, Way
from support.server import ServerProcess

SHARDS = 2
WRITERS = 12
WRITES_OF_EACH = 40
FAULTS = 10


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(shards=SHARDS) as started:
        yield started


async def opened(address: str, options: str = "", seed: int = 0) -> MetadataStore:
    return await open_store(f"oxia://{address}{options}", Environment(random=random.Random(seed)))


def breaks(choice: random.Random, count: int) -> list[Plan]:
    """A script of connections that break in the middle of something."""
    kinds = [Fault.CUT, Fault.RESET, Fault.HALF_CLOSE, Fault.REFUSE]
    return [Plan(choice.choice(kinds), choice.choice(list(Way)), choice.randrange(150, 20_000)) for _ in range(count)]


def keys_on_every_shard(store: MetadataStore, prefix: str) -> set[str]:
    """One key for each shard."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < SHARDS:
        key = f"{prefix}-{number}"
        found.setdefault(store.shards.owner(key, None), key)  # type: ignore[attr-defined]
        number += 1
    return set(found.values())


@pytest.mark.parametrize("seed", range(2))
def test_writes_watches_and_sessions_survive_cuts(server: ServerProcess, seed: int) -> None:
    async def scenario() -> None:
        async with (
            Proxy(server.address) as proxy,
            await opened(server.address) as direct,
            await opened(proxy.address, seed=seed) as store,
        ):
            area = Range(f"w{seed}-", f"w{seed}.")
            async with direct.watch(area, snapshot=False) as witness, store.watch(area, snapshot=False) as watch:
                await anext(witness)
                await anext(watch)
                session = await store.open_session(30_000, identity="me")
                await store.put(f"e{seed}", b"", session=session)
                proxy.script.extend(breaks(random.Random(seed), FAULTS))
                proxy.reset_all()
                history = History()

                def is_over(writes: int) -> bool:
                    if proxy.script or writes < WRITES_OF_EACH:
                        return False
                    if not history.number_of(Outcome.UNKNOWN):
                        proxy.reset_all()  # none has met a write that was under way: those of the others are
                        return False
                    return True

                await asyncio.gather(
                    *[
                        history.write(store, f"w{seed}-{writer:02d}", is_over, is_conditional=writer % 2 == 0)
                        for writer in range(WRITERS)
                    ]
                )
                last = keys_on_every_shard(direct, f"w{seed}-last")
                for key in last:
                    await direct.put(key, b"")
                done = await changes_until(witness, last)
                assert history.violations([change for change in done if change.key not in last]) == []
                assert by_shard(await changes_until(watch, last)) == by_shard(done)
            assert history.number_of(Outcome.DONE) > 0
            assert history.number_of(Outcome.UNKNOWN) > 0, "the writers have gone on until this was so"
            assert not session.is_lost
            assert await direct.get(f"e{seed}") is not None
            await session.close()
            assert await direct.get(f"e{seed}") is None

    asyncio.run(scenario())


def test_reads_and_scans_do_not_notice_cuts(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with Proxy(server.address) as proxy, await opened(server.address) as direct:
            keys = [f"r-{number:04d}" for number in range(3_000)]
            await asyncio.gather(*[direct.put(key, b"x" * 100) for key in keys])
            proxy.script.extend(Plan(Fault.RESET, Way.DOWN, size) for size in (700, 1_500, 20_000, 60_000))
            async with await opened(proxy.address) as store:
                for number in range(0, 3_000, 100):
                    records = await asyncio.gather(*[store.get(key) for key in keys[number : number + 100]])
                    assert [record.key for record in records if record] == keys[number : number + 100]
                nearest = await store.get("r-0100a", comparison=Comparison.FLOOR)
                assert nearest is not None
                assert nearest.key == "r-0100"
            # All that was read is several times what the four that broke let through, so there was a fifth.
            assert proxy.connections >= 5

    asyncio.run(scenario())


def test_a_scan_is_whole_or_says_that_it_broke_off(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with Proxy(server.address) as proxy, await opened(server.address) as direct:
            keys = [f"s-{number:04d}" for number in range(2_000)]
            await asyncio.gather(*[direct.put(key, b"x" * 2_000) for key in keys])
            outcomes = set()
            for size in (5_000, 300_000, 1_200_000, 3_000_000, 3_900_000, 100_000_000):
                async with await opened(proxy.address) as store:
                    proxy.script.append(Plan(Fault.RESET, Way.DOWN, size))
                    proxy.reset_all()
                    outcomes.add(await outcome_of_scan(store, keys))
            assert {outcome.partition(" at ")[0] for outcome in outcomes} == {
                "whole",
                "scan ['s-', 's.') broke off",
            }

    asyncio.run(scenario())


async def outcome_of_scan(store: MetadataStore, keys: list[str]) -> str:
    try:
        found = [record.key async for record in store.scan(Range("s-", "s."))]
    except Unavailable as error:
        return str(error)
    return "whole" if found == keys else f"{len(found)} of {len(keys)}"


def test_a_server_that_cannot_be_reached_does_nothing(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with (
            Proxy(server.address) as proxy,
            await opened(server.address) as direct,
            await opened(proxy.address, "?request_timeout=1s") as store,
        ):
            await direct.put("n-1", b"v")
            assert await reached(store, "n-1") == b"v"
            await proxy.stop_listening()
            proxy.reset_all()
            error: StoreError = OutcomeUnknown("")
            while isinstance(error, OutcomeUnknown):  # the first may still meet the connection as it breaks
                with pytest.raises(StoreError) as raised:
                    await store.put("n-2", b"v", expected=ABSENT)
                error = raised.value
            assert isinstance(error, Unavailable)
            assert "nothing was done" in str(error)
            assert await direct.get("n-2") is None
            with pytest.raises(Unavailable):
                await store.get("n-1")
            with pytest.raises(Unavailable):
                await anext(store.list())
            await proxy.listen()
            assert await reached(store, "n-1") == b"v"

    asyncio.run(scenario())


async def reached(store: MetadataStore, key: str) -> bytes | None:
    """What a key holds, as soon as the server can be reached again."""
    while True:
        try:
            record = await store.get(key)
        except Unavailable:
            continue
        return None if record is None else record.value


def test_a_way_that_stands_still_ends_with_the_deadline(server: ServerProcess) -> None:
    async def scenario(way: Way) -> None:
        async with (
            Proxy(server.address) as proxy,
            await opened(server.address) as direct,
            await opened(proxy.address, "?request_timeout=1s") as store,
        ):
            key = f"stalled-{way.name}"
            await direct.put(key, b"1")
            assert await reached(store, key) == b"1"
            await store.put(f"{key}-before", b"")  # so that writes have a stream
            proxy.stall_all(way)
            with pytest.raises(OutcomeUnknown, match="no answer"):
                await store.put(key, b"2")
            with pytest.raises(Unavailable):
                await store.get(key)
            proxy.release()
            assert await reached(store, key) in (b"1", b"2")
            await store.put(f"{key}-after", b"")
            found = await direct.get(key)
            assert found is not None
            assert (found.value, found.version.modifications) in ((b"1", 0), (b"2", 1)), "nothing was done twice"

    asyncio.run(scenario(Way.UP))
    asyncio.run(scenario(Way.DOWN))


def test_a_sequence_is_followed_across_cuts(server: ServerProcess) -> None:
    async def scenario() -> None:
        async with (
            Proxy(server.address) as proxy,
            await opened(server.address) as direct,
            await opened(proxy.address) as store,
        ):
            following = store.watch_sequence("q", partition_key="p")
            last = ""
            for _ in range(8):
                key = (await direct.put("q", b"", partition_key="p", sequence_deltas=[1])).key
                while last != key:
                    news = await anext(following)
                    assert last < news <= key, "each key once, in order"
                    last = news
                proxy.reset_all()

    asyncio.run(scenario())


def test_a_restarted_server_is_found_again() -> None:
    async def scenario(server: ServerProcess) -> None:
        async with await opened(server.address) as store, store.watch(Range("k", "l")) as watch:
            await anext(watch)
            await anext(watch)
            session = await store.open_session(60_000)
            await store.put("e", b"", session=session)
            await asyncio.to_thread(server.restart, "kill")
            await put_until_done(store, "k1")
            assert [change.key for change in await changes_until(watch, {"k1"})] == ["k1"]
            await asyncio.to_thread(server.restart, "terminate")
            await put_until_done(store, "k2")
            assert [change.key for change in await changes_until(watch, {"k2"})] == ["k2"]
            assert not session.is_lost
            await session.close()
            assert await store.get("e") is None

    with ServerProcess() as server:
        asyncio.run(scenario(server))


async def put_until_done(store: MetadataStore, key: str) -> None:
    """Puts a new record, whatever happens in between."""
    while await store.get(key) is None:
        with suppress(OutcomeUnknown):
            await store.put(key, b"v", expected=ABSENT)
