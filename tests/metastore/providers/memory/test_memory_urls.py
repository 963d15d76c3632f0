"""`memory://`: stores of one's own and shared ones, options, and what a store is told to lack."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from memory_helpers import asynchronous

from metastore.clock import ManualClock
from metastore.interface import (
    BlockingStore,
    Capabilities,
    Delete,
    Environment,
    InvalidRequest,
    InvalidUrl,
    Unsupported,
    open_store,
)
from metastore.interface.checks import SEQUENCE_DELTA_MAX
from metastore.providers.memory import MemoryData, MemoryStore, Script
from metastore.providers.memory.data import SHARDS_MAX

_names = itertools.count()


@pytest.fixture
def name() -> str:
    return f"urls-{next(_names)}"


@asynchronous
async def test_a_nameless_store_is_ones_own() -> None:
    async with await open_store("memory://") as one, await open_store("memory://") as two:
        await one.put("/a", b"")
        assert await two.get("/a") is None


@asynchronous
async def test_a_named_store_is_everybodys(name: str) -> None:
    async with await open_store(f"memory://{name}") as one, await open_store(f"memory://{name}") as two:
        await one.put("/a", b"1")
        found = await two.get("/a")
        assert found is not None
    async with await open_store(f"memory://{name}") as later:
        assert await later.get("/a") == found


@asynchronous
async def test_options_make_the_store(name: str) -> None:
    url = f"memory://{name}?shards=4&key_sorting=natural&retention=7&lacks=transact"
    script = Script()
    async with await open_store(url, Environment(clock=ManualClock(), faults=script)) as store:
        assert isinstance(store, MemoryStore)
        assert (len(store.data.shards), store.key_sorting, store.data.retention_writes) == (4, "natural", 7)
        assert store.script is script
        assert not store.capabilities.transact
        assert store.capabilities.watches_every_change
    async with await open_store(f"memory://{name}?shards=4") as joined:
        assert isinstance(joined, MemoryStore)
        assert joined.data is store.data
        assert joined.capabilities.transact


@pytest.mark.parametrize(
    "rest",
    [
        "?shards=0",
        "?shards=x",
        "?shards=-1",
        "?shards=²",
        f"?shards={SHARDS_MAX + 1}",
        "?key_sorting=random",
        "?retention=0",
        "?retention=",
        "?lacks=everything",
        "?lacks=transact,x",
        "?size=1",
        "name/path",
        "name:1",
        "/path",
    ],
)
def test_a_wrong_url_is_refused(rest: str) -> None:
    with pytest.raises(InvalidUrl):
        asyncio.run(open_store(f"memory://{rest}"))


@asynchronous
async def test_the_most_shards_work() -> None:
    async with await open_store(f"memory://?shards={SHARDS_MAX}") as store:
        for number in range(50):
            await store.put(f"/{number:02d}", b"")
        assert [key async for key in store.list()] == [f"/{number:02d}" for number in range(50)]


@asynchronous
async def test_who_joins_takes_the_store_as_it_is(name: str) -> None:
    async with await open_store(f"memory://{name}?shards=2"):
        for option in ("shards=3", "key_sorting=natural", "retention=5"):
            with pytest.raises(InvalidUrl, match=option.partition("=")[0]):
                await open_store(f"memory://{name}?{option}")


@asynchronous
async def test_what_a_store_lacks_it_refuses() -> None:
    async with await open_store("memory://?lacks=transact,every_change,index_order") as store:
        assert store.capabilities == Capabilities(False, False, False, False)
        with pytest.raises(Unsupported):
            await store.transact("p", [Delete("/a")])


@asynchronous
async def test_shards_are_where_a_servers_are() -> None:
    """A missing partition key is found out as it would be with a server: the record is on another shard."""
    store = MemoryStore(MemoryData(shards=8))
    where = {store.data.shard_of(f"partition-{number}").number for number in range(200)}
    assert where == set(range(8))
    key = next(f"/{number}" for number in range(100) if store.data.shard_of(f"/{number}") != store.data.shard_of("p"))
    await store.put(key, b"1", partition_key="p")
    assert await store.get(key) is None
    assert not await store.delete(key)
    assert await store.get(key, partition_key="p") is not None


@asynchronous
async def test_a_sequence_ends_where_its_numbers_do() -> None:
    store = MemoryStore()
    await store.put("s", b"", partition_key="p", sequence_deltas=[SEQUENCE_DELTA_MAX, 1])
    with pytest.raises(InvalidRequest, match="exhausted"):
        await store.put("s", b"", partition_key="p", sequence_deltas=[1, 1])


def test_several_loops_may_share_a_store(name: str) -> None:
    """A watch in one thread hears of what another thread's store does."""
    one, two = BlockingStore.open(f"memory://{name}"), BlockingStore.open(f"memory://{name}")
    with one, two, one.watch() as watch:
        assert [next(watch).kind.value for _ in range(2)] == ["snapshot-begin", "snapshot-end"]
        for number in range(100):
            two.put("/a", b"%d" % number)
            assert [change.key for change in next(watch).changes] == ["/a"]


def test_a_loop_that_ended_without_a_close_stops_nobody(name: str) -> None:
    async def leave_a_watch() -> None:
        store = await open_store(f"memory://{name}")
        watch = store.watch()
        for _ in range(2):
            await anext(watch)
        asyncio.get_running_loop().create_task(store.close())  # has no time to come to its end
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        del waiting

    async def write() -> None:
        async with await open_store(f"memory://{name}") as store:
            await store.put("/a", b"")

    asyncio.run(leave_a_watch())
    asyncio.run(write())


def test_the_same_test_takes_the_same_course() -> None:
    async def course() -> list[object]:
        store = MemoryStore(MemoryData(shards=3, clock=ManualClock()), Environment(clock=ManualClock()))
        done: list[object] = []

        async def work(name: str) -> None:
            for number in range(20):
                done.append(await store.put(f"/{name}/{number % 4}", b"%d" % number))
                done.append(await store.get(f"/{name}/{(number + 1) % 4}"))

        async def follow() -> None:
            async for batch in store.watch():
                done.append(batch.changes)

        following = asyncio.ensure_future(follow())
        await asyncio.gather(*(work(name) for name in "abc"))
        following.cancel()
        return done

    assert asyncio.run(course()) == asyncio.run(course())
